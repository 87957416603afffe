#include "hethub/accel/plugin/load.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

#include "hethub/base/error.h"
#include "hethub/base/files.h"
#include "hethub/base/plugin_folders.h"

namespace hethub {
namespace {

const std::filesystem::path kPlugins = HETHUB_TEST_PLUGINS;

PluginFile file_of(const std::string& name) {
  return {name, kPlugins / ("hethub-" + name + ".so")};
}

// HETHUB_PLUGIN_PATH for the life of one test.
class PluginPath {
 public:
  explicit PluginPath(const std::string& value) {
    if (const char* before = std::getenv("HETHUB_PLUGIN_PATH")) before_ = before;
    ::setenv("HETHUB_PLUGIN_PATH", value.c_str(), 1);
  }
  ~PluginPath() { ::setenv("HETHUB_PLUGIN_PATH", before_.c_str(), 1); }
  PluginPath(const PluginPath&) = delete;
  PluginPath& operator=(const PluginPath&) = delete;

 private:
  std::string before_ = {};
};

void expect_refused(const PluginFile& file, const std::string& why) {
  try {
    (void)Plugin(file);
    ADD_FAILURE() << file.path << " was loaded";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    EXPECT_NE(std::string(error.what()).find(file.path.string()), std::string::npos)
        << error.what();
    EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
  }
}

TEST(Load, what_is_no_usable_plugin_is_refused_with_the_file_and_the_reason) {
  expect_refused(file_of("none-there"), "cannot open shared object file");
  expect_refused(file_of("test-no-plugin"), "no function hethub_plugin");
  expect_refused(file_of("test-old"), "version 0");
  expect_refused(file_of("test-lacking"), "hethub_test_function_of_a_missing_library");
  expect_refused({"cuda", file_of("served-cpu").path}, "the backend served-cpu");
}

TEST(Load, a_table_without_one_of_its_functions_or_of_another_size_is_refused) {
  const PluginFile file{"x", "x.so"};
  HethubPlugin table = {};
  table.version = HETHUB_PLUGIN_VERSION;
  table.bytes = sizeof(table) - 8;
  table.name = "x";
  EXPECT_THROW((void)checked(&table, file), Error);
  table.bytes = sizeof(table);
  EXPECT_THROW((void)checked(&table, file), Error);
  EXPECT_THROW((void)checked(nullptr, file), Error);
}

TEST(Load, a_plugin_is_found_in_the_first_folder_that_has_it) {
  const std::filesystem::path folder = text(testing::TempDir(), "plugins-", ::getpid());
  std::filesystem::create_directories(folder);
  for (const char* name : {"hethub-served-cpu.so", "hethub-.so", "libother.so", "hethub-x.txt"}) {
    write_file(folder / name, "not a shared object");
  }
  const PluginPath path(text(folder.string(), "::/not/there:", kPlugins.string()));
  const std::vector<PluginFile> files = plugin_files(plugin_folders());
  const auto served = std::find_if(
      files.begin(), files.end(), [](const PluginFile& file) { return file.name == "served-cpu"; });
  ASSERT_NE(served, files.end());
  EXPECT_EQ(served->path.parent_path(), folder);
  EXPECT_TRUE(std::none_of(files.begin(), files.end(), [](const PluginFile& file) {
    return file.name.empty() || file.name == "x";
  }));
  expect_refused(*served, "file too short");
  std::filesystem::remove_all(folder);
}

TEST(Load, what_cannot_be_loaded_is_listed_among_the_devices_with_the_reason) {
  const PluginPath path(kPlugins.string());
  const std::vector<FoundDevice> devices = find_devices();
  const auto problem_of = [&](const std::string& name) {
    for (const FoundDevice& device : devices) {
      if (device.backend == name) return device.problem;
    }
    return std::string("it is not listed");
  };
  EXPECT_NE(problem_of("test-old").find("version 0"), std::string::npos) << problem_of("test-old");
  EXPECT_NE(problem_of("test-no-plugin").find("hethub_plugin"), std::string::npos);
  for (const PluginKind& kind : kPluginKinds) {
    const std::string name(kind.name);
    const std::vector<std::string> there = plugin_names();
    if (std::find(there.begin(), there.end(), name) != there.end()) continue;
    EXPECT_NE(problem_of(name).find("hethub-" + name + ".so"), std::string::npos)
        << problem_of(name);
  }
}

TEST(Load, a_served_backend_reports_what_it_reports_without_an_edge) {
  const PluginPath path(kPlugins.string());
  ASSERT_TRUE(is_backend("served-cpu"));
  EXPECT_FALSE(is_backend("served-gpu"));
  const DeviceInfo plain = open_backend("cpu", {.threads = 1})->info();
  const DeviceInfo served = open_backend("served-cpu", {.threads = 1})->info();
  EXPECT_EQ(served.name, plain.name);
  EXPECT_EQ(served.driver, plain.driver);
  EXPECT_EQ(served.memory_bytes, plain.memory_bytes);
}

TEST(Load, an_error_in_a_plugin_arrives_with_its_code) {
  const PluginPath path(kPlugins.string());
  try {
    (void)open_backend("served-cpu", {.device = 7});
    FAIL() << "device 7 was opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable) << error.what();
  }
}

TEST(Load, objects_of_another_backend_are_refused) {
  const PluginPath path(kPlugins.string());
  const auto plain = open_backend("cpu", {});
  const auto served = open_backend("served-cpu", {});
  const auto queue = served->make_queue();
  const auto buffer = plain->allocate(16);
  const auto event = plain->make_event();
  EXPECT_THROW(queue->copy({buffer.get(), 0, 8}, {buffer.get(), 8, 8}), Error);
  EXPECT_THROW(queue->record(*event), Error);
}

TEST(Load, a_device_type_belongs_to_a_backend_that_reaches_several) {
  try {
    (void)open_backend("cpu:cuda", {});
    FAIL() << "cpu:cuda was opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
  }
}

}  // namespace
}  // namespace hethub

#include "hethub/accel/plugin/load.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include <dlfcn.h>

#include "hethub/accel/plugin/forms.h"
#include "hethub/accel/plugin/proxy.h"
#include "hethub/base/error.h"

namespace hethub {
namespace {

constexpr std::string_view kPrefix = "hethub-";
constexpr std::string_view kSuffix = ".so";

[[noreturn]] void refuse(const PluginFile& file, std::string found, std::string expected,
                         std::string fix) {
  throw Error(ErrorCode::kUnavailable, {.what = text("plug-in ", file.path.string()),
                                        .found = std::move(found),
                                        .expected = std::move(expected),
                                        .fix = std::move(fix)});
}

// From the first function on, the table is nothing but functions.
bool lacks_a_function(const HethubPlugin& table) {
  constexpr std::size_t kFirst = offsetof(HethubPlugin, find);
  for (std::size_t at = kFirst; at < sizeof(HethubPlugin); at += sizeof(void*)) {
    void* function = nullptr;
    std::memcpy(&function, reinterpret_cast<const char*>(&table) + at, sizeof(function));
    if (function == nullptr) return true;
  }
  return false;
}

}  // namespace

std::vector<PluginFile> plugin_files(const std::vector<std::filesystem::path>& folders) {
  std::vector<PluginFile> files;
  for (const std::filesystem::path& folder : folders) {
    std::error_code missing;
    for (const auto& entry : std::filesystem::directory_iterator(folder, missing)) {
      const std::string name = entry.path().filename().string();
      if (name.size() <= kPrefix.size() + kSuffix.size() || !name.starts_with(kPrefix) ||
          !name.ends_with(kSuffix)) {
        continue;
      }
      const std::string backend =
          name.substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size());
      const bool known = std::any_of(files.begin(), files.end(),
                                     [&](const PluginFile& file) { return file.name == backend; });
      if (!known) files.push_back({backend, entry.path()});
    }
  }
  std::sort(files.begin(), files.end(),
            [](const PluginFile& a, const PluginFile& b) { return a.name < b.name; });
  return files;
}

const HethubPlugin& checked(const HethubPlugin* table, const PluginFile& file) {
  const std::string rebuild = "build the plug-in from the sources of this program";
  if (table == nullptr) refuse(file, "no table", "one", rebuild);
  // Of another version, nothing but the version can be relied on.
  if (table->version != HETHUB_PLUGIN_VERSION) {
    refuse(file, text("version ", table->version, " of the plug-in interface"),
           text("version ", HETHUB_PLUGIN_VERSION), rebuild);
  }
  if (table->bytes != sizeof(HethubPlugin)) {
    refuse(file, text("a table of ", table->bytes, " bytes"), text(sizeof(HethubPlugin)), rebuild);
  }
  if (lacks_a_function(*table)) refuse(file, "a table that lacks a function", "all", rebuild);
  if (table->name == nullptr || file.name != table->name) {
    refuse(file, text("the backend ", table->name == nullptr ? "without a name" : table->name),
           file.name, "give the file the name it was built with");
  }
  return *table;
}

// A plug-in's libraries look for symbols among themselves first (HETHUB_PLUGIN_BINDING): Debian's
// libsentencepiece, which the program needs, has a protobuf of its own that would take the place of
// the one that libtorch needs.
Plugin::Plugin(const PluginFile& file) {
  void* library = ::dlopen(std::filesystem::absolute(file.path).c_str(),
                           RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE | HETHUB_PLUGIN_BINDING);
  if (library == nullptr) {
    const char* why = ::dlerror();
    refuse(file, why == nullptr ? "it cannot be loaded" : why,
           "a shared object whose libraries are here",
           "install the library that is named, or remove the plug-in");
  }
  const auto entry = reinterpret_cast<decltype(&hethub_plugin)>(::dlsym(library, "hethub_plugin"));
  if (entry == nullptr) {
    refuse(file, "no function hethub_plugin", "one", "remove the file: it is no plug-in");
  }
  table_ = &checked(entry(), file);
}

std::vector<FoundDevice> Plugin::find() const {
  std::vector<FoundDevice> devices;
  for (std::int32_t line = 0;; ++line) {
    HethubDevice device = {};
    HethubError error = {};
    std::int32_t found = 0;
    if (table_->find(line, &device, &found, &error) != 0) throw error_of(error);
    if (found == 0) return devices;
    devices.push_back(device_of(device));
  }
}

std::unique_ptr<Backend> Plugin::open(const BackendOptions& options) const {
  return open_proxy(*table_, options);
}

}  // namespace hethub

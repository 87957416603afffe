#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "hethub/accel/opencl/device.h"
#include "hethub/accel/opencl/kernels.h"
#include "hethub/accel/opencl/program.h"
#include "hethub/base/error.h"
#include "hethub/base/files.h"
#include "tests/accel/opencl/run.h"

namespace hethub::opencl {
namespace {

class ProgramsTest : public testing::Test {
 protected:
  ProgramsTest() {
    std::string name = (std::filesystem::temp_directory_path() / "hethub-opencl-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    device_ = list_devices().at(0);
    cl_int status = CL_SUCCESS;
    context_.reset(clCreateContext(nullptr, 1, &device_, nullptr, nullptr, &status));
  }
  ~ProgramsTest() override { std::filesystem::remove_all(folder_); }

  // How many compilations it takes to have the loss kernels.
  int compilations(const std::filesystem::path& folder) {
    Programs programs(context_.get(), device_, folder);
    const Source source{"loss", kLossSource, "-cl-std=CL1.2 -DWIDTH=4 -DLANES=1 -DITEMS=1"};
    EXPECT_NE(programs.get(source), nullptr);
    EXPECT_EQ(programs.get(source), programs.get(source));
    return programs.compiled();
  }

  std::filesystem::path only_file() const {
    return std::filesystem::directory_iterator(folder_)->path();
  }

  std::filesystem::path folder_;
  cl_device_id device_ = nullptr;
  Context context_;
};

TEST_F(ProgramsTest, a_program_is_compiled_once_and_then_loaded) {
  EXPECT_EQ(compilations(folder_), 1);
  EXPECT_EQ(compilations(folder_), 0);
}

TEST_F(ProgramsTest, a_damaged_file_is_compiled_again_and_replaced) {
  EXPECT_EQ(compilations(folder_), 1);
  const std::string good = read_file(only_file());
  const std::size_t middle = good.size() / 2;
  std::string flipped = good;
  flipped[middle] = static_cast<char>(flipped[middle] ^ 1);
  for (const std::string& bad : {std::string(), good.substr(0, 7), good.substr(0, middle), flipped,
                                 good + "x", std::string(1000, 'x')}) {
    write_file(only_file(), bad);
    EXPECT_EQ(compilations(folder_), 1) << bad.size();
    EXPECT_EQ(compilations(folder_), 0) << bad.size();
  }
}

TEST_F(ProgramsTest, a_folder_that_cannot_be_written_only_costs_a_compilation) {
  std::ofstream(folder_ / "file") << "no folder";
  EXPECT_EQ(compilations(folder_ / "file" / "cache"), 1);
  EXPECT_EQ(compilations(folder_ / "file" / "cache"), 1);
}

TEST_F(ProgramsTest, source_that_does_not_compile_is_reported_with_the_log) {
  Programs programs(context_.get(), device_, folder_);
  try {
    programs.get({"broken", "kernel nonsense", "-DWIDTH=4 -DLANES=1 -DITEMS=1"});
    FAIL() << "it compiled";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInternal);
    EXPECT_NE(std::string(error.what()).find("CL_BUILD_PROGRAM_FAILURE"), std::string::npos)
        << error.what();
  }
}

// Kernels loaded from a file must be the ones that were compiled: equal runs give equal bits.
TEST_F(ProgramsTest, loaded_kernels_give_the_bits_of_compiled_ones) {
  const Op op{.name = "y", .body = Linear{.rows = 50, .in = 70, .out = 90}};
  std::vector<std::vector<float>> inputs(2);
  for (int i = 0; i < 70 * 90; ++i) {
    if (i < 50 * 70) inputs[0].push_back(static_cast<float>(i % 101) / 7);
    inputs[1].push_back(static_cast<float>(i % 89) / 11);
  }
  std::vector<std::vector<float>> results;
  for (int start = 0; start < 2; ++start) {
    const auto backend = open_opencl({}, OpenclChoices{.cache_folder = folder_});
    OpRun run(*backend, op, inputs);
    run.queue_run();
    results.push_back(run.output(0));
  }
  EXPECT_EQ(results[0], results[1]);
}

}  // namespace
}  // namespace hethub::opencl

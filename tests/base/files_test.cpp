#include "hethub/base/files.h"

#include <array>
#include <atomic>
#include <functional>
#include <iterator>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "hethub/base/error.h"

namespace hethub {
namespace {

namespace fs = std::filesystem;

// A folder of its own for each test, gone afterwards.
class Files : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(testing::TempDir()) / (std::string("hethub_files_") + test->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), {}));
  }

  fs::path folder_ = {};
};

ErrorCode code_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorCode::kInternal;
}

TEST_F(Files, what_was_written_is_read) {
  std::string content(3'000'001, '\0');
  for (std::size_t byte = 0; byte < content.size(); ++byte) {
    content[byte] = static_cast<char>(byte * 31);
  }
  for (const std::size_t length : {std::size_t{0}, std::size_t{1}, content.size()}) {
    write_file(folder_ / "f", content.substr(0, length));
    EXPECT_EQ(read_file(folder_ / "f"), content.substr(0, length));
  }
  EXPECT_EQ(entries(), 1U);
}

TEST_F(Files, a_file_that_is_not_there_or_is_a_folder_is_missing_input) {
  EXPECT_EQ(code_of([&] { read_file(folder_ / "absent"); }), ErrorCode::kMissingInput);
  EXPECT_EQ(code_of([&] { read_file(folder_); }), ErrorCode::kMissingInput);
}

TEST_F(Files, what_cannot_be_written_leaves_nothing_behind) {
  EXPECT_EQ(code_of([&] { write_file(folder_ / "absent" / "f", "x"); }), ErrorCode::kCannotWrite);
  fs::create_directory(folder_ / "taken");
  EXPECT_EQ(code_of([&] { write_file(folder_ / "taken", "x"); }), ErrorCode::kCannotWrite);
  EXPECT_EQ(entries(), 1U);
  EXPECT_TRUE(fs::is_directory(folder_ / "taken"));
}

TEST_F(Files, a_reader_sees_one_writers_whole_content_at_any_time) {
  const fs::path file = folder_ / "f";
  const std::array<std::string, 2> contents = {std::string(200'000, 'a'), std::string(100, 'b')};
  write_file(file, contents[0]);
  std::atomic<bool> stop = false;
  std::vector<std::thread> writers;
  for (const std::string& content : contents) {
    writers.emplace_back([&] {
      while (!stop) {
        write_file(file, content);
      }
    });
  }
  for (int times = 0; times < 200; ++times) {
    const std::string found = read_file(file);
    EXPECT_TRUE(found == contents[0] || found == contents[1]) << found.size();
  }
  stop = true;
  for (std::thread& writer : writers) {
    writer.join();
  }
  EXPECT_EQ(entries(), 1U);
}

TEST(BytesText, has_the_unit_that_leaves_a_small_number) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(831), "831 B");
  EXPECT_EQ(bytes_text(12 << 20), "12.00 MiB");
  EXPECT_EQ(bytes_text(1.5 * 1024 * 1024 * 1024), "1.50 GiB");
  EXPECT_EQ(bytes_text(0x1p52), "4096.00 TiB");
}

}  // namespace
}  // namespace hethub

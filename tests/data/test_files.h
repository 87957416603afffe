#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "hethub/base/error.h"
#include "hethub/base/files.h"
#include "hethub/base/text.h"
#include "hethub/data/indexed_dataset.h"

namespace hethub {

/// A folder of its own that is gone at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    static std::atomic<int> next = 0;
    path_ = std::filesystem::temp_directory_path() / text("hethub_data_", ::getpid(), "_", next++);
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string path(const std::string& name) const { return (path_ / name).string(); }

  /// Writes a file and returns its path. An older one is removed first: some file systems wait for
  /// the disk when a file is cut to nothing and written again.
  std::string write(const std::string& name, std::string_view content) const {
    std::filesystem::remove(path_ / name);
    std::ofstream out(path_ / name, std::ios::binary);
    out.write(content.data(), static_cast<std::streamsize>(content.size()));
    return path(name);
  }

  /// How many files it holds.
  std::size_t files() const {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(path_)) {
      ++count;
    }
    return count;
  }

 private:
  std::filesystem::path path_;
};

/// The error that `action` throws; a failure if it throws none.
template <typename Action>
Error error_of(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error was thrown";
  return Error(ErrorCode::kInternal, {});
}

/// Whether `whole` holds `part`, with both shown if not.
inline ::testing::AssertionResult holds(std::string_view whole, std::string_view part) {
  if (whole.find(part) != std::string_view::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "\"" << whole << "\" has no \"" << part << "\"";
}

/// Writes documents as a token dataset.
inline void write_dataset(const std::string& prefix, TokenType type,
                          const std::vector<std::vector<std::int32_t>>& documents) {
  IndexedDatasetWriter writer(prefix, type);
  for (const auto& document : documents) {
    writer.append(document);
    writer.end_document();
  }
  writer.finish();
}

}  // namespace hethub

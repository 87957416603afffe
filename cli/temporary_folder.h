#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "hethub/base/error.h"

namespace hethub {

/// A folder that is gone when the verb ends: where its ranks leave what they measured.
struct TemporaryFolder {
  std::filesystem::path path = {};

  explicit TemporaryFolder(std::string_view verb) {
    std::string name = (std::filesystem::temp_directory_path() / text("hethub-", verb, "-XXXXXX"));
    if (::mkdtemp(name.data()) == nullptr) {
      throw Error(ErrorCode::kCannotWrite, {.what = name,
                                            .found = "no folder can be made there",
                                            .expected = "room for a few small files",
                                            .fix = "set TMPDIR to a folder that can be written"});
    }
    path = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
};

}  // namespace hethub

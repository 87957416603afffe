#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace hethub {

/// The whole file. Throws kMissingInput, naming it, if it is not there or cannot be read.
std::string read_file(const std::filesystem::path& file);

/// Writes `content` to a temporary file beside `file`, syncs it and renames it into place, so that
/// a reader sees the old content or the new. Throws kCannotWrite and leaves `file` as it was.
void write_file(const std::filesystem::path& file, std::string_view content);

/// Throws kCannotWrite for `file`; what was found is the calling thread's errno.
[[noreturn]] void cannot_write(const std::filesystem::path& file);

/// Throws kMissingInput for `file`; what was found is errno if `found` is empty.
[[noreturn]] void cannot_read(const std::filesystem::path& file, std::string_view found = {});

/// Makes the rename or creation of what is in `folder` survive a loss of power (fsync).
void sync_folder(const std::filesystem::path& folder);

/// "1.50 GiB", "12.00 MiB", "831 B".
std::string bytes_text(double bytes);

}  // namespace hethub

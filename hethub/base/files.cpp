#include "hethub/base/files.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hethub/base/descriptor.h"
#include "hethub/base/error.h"

namespace hethub {
namespace {

void write_all(int fd, std::string_view content, const std::filesystem::path& file) {
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) cannot_write(file);
    content.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace

void cannot_write(const std::filesystem::path& file) {
  throw Error(ErrorCode::kCannotWrite, {.what = file.string() + ": write",
                                        .found = std::strerror(errno),
                                        .expected = "a place that can be written",
                                        .fix = "check the folder, its rights and its free space"});
}

void cannot_read(const std::filesystem::path& file, std::string_view found) {
  throw Error(ErrorCode::kMissingInput,
              {.what = file.string(),
               .found = found.empty() ? std::strerror(errno) : std::string(found),
               .expected = "a readable file",
               .fix = "check the path and its rights"});
}

std::string read_file(const std::filesystem::path& file) {
  const Descriptor in(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (in.get() < 0) cannot_read(file);
  std::string content;
  struct stat status = {};
  if (::fstat(in.get(), &status) == 0 && S_ISREG(status.st_mode)) {
    content.reserve(static_cast<std::size_t>(status.st_size));
  }
  std::vector<char> piece(1 << 18);
  while (true) {
    const ssize_t length = ::read(in.get(), piece.data(), piece.size());
    if (length < 0 && errno == EINTR) continue;
    if (length < 0) cannot_read(file);
    if (length == 0) return content;
    content.append(piece.data(), static_cast<std::size_t>(length));
  }
}

void write_file(const std::filesystem::path& file, std::string_view content) {
  // One name a thread: two that write the same file do not write into each other's.
  const std::filesystem::path temporary = file.string() + ".tmp" + std::to_string(::gettid());
  try {
    {
      const Descriptor out(
          ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
      if (out.get() < 0) cannot_write(file);
      write_all(out.get(), content, file);
      if (::fsync(out.get()) != 0) cannot_write(file);
    }
    if (::rename(temporary.c_str(), file.c_str()) != 0) cannot_write(file);
  } catch (const Error&) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync_folder(file.has_parent_path() ? file.parent_path() : ".");
}

void sync_folder(const std::filesystem::path& folder) {
  const Descriptor open_folder(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (open_folder.get() < 0) cannot_write(folder);
  ::fsync(open_folder.get());  // some file systems cannot; the rename stands all the same
}

std::string bytes_text(double bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  std::array<char, 32> out = {};
  std::snprintf(out.data(), out.size(), unit == 0 ? "%.0f %s" : "%.2f %s", bytes, kUnits.at(unit));
  return out.data();
}

}  // namespace hethub

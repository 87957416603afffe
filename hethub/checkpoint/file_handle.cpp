#include "hethub/checkpoint/file_handle.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hethub/base/error.h"

namespace hethub {
namespace {

[[noreturn]] void cannot_write(const std::filesystem::path& file) {
  throw Error(ErrorCode::kCannotWrite, {.what = file.string() + ": write",
                                        .found = std::strerror(errno),
                                        .expected = "a place that can be written",
                                        .fix = "check the folder, its rights and its free space"});
}

[[noreturn]] void cannot_read(const std::filesystem::path& file, std::string found) {
  throw Error(ErrorCode::kMissingInput, {.what = file.string(),
                                         .found = std::move(found),
                                         .expected = "a readable file",
                                         .fix = "check the path and its rights"});
}

}  // namespace

bool is_plain_file_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

FileHandle::FileHandle(std::filesystem::path path, int fd) : path_(std::move(path)), fd_(fd) {}

FileHandle::FileHandle(FileHandle&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

FileHandle& FileHandle::operator=(FileHandle&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  return *this;
}

FileHandle::~FileHandle() {
  if (fd_ >= 0) ::close(fd_);
}

FileHandle FileHandle::open_to_read(const std::filesystem::path& file) {
  // Without O_NONBLOCK, opening a named pipe would wait for its writer.
  FileHandle handle(file, ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (handle.fd_ < 0) cannot_read(file, std::strerror(errno));
  struct stat facts = {};
  if (::fstat(handle.fd_, &facts) != 0) cannot_read(file, std::strerror(errno));
  if (!S_ISREG(facts.st_mode)) cannot_read(file, "something that is not a file");
  return handle;
}

FileHandle FileHandle::create(const std::filesystem::path& file) {
  FileHandle handle(file, ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (handle.fd_ < 0) cannot_write(file);
  return handle;
}

std::int64_t FileHandle::size() const {
  struct stat facts = {};
  if (::fstat(fd_, &facts) != 0) cannot_read(path_, std::strerror(errno));
  return facts.st_size;
}

void FileHandle::read(std::int64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t got = ::pread(fd_, out.data(), out.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) cannot_read(path_, std::strerror(errno));
    if (got == 0) {
      throw Error(ErrorCode::kCorruptData,
                  {.what = path_.string(),
                   .found = text("its end at byte ", offset),
                   .expected = text(out.size(), " more bytes"),
                   .fix = "the file was cut while it was being read: fetch or save it again"});
    }
    offset += got;
    out = out.subspan(static_cast<std::size_t>(got));
  }
}

void FileHandle::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) cannot_write(path_);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void FileHandle::sync() {
  if (::fsync(fd_) != 0) cannot_write(path_);
}

}  // namespace hethub

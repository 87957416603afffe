#include "hethub/checkpoint/file_handle.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hethub/base/error.h"
#include "hethub/base/files.h"

namespace hethub {

bool is_plain_file_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

FileHandle::FileHandle(std::filesystem::path path, int fd)
    : path_(std::move(path)), descriptor_(fd) {}

FileHandle FileHandle::open_to_read(const std::filesystem::path& file) {
  // Without O_NONBLOCK, opening a named pipe would wait for its writer.
  FileHandle handle(file, ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!handle.descriptor_.valid()) cannot_read(file);
  struct stat facts = {};
  if (::fstat(handle.descriptor_.get(), &facts) != 0) cannot_read(file);
  if (!S_ISREG(facts.st_mode)) cannot_read(file, "something that is not a file");
  return handle;
}

FileHandle FileHandle::create(const std::filesystem::path& file) {
  FileHandle handle(file, ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!handle.descriptor_.valid()) cannot_write(file);
  return handle;
}

std::int64_t FileHandle::size() const {
  struct stat facts = {};
  if (::fstat(descriptor_.get(), &facts) != 0) cannot_read(path_);
  return facts.st_size;
}

void FileHandle::read(std::int64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t got = ::pread(descriptor_.get(), out.data(), out.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) cannot_read(path_);
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
    const ssize_t written = ::write(descriptor_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) cannot_write(path_);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void FileHandle::sync() {
  if (::fsync(descriptor_.get()) != 0) cannot_write(path_);
}

}  // namespace hethub

#include "hethub/data/file_io.h"

#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hethub/base/error.h"
#include "hethub/base/files.h"

namespace hethub {
namespace {

static_assert(std::endian::native == std::endian::little, "the files' numbers are little-endian");

constexpr std::size_t kBufferBytes = 1 << 20;

[[noreturn]] void cannot_read(const std::string& path, int error) {
  throw Error(ErrorCode::kMissingInput, {.what = path,
                                         .found = std::strerror(error),
                                         .expected = "a readable file",
                                         .fix = "check the path and its rights"});
}

}  // namespace

InputFile::InputFile(std::string path) : path_(std::move(path)) {
  fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd_ < 0) cannot_read(path_, errno);
  struct stat facts = {};
  if (::fstat(fd_, &facts) == 0 && !S_ISDIR(facts.st_mode)) return;
  ::close(fd_);
  cannot_read(path_, EISDIR);
}

InputFile::~InputFile() { ::close(fd_); }

std::int64_t InputFile::size() const {
  struct stat facts = {};
  if (::fstat(fd_, &facts) != 0) cannot_read(path_, errno);
  return facts.st_size;
}

std::size_t InputFile::read_at(std::int64_t position, std::span<std::byte> out) const {
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t count = ::pread(fd_, out.data() + done, out.size() - done,
                                  position + static_cast<std::int64_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) cannot_read(path_, errno);
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  return done;
}

// read(2), not pread, so that a pipe can be read too.
std::size_t InputFile::read(std::span<std::byte> out) {
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t count = ::read(fd_, out.data() + done, out.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) cannot_read(path_, errno);
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  return done;
}

OutputFile::OutputFile(std::string path)
    : path_(std::move(path)), temporary_(text(path_, ".tmp", ::getpid())) {
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd_ < 0) fail();
  buffer_.reserve(kBufferBytes);
}

OutputFile::~OutputFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

void OutputFile::write(std::span<const std::byte> bytes) {
  if (buffer_.size() + bytes.size() > kBufferBytes) flush();
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

void OutputFile::commit() {
  flush();
  if (::fsync(fd_) != 0) fail();
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail();
  ::close(std::exchange(fd_, -1));
  const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
  sync_folder(folder.empty() ? "." : folder);
}

void OutputFile::flush() {
  std::size_t done = 0;
  while (done < buffer_.size()) {
    const ssize_t count = ::write(fd_, buffer_.data() + done, buffer_.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail();
    done += static_cast<std::size_t>(count);
  }
  buffer_.clear();
}

void OutputFile::fail() const {
  throw Error(ErrorCode::kCannotWrite, {.what = path_ + ": write",
                                        .found = std::strerror(errno),
                                        .expected = "a place that can be written",
                                        .fix = "check the folder, its rights and its free space"});
}

}  // namespace hethub

#include "hethub/base/host_pages.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

#include "hethub/base/error.h"
#include "hethub/base/files.h"

namespace hethub {
namespace {

constexpr std::int64_t kHugePage = std::int64_t{2} << 20;

std::int64_t round_up(std::int64_t bytes, std::int64_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

}  // namespace

HostPages::HostPages(std::int64_t bytes, std::string_view what) : bytes_(bytes) {
  if (bytes == 0) return;
  const std::int64_t page = sysconf(_SC_PAGESIZE);
  const std::int64_t alignment = bytes >= kHugePage ? kHugePage : page;
  mapped_bytes_ = round_up(bytes, page) + alignment;
  mapped_ = mmap(nullptr, static_cast<std::size_t>(mapped_bytes_), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped_ == MAP_FAILED) {
    throw Error(ErrorCode::kOutOfMemory,
                {.what = std::string(what),
                 .found = std::strerror(errno),
                 .expected = bytes_text(static_cast<double>(bytes)),
                 .fix = "choose a plan that needs less here, or end other programs"});
  }
  const auto start = reinterpret_cast<std::intptr_t>(mapped_);
  data_ = static_cast<std::byte*>(mapped_) + (round_up(start, alignment) - start);
  // A system without huge pages gives small ones: slower, and as right.
  if (bytes >= kHugePage) ::madvise(data_, static_cast<std::size_t>(bytes), MADV_HUGEPAGE);
  std::memset(data_, 0, static_cast<std::size_t>(bytes));
}

HostPages::~HostPages() {
  if (mapped_ != nullptr) munmap(mapped_, static_cast<std::size_t>(mapped_bytes_));
}

HostPages::HostPages(HostPages&& other) noexcept { *this = std::move(other); }

HostPages& HostPages::operator=(HostPages&& other) noexcept {
  std::swap(mapped_, other.mapped_);
  std::swap(mapped_bytes_, other.mapped_bytes_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace hethub

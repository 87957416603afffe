#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace hethub {

/// Host memory of zeros, of a size fixed at the start: huge pages where they fit and the system
/// gives them, all of it present, so that using it takes no page fault and few misses of the
/// translation buffer. Small pages made a step's memory-bound kernels up to ten times slower.
class HostPages {
 public:
  HostPages() = default;
  /// Throws kOutOfMemory, naming `what`, if the system has not so much.
  HostPages(std::int64_t bytes, std::string_view what);
  ~HostPages();
  HostPages(HostPages&& other) noexcept;
  HostPages& operator=(HostPages&& other) noexcept;

  std::byte* data() const {
    return data_;
  }  ///< aligned to a page; 2 MiB if so large; null of 0 bytes
  std::int64_t bytes() const { return bytes_; }

 private:
  void* mapped_ = nullptr;
  std::int64_t mapped_bytes_ = 0;
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

}  // namespace hethub

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

/// What a fuzz target defines: it must not crash, hang or take much memory, whatever the bytes.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace hethub {

/// Takes values from the front of a fuzzer's input; zeros when there are none left.
class FuzzInput {
 public:
  FuzzInput(const std::uint8_t* data, std::size_t size)
      : left_(std::as_bytes(std::span(data, size))) {}

  bool empty() const { return left_.empty(); }

  template <typename T>
  T take() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value = {};
    const auto bytes = take_bytes(sizeof value);
    if (!bytes.empty()) std::memcpy(&value, bytes.data(), bytes.size());
    return value;
  }

  /// At most so many.
  std::span<const std::byte> take_bytes(std::size_t most) {
    const auto taken = left_.first(most < left_.size() ? most : left_.size());
    left_ = left_.subspan(taken.size());
    return taken;
  }

  /// One of a few.
  template <typename T, std::size_t N>
  T pick(const T (&choices)[N]) {
    return choices[take<std::uint8_t>() % N];
  }

 private:
  std::span<const std::byte> left_;
};

/// Stops the fuzzer: what must always hold does not.
inline void must(bool holds) {
  if (!holds) __builtin_trap();
}

}  // namespace hethub

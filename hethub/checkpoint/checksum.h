#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace hethub {

/// The 128-bit XXH3 hash of the bytes it was shown so far, in order.
class Checksum {
 public:
  Checksum();
  Checksum(Checksum&&) noexcept;
  Checksum& operator=(Checksum&&) noexcept;
  Checksum(const Checksum&) = delete;
  Checksum& operator=(const Checksum&) = delete;
  ~Checksum();

  void add(std::span<const std::byte> bytes);

  /// 32 hexadecimal digits, as `xxhsum -H128` prints them.
  std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hethub

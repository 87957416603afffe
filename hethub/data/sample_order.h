#pragma once

#include <array>
#include <cstdint>

namespace hethub {

/// The endless order in which `count` things are visited: a fresh permutation of all of them each
/// epoch, as a pure function of (seed, epoch, position), in constant memory.
///
/// A position is enciphered by a balanced Feistel network of eight rounds over the least power of
/// four that holds `count`, with Philox as its round function, and again while the result is not
/// below `count` ("cycle walking": fewer than four turns on average). Sources: Black and Rogaway,
/// "Ciphers with arbitrary finite domains", CT-RSA 2002; Luby and Rackoff, "How to construct
/// pseudorandom permutations from pseudorandom functions", SIAM J. Comput. 1988.
class SampleOrder {
 public:
  /// Throws kInvalidArgument unless 1 <= count <= 2^62.
  SampleOrder(std::uint64_t seed, std::int64_t count);

  /// The thing visited as number `sample` (>= 0) of the stream: in epoch sample / count, at
  /// position sample % count.
  std::int64_t at(std::int64_t sample) const;

 private:
  std::uint64_t encipher(std::uint64_t value, std::uint64_t epoch) const;

  std::int64_t count_;
  int half_bits_ = 0;
  std::array<std::uint32_t, 2> key_ = {};
};

}  // namespace hethub

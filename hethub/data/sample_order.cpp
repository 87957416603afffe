#include "hethub/data/sample_order.h"

#include <bit>

#include "hethub/base/error.h"
#include "hethub/base/philox.h"

namespace hethub {

SampleOrder::SampleOrder(std::uint64_t seed, std::int64_t count)
    : count_(count), key_(philox_key(seed, "order of samples")) {
  require(count >= 1 && count <= std::int64_t{1} << 62, {.what = "number of samples",
                                                         .found = text(count),
                                                         .expected = "1 to 2^62",
                                                         .fix = "give more or fewer"});
  half_bits_ = (std::bit_width(static_cast<std::uint64_t>(count - 1)) + 1) / 2;
}

std::int64_t SampleOrder::at(std::int64_t sample) const {
  if (sample < 0) {  // `require` would build its texts on every call
    throw Error(ErrorCode::kInvalidArgument, {.what = "sample",
                                              .found = text(sample),
                                              .expected = "0 or more",
                                              .fix = "count samples from 0"});
  }
  if (count_ == 1) return 0;
  const auto epoch = static_cast<std::uint64_t>(sample / count_);
  auto place = static_cast<std::uint64_t>(sample % count_);
  do {
    place = encipher(place, epoch);
  } while (place >= static_cast<std::uint64_t>(count_));
  return static_cast<std::int64_t>(place);
}

std::uint64_t SampleOrder::encipher(std::uint64_t value, std::uint64_t epoch) const {
  constexpr std::uint32_t kRounds = 8;
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = value >> half_bits_;
  std::uint64_t right = value & mask;
  for (std::uint32_t round = 0; round < kRounds; ++round) {
    const auto words =
        philox({static_cast<std::uint32_t>(right), round, static_cast<std::uint32_t>(epoch),
                static_cast<std::uint32_t>(epoch >> 32)},
               key_);
    const std::uint64_t next = left ^ (words[0] & mask);
    left = right;
    right = next;
  }
  return left << half_bits_ | right;
}

}  // namespace hethub

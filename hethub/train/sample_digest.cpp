#include "hethub/train/sample_digest.h"

#include <array>
#include <span>
#include <vector>

#include "hethub/checkpoint/checksum.h"

namespace hethub {

std::string digest_of(const SampleSource& samples) {
  const auto length = static_cast<std::size_t>(samples.sequence_length());
  std::vector<std::int32_t> tokens(2 * length);
  samples.read(0, std::span(tokens).first(length), std::span(tokens).last(length));
  const std::array<std::int64_t, 2> sizes = {samples.sequence_length(),
                                             samples.samples_per_epoch()};
  Checksum sum;
  sum.add(std::as_bytes(std::span(sizes)));
  sum.add(std::as_bytes(std::span(tokens)));
  return sum.hex();
}

}  // namespace hethub

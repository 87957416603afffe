#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "hethub/collective/choice.h"
#include "hethub/comm/communicator.h"

namespace hethub {

/// What one rank gives to a collective and must get from it: small whole numbers, which every dtype
/// holds, so that any other result is wrong, whatever the order of additions.
class BenchValues {
 public:
  BenchValues(const Collective& collective, int ranks, int rank);

  /// Fills what lies in the rank's data, or in its input, before the call. `bytes` has all of it.
  void fill_data(std::span<std::byte> bytes) const;
  void fill_input(std::span<std::byte> bytes) const;

  /// Elements of the data that are not what they should be after the call.
  std::int64_t wrong(std::span<const std::byte> bytes) const;

 private:
  struct Run {
    std::int64_t begin = 0;  // of all elements
    std::int64_t count = 0;
    int chunk = 0;
  };

  void fill(std::span<std::byte> bytes, const std::vector<Run>& runs) const;
  bool gets(int chunk) const;
  int given(int rank, std::int64_t element) const;
  int expected(int chunk, std::int64_t element) const;

  Collective call_;
  int ranks_;
  int rank_;
  std::vector<Run> data_ = {};
  std::vector<Run> input_ = {};
};

}  // namespace hethub

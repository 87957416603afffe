#include "cli/bench_values.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace hethub {
namespace {

// So many elements after each other differ.
constexpr int kPeriod = 4;

// A whole number from 0 to 255 as the dtype stores it.
void encode(DType dtype, int value, std::byte* to) {
  const auto store = [to](auto stored) { std::memcpy(to, &stored, sizeof stored); };
  const auto as_float = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  switch (dtype) {
    case DType::kF64:
      return store(static_cast<double>(value));
    case DType::kF32:
      return store(as_float);
    case DType::kF16:
      // The exponent's bias is 15 instead of 127, its fraction 10 bits instead of 23.
      return store(static_cast<std::uint16_t>(value == 0 ? 0 : (as_float >> 13U) - (112U << 10U)));
    case DType::kBf16:
      return store(static_cast<std::uint16_t>(as_float >> 16U));
    case DType::kI64:
      return store(static_cast<std::int64_t>(value));
    case DType::kI32:
      return store(static_cast<std::int32_t>(value));
    case DType::kI8:
      return store(static_cast<std::int8_t>(value));
    case DType::kU8:
      return store(static_cast<std::uint8_t>(value));
  }
}

}  // namespace

BenchValues::BenchValues(const Collective& collective, int ranks, int rank)
    : call_(collective), ranks_(ranks), rank_(rank) {
  const bool all_to_all = call_.op == CollectiveOp::kAllToAll;
  const int chunks = all_to_all ? ranks * ranks : ranks;
  const bool part = (call_.op == CollectiveOp::kGather || call_.op == CollectiveOp::kScatter) &&
                    rank != call_.root;
  std::int64_t begin = 0;
  const ChunkTable table = even_chunks(call_.count, chunks);
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const Run run{.begin = begin, .count = table[static_cast<std::size_t>(chunk)], .chunk = chunk};
    begin += run.count;
    const bool mine = all_to_all ? chunk % ranks == rank : !part || chunk == rank;
    if (mine) data_.push_back(run);
    if (all_to_all && chunk / ranks == rank) input_.push_back(run);
  }
}

// What a rank gives at an element. Where ranks take the average all give the same, so that it is
// whole; of a product two factors are 2.
int BenchValues::given(int rank, std::int64_t element) const {
  if (adds(call_.op) && call_.reduction == Reduction::kAvg) {
    return static_cast<int>(element % kPeriod);
  }
  if (adds(call_.op) && call_.reduction == Reduction::kProd) {
    return (element + rank) % ranks_ < 2 ? 2 : 1;
  }
  return static_cast<int>((element + rank) % kPeriod);
}

int BenchValues::expected(int chunk, std::int64_t element) const {
  switch (call_.op) {
    case CollectiveOp::kAllGather:
    case CollectiveOp::kGather:
      return given(chunk, element);
    case CollectiveOp::kBroadcast:
    case CollectiveOp::kScatter:
      return given(call_.root, element);
    case CollectiveOp::kAllToAll:
      return given(chunk / ranks_, element);
    case CollectiveOp::kAllReduce:
    case CollectiveOp::kReduce:
    case CollectiveOp::kReduceScatter:
    case CollectiveOp::kBarrier:
      break;
  }
  int result = given(0, element);
  for (int rank = 1; rank < ranks_; ++rank) {
    const int value = given(rank, element);
    if (call_.reduction == Reduction::kSum) result += value;
    if (call_.reduction == Reduction::kProd) result *= value;
    if (call_.reduction == Reduction::kMin) result = std::min(result, value);
    if (call_.reduction == Reduction::kMax) result = std::max(result, value);
  }
  return result;
}

bool BenchValues::gets(int chunk) const {
  switch (call_.op) {
    case CollectiveOp::kReduce:
    case CollectiveOp::kGather:
      return rank_ == call_.root;
    case CollectiveOp::kReduceScatter:
    case CollectiveOp::kScatter:
      return chunk == rank_;
    case CollectiveOp::kBarrier:
      return false;
    case CollectiveOp::kAllReduce:
    case CollectiveOp::kAllGather:
    case CollectiveOp::kBroadcast:
    case CollectiveOp::kAllToAll:
      return true;
  }
  return true;
}

void BenchValues::fill(std::span<std::byte> bytes, const std::vector<Run>& runs) const {
  const std::int64_t size = size_of(call_.dtype);
  std::byte* to = bytes.data();
  for (const Run& run : runs) {
    for (std::int64_t element = run.begin; element < run.begin + run.count; ++element, to += size) {
      encode(call_.dtype, given(rank_, element), to);
    }
  }
}

void BenchValues::fill_data(std::span<std::byte> bytes) const { fill(bytes, data_); }

void BenchValues::fill_input(std::span<std::byte> bytes) const {
  if (!input_.empty()) return fill(bytes, input_);
  // An all-gather and the root of a gather give their own chunk, the others all that their data
  // have.
  std::vector<Run> runs = data_;
  if (call_.op == CollectiveOp::kAllGather || call_.op == CollectiveOp::kGather) {
    std::erase_if(runs, [this](const Run& run) { return run.chunk != rank_; });
  }
  fill(bytes, runs);
}

std::int64_t BenchValues::wrong(std::span<const std::byte> bytes) const {
  const std::int64_t size = size_of(call_.dtype);
  const std::byte* found = bytes.data();
  std::int64_t count = 0;
  std::array<std::byte, 8> right = {};
  for (const Run& run : data_) {
    if (gets(run.chunk)) {
      for (std::int64_t at = 0; at < run.count; ++at) {
        encode(call_.dtype, expected(run.chunk, run.begin + at), right.data());
        if (std::memcmp(found + at * size, right.data(), static_cast<std::size_t>(size)) != 0) {
          ++count;
        }
      }
    }
    found += run.count * size;
  }
  return count;
}

}  // namespace hethub

// The reduction step of collectives, for every dtype.

#include "hethub/accel/cpu/kernels/element.h"
#include "hethub/accel/cpu/kernels/parallel.h"
#include "hethub/accel/cpu/kernels/run.h"

namespace hethub::HETHUB_LEVEL {
namespace {

constexpr std::int64_t kLeastShare = 8192;  // elements worth a thread
constexpr std::int64_t kBlock = 1024;       // elements that are summed at a time, in cache

// How a dtype is stored, and what its values are added as.
template <typename T, typename Sum>
struct Plain {
  using Stored = T;
  using Added = Sum;
  static Added load(Stored value) { return static_cast<Added>(value); }
  static Stored store(Added value) { return static_cast<Stored>(value); }
};

struct StoredBf16 {
  using Stored = Bf16;
  using Added = float;
  static float load(Bf16 value) { return value; }
  static Bf16 store(float value) {
    Bf16 stored;
    stored = value;
    return stored;
  }
};

struct F16 {
  using Stored = std::uint16_t;
  using Added = float;
  // The exponent is moved by a product, which also makes subnormal numbers normal.
  static float load(std::uint16_t value) {
    const std::uint32_t magnitude = (value & 0x7FFFU) << 13U;
    constexpr std::uint32_t kTwoTo112 = 0x77800000U;
    const float moved = __builtin_bit_cast(float, magnitude) * __builtin_bit_cast(float, kTwoTo112);
    const bool unbounded = magnitude >= 0x0F800000U;
    const auto bits =
        unbounded ? magnitude | 0x7F800000U : __builtin_bit_cast(std::uint32_t, moved);
    return __builtin_bit_cast(float, bits | (value & 0x8000U) << 16U);
  }
  // To the nearest, ties to even. A sum with 0.5 rounds subnormal results at their last bit.
  static std::uint16_t store(float value) {
    const auto bits = __builtin_bit_cast(std::uint32_t, value);
    const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
    const std::uint32_t normal =
        (magnitude - 0x38000000U + 0xFFFU + ((magnitude >> 13U) & 1U)) >> 13U;
    const float small = __builtin_bit_cast(float, magnitude) + 0.5F;
    const std::uint32_t subnormal = __builtin_bit_cast(std::uint32_t, small) - 0x3F000000U;
    std::uint32_t half = magnitude < 0x38800000U ? subnormal : normal;
    half = magnitude >= 0x47800000U ? 0x7C00U : half;
    half = magnitude > 0x7F800000U ? 0x7E00U : half;
    return static_cast<std::uint16_t>(half | (bits >> 16U & 0x8000U));
  }
};

// Integers wrap around, which signed types must not do.
template <Reduction kReduction, typename T>
inline T combine(T a, T b) {
  if constexpr (kReduction == Reduction::kMin) return b < a ? b : a;
  if constexpr (kReduction == Reduction::kMax) return a < b ? b : a;
  if constexpr (T(0.5) != T(0)) {
    return kReduction == Reduction::kProd ? a * b : a + b;
  } else {
    const auto first = static_cast<std::uint64_t>(a);
    const auto second = static_cast<std::uint64_t>(b);
    return static_cast<T>(kReduction == Reduction::kProd ? first * second : first + second);
  }
}

template <typename T>
inline T divided(T sum, std::int64_t divisor) {
  if constexpr (T(0.5) != T(0)) return sum * (T(1) / static_cast<T>(divisor));
  return divisor == 0 ? sum : sum / static_cast<T>(divisor);
}

template <typename Type, Reduction kReduction>
void accumulate_range(const Accumulate& op, const Arguments& arguments, std::int64_t first,
                      std::int64_t last) {
  using Stored = typename Type::Stored;
  using Added = typename Type::Added;
  auto* total = static_cast<Stored*>(arguments.outputs[0]) + first;
  const auto* x = static_cast<const Stored*>(arguments.inputs[1]) + first;
  const std::int64_t terms = op.terms;
  const std::int64_t stride = op.stride;
  const std::int64_t divisor = op.divisor;
  for (std::int64_t left = last - first; left > 0; left -= kBlock) {
    const std::int64_t size = left < kBlock ? left : kBlock;
    Added sums[kBlock];
#pragma omp simd
    for (std::int64_t i = 0; i < size; ++i)
      sums[i] = Type::load(total[i]);
    for (std::int64_t term = 0; term < terms; ++term) {
      const Stored* row = x + term * stride;
#pragma omp simd
      for (std::int64_t i = 0; i < size; ++i) {
        sums[i] = combine<kReduction>(sums[i], Type::load(row[i]));
      }
    }
    if (divisor != 1) {
#pragma omp simd
      for (std::int64_t i = 0; i < size; ++i)
        sums[i] = divided(sums[i], divisor);
    }
#pragma omp simd
    for (std::int64_t i = 0; i < size; ++i)
      total[i] = Type::store(sums[i]);
    total += size;
    x += size;
  }
}

template <typename Type, Reduction kReduction>
void accumulate_all(const Accumulate& op, const Arguments& arguments) {
  parallel_ranges(arguments.threads, op.count, kLeastShare,
                  [&](std::int64_t first, std::int64_t last, int /*thread*/) {
                    accumulate_range<Type, kReduction>(op, arguments, first, last);
                  });
}

template <typename Type>
void accumulate(const Accumulate& op, const Arguments& arguments) {
  switch (op.reduction) {
    case Reduction::kSum:
    case Reduction::kAvg:
      return accumulate_all<Type, Reduction::kSum>(op, arguments);
    case Reduction::kMin:
      return accumulate_all<Type, Reduction::kMin>(op, arguments);
    case Reduction::kMax:
      return accumulate_all<Type, Reduction::kMax>(op, arguments);
    case Reduction::kProd:
      return accumulate_all<Type, Reduction::kProd>(op, arguments);
  }
}

}  // namespace

void run_accumulate(const Accumulate& op, const Arguments& arguments) {
  switch (arguments.dtype) {
    case DType::kF64:
      return accumulate<Plain<double, double>>(op, arguments);
    case DType::kF32:
      return accumulate<Plain<float, float>>(op, arguments);
    case DType::kF16:
      return accumulate<F16>(op, arguments);
    case DType::kBf16:
      return accumulate<StoredBf16>(op, arguments);
    case DType::kI64:
      return accumulate<Plain<std::int64_t, std::int64_t>>(op, arguments);
    case DType::kI32:
      return accumulate<Plain<std::int32_t, std::int64_t>>(op, arguments);
    case DType::kI8:
      return accumulate<Plain<std::int8_t, std::int64_t>>(op, arguments);
    case DType::kU8:
      return accumulate<Plain<std::uint8_t, std::int64_t>>(op, arguments);
  }
}

}  // namespace hethub::HETHUB_LEVEL

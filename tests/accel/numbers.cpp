#include "tests/accel/numbers.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace hethub {
namespace {

struct SmallFloat {
  int exponent_bits = 0;
  int fraction_bits = 0;
};

SmallFloat small_float(DType dtype) {
  return dtype == DType::kF16 ? SmallFloat{5, 10} : SmallFloat{8, 7};
}

double small_value(SmallFloat format, std::uint16_t bits) {
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const int exponent = (bits >> format.fraction_bits) & ((1 << format.exponent_bits) - 1);
  const int fraction = bits & ((1 << format.fraction_bits) - 1);
  const double sign = (bits >> 15) != 0 ? -1 : 1;
  if (exponent == (1 << format.exponent_bits) - 1) {
    return fraction != 0 ? std::nan("") : sign * HUGE_VAL;
  }
  const double unit = std::ldexp(1.0, -format.fraction_bits);
  if (exponent == 0) return sign * std::ldexp(fraction * unit, 1 - bias);
  return sign * std::ldexp(1 + fraction * unit, exponent - bias);
}

// The nearest small float, ties to even: found by looking at both neighbours.
std::uint16_t small_bits(SmallFloat format, double value) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(value);
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  int exponent = magnitude == 0 ? 1 - bias : std::max(std::ilogb(magnitude), 1 - bias);
  const double unit = std::ldexp(1.0, exponent - format.fraction_bits);
  const double rounded = std::nearbyint(magnitude / unit);  // ties to even
  // Counting units from the exponent's first value carries into the exponent by itself.
  const auto units = static_cast<std::int64_t>(rounded);
  const std::int64_t first = std::int64_t{1} << format.fraction_bits;
  const std::int64_t bits = units < first ? units : ((exponent + bias - 1) * first) + units;
  const std::int64_t most = ((std::int64_t{1} << format.exponent_bits) - 1) * first;
  return static_cast<std::uint16_t>(sign | std::min(bits, most));
}

}  // namespace

double raw_value(DType dtype, Reduction reduction, int rank, std::int64_t i) {
  const auto mixed = static_cast<double>((rank * 37 + i * 11 + i / 5) % 23);
  const bool product = reduction == Reduction::kProd;
  switch (dtype) {
    case DType::kF64:
    case DType::kF32:
    case DType::kF16:
    case DType::kBf16:
      return product ? 0.75 + mixed / 40 : mixed / 7 - 1.5;
    case DType::kI64:
    case DType::kI32:
    case DType::kI8:
      return product ? mixed / 8 - 1 : mixed - 9;
    case DType::kU8:
      return product ? mixed / 8 : mixed;
  }
  return 0;
}

void put(DType dtype, double value, std::byte* to) {
  const auto store = [to](auto stored) { std::memcpy(to, &stored, sizeof stored); };
  switch (dtype) {
    case DType::kF64:
      return store(value);
    case DType::kF32:
      return store(static_cast<float>(value));
    case DType::kF16:
    case DType::kBf16:
      return store(small_bits(small_float(dtype), value));
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

double taken(DType dtype, const std::byte* from) {
  const auto load = [from](auto stored) {
    std::memcpy(&stored, from, sizeof stored);
    return stored;
  };
  switch (dtype) {
    case DType::kF64:
      return load(double{});
    case DType::kF32:
      return static_cast<double>(load(float{}));
    case DType::kF16:
    case DType::kBf16:
      return small_value(small_float(dtype), load(std::uint16_t{}));
    case DType::kI64:
      return static_cast<double>(load(std::int64_t{}));
    case DType::kI32:
      return load(std::int32_t{});
    case DType::kI8:
      return load(std::int8_t{});
    case DType::kU8:
      return load(std::uint8_t{});
  }
  return 0;
}

std::vector<std::byte> values_of(DType dtype, Reduction reduction, int rank, std::int64_t count) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(count * size_of(dtype)));
  for (std::int64_t i = 0; i < count; ++i) {
    put(dtype, raw_value(dtype, reduction, rank, i), bytes.data() + i * size_of(dtype));
  }
  return bytes;
}

double reduced(Reduction reduction, std::span<const double> values) {
  double result = values[0];
  for (const double value : values.subspan(1)) {
    switch (reduction) {
      case Reduction::kSum:
      case Reduction::kAvg:
        result += value;
        break;
      case Reduction::kMin:
        result = std::min(result, value);
        break;
      case Reduction::kMax:
        result = std::max(result, value);
        break;
      case Reduction::kProd:
        result *= value;
        break;
    }
  }
  return reduction == Reduction::kAvg ? result / static_cast<double>(values.size()) : result;
}

double tolerance(DType dtype, std::size_t terms) {
  const double f32 = std::ldexp(static_cast<double>(terms + 1), -24);
  switch (dtype) {
    case DType::kF64:
      return std::ldexp(static_cast<double>(terms + 1), -53);
    case DType::kF32:
      return f32;
    case DType::kF16:
      return std::ldexp(1.0, -11) + f32;
    case DType::kBf16:
      return std::ldexp(1.0, -8) + f32;
    case DType::kI64:
    case DType::kI32:
    case DType::kI8:
    case DType::kU8:
      return 0;
  }
  return 0;
}

double wrapped(DType dtype, double value) {
  const auto whole = static_cast<std::int64_t>(value);
  switch (dtype) {
    case DType::kI32:
      return static_cast<std::int32_t>(whole);
    case DType::kI8:
      return static_cast<std::int8_t>(whole);
    case DType::kU8:
      return static_cast<std::uint8_t>(whole);
    case DType::kI64:
      return static_cast<double>(whole);
    case DType::kF64:
    case DType::kF32:
    case DType::kF16:
    case DType::kBf16:
      return value;
  }
  return value;
}

}  // namespace hethub

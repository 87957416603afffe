#include "hethub/checkpoint/convert.h"

#include <bit>
#include <cstdint>
#include <cstring>

#include "hethub/base/error.h"

namespace hethub {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian");

float from_f64(double value) { return static_cast<float>(value); }

float from_bf16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

float from_f16(std::uint16_t bits) {
  const std::uint32_t sign = std::uint32_t{bits & 0x8000U} << 16;
  const std::uint32_t exponent = bits >> 10 & 0x1FU;
  const std::uint32_t fraction = bits & 0x3FFU;
  if (exponent == 0) {  // zero and subnormal numbers: fraction · 2^-24
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return sign == 0 ? magnitude : -magnitude;
  }
  const std::uint32_t widened = exponent == 0x1F ? 0xFFU : exponent + 112;
  return std::bit_cast<float>(sign | widened << 23 | fraction << 13);
}

template <typename Stored, typename Convert>
void each(std::span<const std::byte> from, std::span<float> out, Convert convert) {
  for (std::size_t element = 0; element < out.size(); ++element) {
    Stored stored = {};
    std::memcpy(&stored, from.data() + element * sizeof(Stored), sizeof(Stored));
    out[element] = convert(stored);
  }
}

[[noreturn]] void cannot_convert(DType dtype) {
  throw Error(ErrorCode::kUnsupported, {.what = "reading a tensor as f32",
                                        .found = std::string(name_of(dtype)),
                                        .expected = "f64, f32, f16 or bf16",
                                        .fix = "convert the file to one of these"});
}

}  // namespace

void convert_to_f32(DType dtype, std::span<const std::byte> from, std::span<float> out) {
  require(from.size() == out.size() * static_cast<std::size_t>(size_of(dtype)),
          {.what = "convert_to_f32",
           .found = text(from.size(), " bytes"),
           .expected = text(out.size(), " elements of ", name_of(dtype)),
           .fix = "pass as many elements as there is room for"});
  switch (dtype) {
    case DType::kF64:
      return each<double>(from, out, from_f64);
    case DType::kF32:
      return each<float>(from, out, [](float value) { return value; });
    case DType::kF16:
      return each<std::uint16_t>(from, out, from_f16);
    case DType::kBf16:
      return each<std::uint16_t>(from, out, from_bf16);
    case DType::kI64:
    case DType::kI32:
    case DType::kI8:
    case DType::kU8:
      cannot_convert(dtype);
  }
}

}  // namespace hethub

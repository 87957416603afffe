#include "backends.h"

#include <algorithm>
#include <stdexcept>

namespace hethub::conformance {
namespace {

// The hardest in fp32 are gradients of attention over 128 products a score: a score of size 5 is
// off by some 1e-6, and so is its exponential, relatively. 4e-6 leaves them a factor of two.
constexpr double kF32 = 4e-6;
constexpr double kBf16Rounding = 0x1.01p-8;  // that of one rounding to bf16
constexpr double kF16Rounding = 0x1.01p-11;

constexpr Precision kInF32{DType::kF32, kF32, kF32};
constexpr Precision kInBf16{DType::kBf16, kBf16Rounding, kF32};
constexpr Precision kInF16{DType::kF16, kF16Rounding, kF32};
// libtorch rounds sums in between.
constexpr Precision kInTorchBf16{DType::kBf16, 2 * kBf16Rounding, kBf16Rounding};

std::vector<DType> every_dtype() {
  return {DType::kF64, DType::kF32, DType::kF16, DType::kBf16,
          DType::kI64, DType::kI32, DType::kI8,  DType::kU8};
}

}  // namespace

const std::vector<BackendRow>& backend_rows() {
  static const std::vector<BackendRow> rows = {
      {"cpu", {kInF32, kInBf16}, every_dtype()},
      {"opencl", {kInF32, kInBf16, kInF16}, every_dtype()},
      {"served-cpu", {kInF32, kInBf16}, every_dtype()},  // cpu behind the edge of a plug-in
      {"torch", {kInF32, kInTorchBf16}, {}},
      {"gpu-host", {kInF32}, {}, true},  // the kernels of cuda and hip as loops on the CPU
      {"cuda", {kInF32}, {}, true},
      {"hip", {kInF32}, {}, true},
      {"emulated:T4:scale=0.001", {kInF32, kInBf16}, every_dtype()},
  };
  return rows;
}

const BackendRow& row_named(std::string_view name) {
  for (const BackendRow& row : backend_rows()) {
    if (row.name == name) return row;
  }
  throw std::out_of_range(std::string(name));
}

const Precision* BackendRow::precision_of(DType dtype) const {
  const auto found =
      std::ranges::find_if(ops, [&](const Precision& row) { return row.dtype == dtype; });
  return found == ops.end() ? nullptr : &*found;
}

bool BackendRow::has(const Op& op) const {
  if (std::holds_alternative<GroupStart>(op.body) || std::holds_alternative<GroupWait>(op.body)) {
    return false;
  }
  if (const auto* sum = std::get_if<Accumulate>(&op.body)) {
    const bool plain = sum->reduction == Reduction::kSum && sum->divisor == 1;
    if (sums_only && !plain) return false;
    if (std::ranges::find(sums, op.dtype) != sums.end()) return true;
  }
  return precision_of(op.dtype) != nullptr;
}

}  // namespace hethub::conformance

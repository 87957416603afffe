#include "hethub/profile/peaks.h"

#include <algorithm>

#include "hethub/base/text.h"

namespace hethub {

std::vector<Op> square_products(DType dtype) {
  std::vector<Op> ops;
  for (const std::int64_t size : {256, 512, 1024}) {
    ops.push_back({text("product ", size), dtype, Linear{size, size, size, false}});
  }
  return ops;
}

DevicePeaks measure_peaks(Backend& backend, DType dtype, const OpTimerOptions& options) {
  constexpr std::int64_t kVector = std::int64_t{16} << 20;  // elements
  std::vector<Op> ops = square_products(dtype);
  ops.push_back({"vectors", DType::kF32, Add{kVector}});
  DevicePeaks peaks;
  for (const OpTime& time : time_ops(backend, ops, options)) {
    if (time.least <= 0) continue;
    const OpFacts facts = facts_of(time.op);
    double& peak = facts.kind == "add" ? peaks.bytes_per_s : peaks.flops_per_s;
    peak = std::max(peak, (facts.kind == "add" ? facts.bytes() : facts.flops) / time.least);
  }
  return peaks;
}

}  // namespace hethub

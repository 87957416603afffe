#include "hethub/cost/analytic.h"

#include <algorithm>
#include <initializer_list>

namespace hethub {
namespace {

struct Pricer {
  const Kind& kind;
  double peak;
  const Op& op;
  AttentionScores scores;

  double memory_seconds(double bytes) const {
    return bytes / (kind.memory_bytes_per_s * kind.efficiency.memory);
  }

  double product_seconds(double flops, std::initializer_list<double> sizes) const {
    double rate = peak * kind.efficiency.products;
    for (const double size : sizes) {
      rate *= size / (size + kind.efficiency.half_size);
    }
    return flops / rate;
  }

  template <typename T>
  double linear(const T& sizes) const {
    const OpFacts facts = facts_of(op);
    const auto rows = static_cast<double>(sizes.rows);
    const auto in = static_cast<double>(sizes.in);
    const auto out = static_cast<double>(sizes.out);
    return std::max(product_seconds(facts.flops, {rows, in, out}), memory_seconds(facts.bytes()));
  }

  double attention(const Attention& sizes, double products, double passes) const {
    const OpFacts facts = facts_of(op);
    const double moved = memory_seconds(facts.bytes());
    if (scores == AttentionScores::kOnChip) {
      return std::max(facts.flops / (peak * kind.efficiency.attention), moved);
    }
    const auto seq = static_cast<double>(sizes.seq);
    const auto head = static_cast<double>(sizes.head_dim);
    const double pairs = static_cast<double>(sizes.batch * sizes.heads) * seq * seq;
    return product_seconds(2 * products * pairs * head, {seq, seq, head}) +
           memory_seconds(passes * pairs * static_cast<double>(size_of(op.dtype)));
  }

  double operator()(const Linear& sizes) const { return linear(sizes); }
  double operator()(const LinearGradInput& sizes) const { return linear(sizes); }
  double operator()(const LinearGradWeight& sizes) const { return linear(sizes); }
  double operator()(const Attention& sizes) const { return attention(sizes, 2, 6); }
  double operator()(const AttentionGrad& sizes) const { return attention(sizes.forward, 5, 10); }

  template <typename T>
  double operator()(const T& /*sizes*/) const {
    const OpFacts facts = facts_of(op);
    return std::max(facts.flops / peak, memory_seconds(facts.bytes()));
  }
};

}  // namespace

double analytic_seconds(const Kind& kind, double peak, const Op& op, AttentionScores scores) {
  return std::max(kind.efficiency.launch_s, std::visit(Pricer{kind, peak, op, scores}, op.body));
}

double product_peak(const Kind& kind, DType dtype) {
  const auto of = [&](DType wanted) {
    const auto found = kind.peak_flops_per_s.find(std::string(name_of(wanted)));
    return found == kind.peak_flops_per_s.end() ? 0.0 : found->second;
  };
  if (const double own = of(dtype); own > 0) return own;
  if (dtype == DType::kBf16) return of(DType::kF16);
  return dtype == DType::kF16 ? of(DType::kBf16) : 0.0;
}

}  // namespace hethub

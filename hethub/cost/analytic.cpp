#include "hethub/cost/analytic.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>

namespace hethub {
namespace {

struct Tile {
  double rows;
  double columns;
  double speed;  // of the largest
};
constexpr std::array<Tile, 4> kTiles = {
    {{256, 128, 1}, {128, 128, 0.94}, {128, 64, 0.8}, {64, 64, 0.6}}};

// Products of 16-bit matrices whose rows do not begin at 16 bytes take another, slower kernel.
constexpr std::int64_t kAligned = 8;
constexpr double kUnaligned = 6;

struct Pricer {
  const Kind& kind;
  double peak;
  const Op& op;
  AttentionKernel attention_kernel;

  double memory_seconds(double bytes) const {
    return bytes / (kind.memory_bytes_per_s * kind.efficiency.memory);
  }

  // `many` products y[m, n] of sums of k terms.
  double product_seconds(double many, double m, double n, double k) const {
    const RoofFractions& roof = kind.efficiency;
    const double rate = peak * roof.products * k / (k + roof.half_size) * fullness(many, m, n);
    return 2 * many * m * n * k / rate;
  }

  // Of the tiles and the processors. Small tiles read more for each product.
  double fullness(double many, double m, double n) const {
    if (kind.processors == 0) return 1;
    double best = 0;
    for (const Tile& tile : kTiles) {
      const double tiles = many * std::ceil(m / tile.rows) * std::ceil(n / tile.columns);
      const double rounds = std::ceil(tiles / kind.processors);
      const double filled = many * m * n / (rounds * kind.processors * tile.rows * tile.columns);
      best = std::max(best, tile.speed * filled);
    }
    return best;
  }

  template <typename T>
  double linear(const T& sizes) const {
    const OpFacts facts = facts_of(op);
    const auto rows = static_cast<double>(sizes.rows);
    const auto in = static_cast<double>(sizes.in);
    const auto out = static_cast<double>(sizes.out);
    double product = product_seconds(1, rows, out, in);
    if constexpr (std::is_same_v<T, LinearGradInput>) product = product_seconds(1, rows, in, out);
    if constexpr (std::is_same_v<T, LinearGradWeight>) product = product_seconds(1, out, in, rows);
    return std::max(product, memory_seconds(facts.bytes()));
  }

  double attention(const Attention& sizes, double products, double passes) const {
    const OpFacts facts = facts_of(op);
    const double moved = memory_seconds(facts.bytes());
    if (attention_kernel != AttentionKernel::kStored) {
      const RoofFractions& roof = kind.efficiency;
      const bool own = attention_kernel == AttentionKernel::kVendor;
      return std::max(facts.flops / (peak * (own ? roof.attention : roof.portable_attention)),
                      moved);
    }
    const auto seq = static_cast<double>(sizes.seq);
    const auto head = static_cast<double>(sizes.head_dim);
    const auto many = static_cast<double>(sizes.batch * sizes.heads);
    // Half of them have the scores as their result, the others sum over them.
    const double product =
        0.5 * products *
        (product_seconds(many, seq, seq, head) + product_seconds(many, seq, head, seq));
    const auto element = static_cast<double>(size_of(op.dtype));
    return product * (sizes.head_dim % kAligned == 0 ? 1 : kUnaligned) +
           memory_seconds(passes * many * seq * seq * element);
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

double analytic_seconds(const Kind& kind, double peak, const Op& op, AttentionKernel kernel) {
  return std::max(kind.efficiency.launch_s, std::visit(Pricer{kind, peak, op, kernel}, op.body));
}

double product_peak(const Kind& kind, DType dtype) {
  const auto of = [&](std::string_view wanted) {
    const auto found = kind.peak_flops_per_s.find(std::string(wanted));
    return found == kind.peak_flops_per_s.end() ? 0.0 : found->second;
  };
  if (dtype == DType::kF32 && of("tf32") > 0) return of("tf32");
  if (const double own = of(name_of(dtype)); own > 0) return own;
  if (dtype == DType::kBf16) return of("f16");
  return dtype == DType::kF16 ? of("bf16") : 0.0;
}

}  // namespace hethub

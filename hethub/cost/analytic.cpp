#include "hethub/cost/analytic.h"

#include <algorithm>
#include <array>
#include <cmath>

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
constexpr double kUnaligned = 16;

// Mask, two casts and softmax, each of which reads and writes all scores, some of them in f32.
constexpr double kUnfusedOps = 4;
constexpr double kUnfusedPasses = 10;

struct Pricer {
  const Kind& kind;
  double peak;
  const Op& op;
  AttentionKernel attention_kernel;

  double memory_seconds(double bytes) const {
    return bytes / (kind.memory_bytes_per_s * kind.efficiency.memory);
  }

  // `many` products y[m, n] of sums of k terms.
  double product_seconds(double flops, double many, double m, double n) const {
    const RoofFractions& roof = kind.efficiency;
    const double k = flops / (2 * many * m * n);
    const double rate = peak * roof.products * k / (k + roof.half_size) * fullness(many, m, n);
    return flops / rate;
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

  // Each of them makes one matrix.
  double linear() const {
    const OpFacts facts = facts_of(op);
    const auto& made = facts.outputs.front().spec.shape;
    return std::max(
        product_seconds(facts.flops, 1, static_cast<double>(made[0]), static_cast<double>(made[1])),
        memory_seconds(facts.bytes()));
  }

  // A product for each expert, of as many rows as it has if all are chosen alike.
  template <typename T>
  double experts(const T& sizes, std::int64_t columns, std::int64_t rows = 0) const {
    const OpFacts facts = facts_of(op);
    const auto many = static_cast<double>(sizes.experts);
    const double m = rows > 0 ? static_cast<double>(rows)
                              : std::max(1.0, static_cast<double>(sizes.load) / many);
    return std::max(product_seconds(facts.flops, many, m, static_cast<double>(columns)),
                    memory_seconds(facts.bytes()));
  }

  double attention(const Attention& sizes, double products, double passes) const {
    const OpFacts facts = facts_of(op);
    const double moved = memory_seconds(facts.bytes());
    const bool unfused = attention_kernel == AttentionKernel::kStoredUnfused;
    if (attention_kernel != AttentionKernel::kStored && !unfused) {
      const RoofFractions& roof = kind.efficiency;
      const bool own = attention_kernel == AttentionKernel::kVendor;
      return std::max(facts.flops / (peak * (own ? roof.attention : roof.portable_attention)),
                      moved);
    }
    const auto seq = static_cast<double>(sizes.seq);
    const auto head = static_cast<double>(sizes.head_dim);
    const auto many = static_cast<double>(sizes.batch * sizes.heads);
    // Half of them have the scores as their result, the others sum over them.
    const double flops = 2 * many * seq * seq * head;
    const double product =
        0.5 * products *
        (product_seconds(flops, many, seq, seq) + product_seconds(flops, many, seq, head));
    const auto element = static_cast<double>(size_of(op.dtype));
    return product * (sizes.head_dim % kAligned == 0 ? 1 : kUnaligned) +
           memory_seconds((passes + (unfused ? kUnfusedPasses : 0)) * many * seq * seq * element);
  }

  double operator()(const Linear& /*sizes*/) const { return linear(); }
  double operator()(const LinearGradInput& /*sizes*/) const { return linear(); }
  double operator()(const LinearGradWeight& /*sizes*/) const { return linear(); }
  double operator()(const ExpertLinear& sizes) const { return experts(sizes, sizes.out); }
  double operator()(const ExpertLinearGradInput& sizes) const { return experts(sizes, sizes.in); }
  double operator()(const ExpertLinearGradWeight& sizes) const {
    return experts(sizes, sizes.in, sizes.out);
  }
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
  const double launch = kind.efficiency.launch_s;
  const bool unfused = kernel == AttentionKernel::kStoredUnfused && is_attention(op);
  return std::max(launch * (1 + (unfused ? kUnfusedOps : 0)),
                  std::visit(Pricer{kind, peak, op, kernel}, op.body));
}

bool is_attention(const Op& op) {
  return std::holds_alternative<Attention>(op.body) ||
         std::holds_alternative<AttentionGrad>(op.body);
}

bool is_product(const Op& op) {
  return std::holds_alternative<Linear>(op.body) ||
         std::holds_alternative<LinearGradInput>(op.body) ||
         std::holds_alternative<LinearGradWeight>(op.body) || is_attention(op);
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

#include "hethub/predict/what_if.h"

#include <algorithm>
#include <set>

#include "hethub/base/error.h"

namespace hethub {
namespace {

constexpr double kMostFactor = 1000;
constexpr const char* kLinks = "links";
constexpr const char* kCopies = "copies";
constexpr const char* kLaunches = "launches";
constexpr const char* kMemory = "memory";

void speed_up(LinkRate& rate, double factor) {
  rate.latency_s /= factor;
  rate.bytes_per_s *= factor;
}

void speed_up(Kind& kind, KindCosts* measured, double factor) {
  for (auto& [dtype, peak] : kind.peak_flops_per_s) {
    peak *= factor;
  }
  kind.memory_bytes_per_s *= factor;
  if (measured == nullptr) return;
  for (OpRow& row : measured->ops) {
    row.seconds /= factor;
  }
  for (auto& [dtype, rate] : measured->gemm_flops_per_s) {
    rate *= factor;
  }
  measured->launch_seconds /= factor;
  measured->action_seconds /= factor;
}

// Of products and attention the arithmetic is taken to bind; all other ops move memory.
bool moves_memory(const OpRow& row) {
  return !row.op.starts_with("linear") && !row.op.starts_with("expert_linear") &&
         !row.op.starts_with("attention");
}

void speed_up_memory(Cluster& cluster, Costs& measured, double factor) {
  for (Kind& kind : cluster.kinds) {
    kind.memory_bytes_per_s *= factor;
  }
  for (auto& [name, kind] : measured.kinds) {
    for (OpRow& row : kind.ops) {
      const double launch = std::min(row.seconds, kind.launch_seconds);
      if (moves_memory(row)) row.seconds = launch + (row.seconds - launch) / factor;
    }
  }
}

[[noreturn]] void refuse(std::string found, std::string expected) {
  throw Error(ErrorCode::kUsage, {.what = "--what-if",
                                  .found = std::move(found),
                                  .expected = std::move(expected),
                                  .fix = "write it as links=2x"});
}

}  // namespace

Improvement parse_improvement(const std::string& given) {
  const std::size_t equals = given.rfind('=');
  if (equals == std::string::npos || equals == 0) refuse(given, "PART=FACTOR");
  std::string number = given.substr(equals + 1);
  if (number.ends_with('x')) number.pop_back();
  std::size_t read = 0;
  double factor = 0;
  try {
    factor = std::stod(number, &read);
  } catch (const std::exception&) {
    read = 0;
  }
  const bool fits = factor >= 1 / kMostFactor && factor <= kMostFactor;
  if (read == 0 || read != number.size() || !fits) refuse(given, "a factor from 0.001 to 1000");
  return {given.substr(0, equals), factor};
}

CostModel improved(const CostModel& costs, const Improvement& improvement) {
  Cluster cluster = costs.cluster();
  Costs measured = costs.costs();
  const double factor = improvement.factor;
  bool known = true;
  if (improvement.what == kLinks) {
    for (Link& link : cluster.links) {
      speed_up(link.rate, factor);
    }
    for (LinkCosts& link : measured.links) {
      speed_up(link.rate, factor);
    }
  } else if (improvement.what == kCopies) {
    for (Kind& kind : cluster.kinds) {
      speed_up(kind.host_copy, factor);
    }
    for (auto& [name, kind] : measured.kinds) {
      speed_up(kind.download, factor);
      speed_up(kind.upload, factor);
    }
  } else if (improvement.what == kLaunches) {
    for (auto& [name, kind] : measured.kinds) {
      for (OpRow& row : kind.ops) {
        row.seconds -= std::min(row.seconds, kind.launch_seconds) * (1 - 1 / factor);
      }
      kind.launch_seconds /= factor;
      kind.action_seconds /= factor;
    }
  } else if (improvement.what == kMemory) {
    speed_up_memory(cluster, measured, factor);
  } else {
    known = false;
    for (Kind& kind : cluster.kinds) {
      if (kind.name != improvement.what) continue;
      const auto found = measured.kinds.find(kind.name);
      speed_up(kind, found == measured.kinds.end() ? nullptr : &found->second, factor);
      known = true;
    }
  }
  if (!known) {
    std::string all = text(kLinks, ", ", kCopies, ", ", kLaunches, ", ", kMemory);
    for (const Kind& kind : cluster.kinds) {
      all += ", " + kind.name;
    }
    refuse(improvement.what, "one of " + all);
  }
  return {std::move(cluster), std::move(measured)};
}

Gain gain_of(const Plan& plan, const ModelConfig& model, const CostModel& costs,
             double step_seconds, const Improvement& improvement) {
  const CostModel better = improved(costs, improvement);
  Gain gain{.improvement = improvement, .step_seconds = predict(plan, model, better).step_seconds};
  gain.speedup = gain.step_seconds > 0 ? step_seconds / gain.step_seconds : 1;
  return gain;
}

std::vector<Gain> gains_of(const Plan& plan, const ModelConfig& model, const CostModel& costs,
                           double step_seconds, double factor) {
  const std::vector<std::string> kinds = plan.kind_of_rank();
  std::set<std::string> parts(kinds.begin(), kinds.end());
  parts.insert({kLinks, kCopies, kLaunches, kMemory});
  std::vector<Gain> gains;
  for (const std::string& part : parts) {
    gains.push_back(gain_of(plan, model, costs, step_seconds, {part, factor}));
  }
  std::stable_sort(gains.begin(), gains.end(),
                   [](const Gain& a, const Gain& b) { return a.speedup > b.speedup; });
  return gains;
}

}  // namespace hethub

#include "hethub/collective/tuning.h"

#include <cmath>
#include <map>
#include <utility>

namespace hethub {
namespace {

constexpr double kClearlyFaster = 0.97;

using Times = std::map<std::string, double>;  // by algorithm, at one size

// The one to take, if `before` served the next smaller size.
std::string best_of(const Times& times, const std::string& before) {
  auto best = times.begin();
  for (auto candidate = times.begin(); candidate != times.end(); ++candidate) {
    if (candidate->second < best->second) best = candidate;
  }
  const auto kept = times.find(before);
  if (kept != times.end() && best->second > kClearlyFaster * kept->second) return before;
  return best->first;
}

void add_rules(std::vector<ChoiceRule>& rules, CollectiveOp op, int ranks,
               const std::map<std::int64_t, Times>& of_size) {
  std::string before;
  std::int64_t size_before = 0;
  const auto close = [&](std::int64_t most_bytes) {
    rules.push_back({.op = op,
                     .algorithm = before,
                     .most_bytes = most_bytes,
                     .least_ranks = ranks,
                     .most_ranks = ranks});
  };
  for (const auto& [bytes, times] : of_size) {
    const std::string best = best_of(times, before);
    if (!before.empty() && best != before) {
      close(static_cast<std::int64_t>(
          std::sqrt(static_cast<double>(size_before) * static_cast<double>(bytes))));
    }
    before = best;
    size_before = bytes;
  }
  close(-1);
}

}  // namespace

ChoiceTable tuned_choices(const std::vector<AlgorithmTime>& times, const ChoiceTable& base) {
  std::map<std::pair<CollectiveOp, int>, std::map<std::int64_t, Times>> measured;
  for (const AlgorithmTime& time : times) {
    measured[{time.op, time.ranks}][time.bytes][time.algorithm] = time.seconds;
  }
  ChoiceTable table;
  for (const ChoiceRule& rule : base.rules) {
    if (rule.needs_parts) table.rules.push_back(rule);
  }
  for (const auto& [call, of_size] : measured) {
    add_rules(table.rules, call.first, call.second, of_size);
  }
  for (const ChoiceRule& rule : base.rules) {
    if (!rule.needs_parts) table.rules.push_back(rule);
  }
  return table;
}

double bus_factor(CollectiveOp op, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  switch (op) {
    case CollectiveOp::kAllReduce:
      return 2 * others;
    case CollectiveOp::kReduceScatter:
    case CollectiveOp::kAllGather:
    case CollectiveOp::kAllToAll:
    case CollectiveOp::kGather:
    case CollectiveOp::kScatter:
      return others;
    case CollectiveOp::kReduce:
    case CollectiveOp::kBroadcast:
      return 1;
    case CollectiveOp::kBarrier:
      return 0;
  }
  return 0;
}

}  // namespace hethub

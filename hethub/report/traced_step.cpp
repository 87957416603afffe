#include "hethub/report/traced_step.h"

#include <algorithm>
#include <map>

#include "hethub/plan/schedule.h"

namespace hethub {
namespace {

using Steps = std::vector<std::vector<Span>>;

bool is_of_kind(const Span& span, ActionKind kind) { return span.category == name_of(kind); }

// Whether it belongs to one micro-batch.
bool is_of_micro_batch(const Span& span) {
  for (int kind = 0; kind < kActionKinds; ++kind) {
    if (!is_of_kind(span, static_cast<ActionKind>(kind))) continue;
    const auto of_step = step_actions();
    return std::find(of_step.begin(), of_step.end(), static_cast<ActionKind>(kind)) ==
           of_step.end();
  }
  return false;
}

// The spans of one rank. Ranks meet in sync_norm once a step and when all micro-batches are done,
// so that the next span of a micro-batch begins a step.
Steps steps_of(std::vector<Span> spans) {
  std::stable_sort(spans.begin(), spans.end(),
                   [](const Span& a, const Span& b) { return a.begin_s < b.begin_s; });
  Steps steps(1);
  bool met = false;
  for (Span& span : spans) {
    if (met && is_of_micro_batch(span)) {
      steps.emplace_back();
      met = false;
    }
    met = met || is_of_kind(span, ActionKind::kSyncNorm);
    steps.back().push_back(std::move(span));
  }
  return steps;
}

std::size_t longest(const Steps& steps) {
  std::size_t most = 0;
  for (const auto& step : steps) {
    most = std::max(most, step.size());
  }
  return most;
}

// Steps are counted from the end, as a recorder lets the oldest spans go.
bool is_whole(const std::map<int, Steps>& ranks, std::size_t from_end) {
  return std::all_of(ranks.begin(), ranks.end(), [&](const auto& rank) {
    const Steps& steps = rank.second;
    return from_end < steps.size() && steps[steps.size() - 1 - from_end].size() == longest(steps);
  });
}

}  // namespace

Timeline last_whole_step(const Timeline& timeline) {
  std::map<int, std::vector<Span>> spans;
  for (const Span& span : timeline.spans) {
    spans[span.rank].push_back(span);
  }
  std::map<int, Steps> ranks;
  std::size_t most = 0;
  for (auto& [rank, of_rank] : spans) {
    ranks[rank] = steps_of(std::move(of_rank));
    most = std::max(most, ranks[rank].size());
  }
  std::size_t chosen = 0;
  while (chosen < most && !is_whole(ranks, chosen))
    ++chosen;
  if (chosen == most) chosen = 0;
  Timeline step{.name = timeline.name, .rank_names = timeline.rank_names};
  for (const auto& [rank, steps] : ranks) {
    if (chosen >= steps.size()) continue;
    const auto& part = steps[steps.size() - 1 - chosen];
    step.spans.insert(step.spans.end(), part.begin(), part.end());
  }
  return merge(std::vector<Timeline>{step});
}

}  // namespace hethub

#include "hethub/report/traced_step.h"

#include <algorithm>
#include <map>

namespace hethub {
namespace {

using Steps = std::vector<std::vector<Span>>;

// The spans of one rank, cut where the first one's name comes again.
Steps steps_of(std::vector<Span> spans) {
  std::stable_sort(spans.begin(), spans.end(),
                   [](const Span& a, const Span& b) { return a.begin_s < b.begin_s; });
  Steps steps;
  const Span first = spans.front();
  for (Span& span : spans) {
    if (span.name == first.name && span.lane == first.lane) steps.emplace_back();
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

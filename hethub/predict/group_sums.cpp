#include "hethub/predict/group_sums.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "hethub/collective/choice.h"
#include "hethub/plan/rank_plan.h"

namespace hethub {
namespace {

constexpr std::ptrdiff_t kMostMembers = 32;

// The first and the last of some.
std::vector<int> ends_of(const std::vector<int>& all, std::ptrdiff_t members) {
  std::vector<int> ends(all.begin(), all.begin() + members / 2);
  ends.insert(ends.end(), all.end() - (members - members / 2), all.end());
  return ends;
}

// Some of a segment's holders, each with what it owns; of each kind in proportion.
Segment part_of(const Segment& segment, std::ptrdiff_t members) {
  std::vector<int> chosen(segment.ranks.size());
  std::iota(chosen.begin(), chosen.end(), 0);
  const auto all = std::ssize(chosen);
  if (members < all && segment.kinds.empty()) chosen = ends_of(chosen, members);
  if (members < all && !segment.kinds.empty()) {
    chosen.clear();
    for (const std::vector<int>& kind : segment.kinds) {
      const std::ptrdiff_t some = (std::ssize(kind) * members + all - 1) / all;
      const std::vector<int> ends = ends_of(kind, some);
      chosen.insert(chosen.end(), ends.begin(), ends.end());
    }
    std::sort(chosen.begin(), chosen.end());
  }
  Segment part;
  std::vector<int> place(segment.ranks.size(), -1);  // in the part, by holder
  for (const int holder : chosen) {
    place[holder] = static_cast<int>(part.ranks.size());
    part.ranks.push_back(segment.ranks[holder]);
    part.owned.push_back(segment.owned[holder]);
    part.elements += segment.owned[holder];
  }
  for (const std::vector<int>& kind : segment.kinds) {
    std::vector<int>& here = part.kinds.emplace_back();
    for (const int holder : kind) {
      if (place[holder] >= 0) here.push_back(place[holder]);
    }
  }
  return part;
}

}  // namespace

double GroupSums::gradient_seconds(const Segment& segment, const std::vector<int>& devices) {
  return seconds(segment, devices, gradient_algorithm);
}

double GroupSums::parameter_seconds(const Segment& segment, const std::vector<int>& devices) {
  return seconds(segment, devices, parameter_algorithm);
}

double GroupSums::seconds(const Segment& segment, const std::vector<int>& devices, Choose choose) {
  const auto all = std::ssize(segment.ranks);
  const Segment part = part_of(segment, std::min(all, kMostMembers));
  const std::vector<RankPlace>& places = builder_.costs().ranks();
  std::vector<int> group;
  std::vector<std::int64_t> key = {choose == gradient_algorithm ? 0 : 1, all};
  std::map<int, int> nodes;
  for (std::size_t member = 0; member < part.ranks.size(); ++member) {
    group.push_back(devices[part.ranks[member]]);
    const RankPlace& place = places[group.back()];
    const auto node = nodes.try_emplace(place.node, static_cast<int>(nodes.size())).first;
    key.insert(key.end(), {part.owned[member], builder_.kind_of(group.back()), node->second});
  }
  const auto [found, is_new] = known_.try_emplace(std::move(key), 0.0);
  if (!is_new) return found->second;
  const double alone = builder_.alone_seconds(group, choose(part), part.owned, DType::kF32);
  found->second = alone * static_cast<double>(all - 1) / static_cast<double>(group.size() - 1);
  return found->second;
}

double GroupSums::summary_seconds(const std::vector<int>& devices) const {
  const auto ranks = std::ssize(devices);
  std::vector<int> group = devices;
  if (ranks > kMostMembers) {
    group.erase(group.begin() + kMostMembers / 2, group.end() - kMostMembers / 2);
  }
  const auto members = std::ssize(group);
  const ChunkTable chunks(group.size(), summary_numbers(ranks) * ranks / members);
  return builder_.alone_seconds(std::move(group), host_all_gather(static_cast<int>(members)),
                                chunks, DType::kF64, DataPlace::kHost);
}

}  // namespace hethub

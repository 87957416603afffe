#include "hethub/plan/segment_rounds.h"

#include <algorithm>
#include <cstddef>

namespace hethub {
namespace {

// By holders' number: the others that have a rank in common with them.
std::vector<std::vector<int>> neighbours_of(const std::vector<Segment>& segments,
                                            const std::vector<int>& holders) {
  std::vector<std::vector<int>> of_rank;
  std::vector<std::vector<int>> neighbours;
  for (std::size_t segment = 0; segment < segments.size(); ++segment) {
    const auto number = static_cast<std::size_t>(holders[segment]);
    if (!segments[segment].is_shared() || number < neighbours.size()) continue;  // seen
    neighbours.resize(number + 1);
    for (const int rank : segments[segment].ranks) {
      if (rank >= std::ssize(of_rank)) of_rank.resize(static_cast<std::size_t>(rank) + 1);
      for (const int other : of_rank[rank]) {
        neighbours[number].push_back(other);
        neighbours[other].push_back(static_cast<int>(number));
      }
      of_rank[rank].push_back(static_cast<int>(number));
    }
  }
  for (std::vector<int>& list : neighbours) {
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }
  return neighbours;
}

// The rounds in which some ranks are busy.
class Rounds {
 public:
  int first_free() {
    while (first_ < taken_.size() && taken_[first_])
      ++first_;
    return static_cast<int>(first_);
  }
  void take(int round) {
    if (round >= std::ssize(taken_)) taken_.resize(static_cast<std::size_t>(round) + 1);
    taken_[round] = true;
  }

 private:
  std::vector<bool> taken_ = {};
  std::size_t first_ = 0;
};

}  // namespace

void set_rounds(std::vector<Segment>& segments, const std::vector<int>& holders) {
  const std::vector<std::vector<int>> neighbours = neighbours_of(segments, holders);
  std::vector<Rounds> rounds(neighbours.size());
  for (std::size_t segment = segments.size(); segment-- > 0;) {
    if (!segments[segment].is_shared()) continue;
    const int mine = holders[segment];
    const int round = rounds[mine].first_free();
    segments[segment].round = round;
    rounds[mine].take(round);
    for (const int other : neighbours[mine]) {
      rounds[other].take(round);
    }
  }
}

}  // namespace hethub

#include "hethub/collective/steps.h"

#include <algorithm>
#include <set>
#include <utility>

#include "hethub/base/error.h"

namespace hethub {

CollectiveAlgorithm without_steps(std::string name, int world_size) {
  require(world_size >= 1, [&] {
    return ErrorParts{.what = text(name, ": number of ranks"),
                      .found = text(world_size),
                      .expected = "1 or more",
                      .fix = "pass the number of ranks in the group"};
  });
  CollectiveAlgorithm algorithm{.name = std::move(name), .chunks = world_size};
  algorithm.steps.resize(static_cast<std::size_t>(world_size));
  return algorithm;
}

void check_root(const CollectiveAlgorithm& algorithm, int root) {
  require(root >= 0 && root < algorithm.world_size(), [&] {
    return ErrorParts{.what = text(algorithm.name, ": root"),
                      .found = text(root),
                      .expected = text("0 to ", algorithm.world_size() - 1),
                      .fix = "pass the position of the root in the group"};
  });
}

CollectiveAlgorithm one_after_the_other(std::string name, CollectiveAlgorithm first,
                                        const CollectiveAlgorithm& second) {
  first.name = std::move(name);
  first.scratch_places = std::max(first.scratch_places, second.scratch_places);
  first.mirrored = first.mirrored || second.mirrored;
  for (std::size_t rank = 0; rank < first.steps.size(); ++rank) {
    first.steps[rank].insert(first.steps[rank].end(), second.steps[rank].begin(),
                             second.steps[rank].end());
  }
  return first;
}

int ranks_in(const std::string& name, const std::vector<std::vector<int>>& parts) {
  std::set<int> named;
  int ranks = 0;
  for (const std::vector<int>& part : parts) {
    named.insert(part.begin(), part.end());
    ranks += static_cast<int>(part.size());
  }
  const bool each_once = !named.empty() && std::ssize(named) == ranks && *named.begin() == 0 &&
                         *named.rbegin() == ranks - 1;
  require(each_once, [&] {
    return ErrorParts{.what = text(name, ": parts"),
                      .found = text(ranks, " ranks named, ", named.size(), " of them different"),
                      .expected = "each position of the group in one part",
                      .fix = "give the ranks of each kind and node as one part"};
  });
  return ranks;
}

}  // namespace hethub

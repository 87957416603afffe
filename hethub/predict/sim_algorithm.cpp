#include "hethub/predict/sim_algorithm.h"

#include <map>
#include <utility>

#include "hethub/base/error.h"

namespace hethub {

SimAlgorithm::SimAlgorithm(CollectiveAlgorithm of) : algorithm(std::move(of)) {
  std::map<std::pair<int, int>, int> numbers;  // of pairs, by sender and receiver
  pair_of_step.resize(algorithm.steps.size());
  for (int sender = 0; sender < algorithm.world_size(); ++sender) {
    const std::vector<Step>& steps = algorithm.steps[sender];
    orders.emplace_back(steps);
    pair_of_step[sender].assign(steps.size(), -1);
    for (std::size_t step = 0; step < steps.size(); ++step) {
      if (steps[step].kind != StepKind::kSend) continue;
      const auto [place, is_new] =
          numbers.try_emplace({sender, steps[step].peer}, static_cast<int>(pairs.size()));
      if (is_new) pairs.push_back({.sender = sender, .receiver = steps[step].peer});
      ++pairs[place->second].messages;
      pair_of_step[sender][step] = place->second;
    }
  }
  for (int receiver = 0; receiver < algorithm.world_size(); ++receiver) {
    const std::vector<Step>& steps = algorithm.steps[receiver];
    for (std::size_t step = 0; step < steps.size(); ++step) {
      if (steps[step].kind != StepKind::kRecv) continue;
      const auto found = numbers.find({steps[step].peer, receiver});
      require(found != numbers.end(), [&] {
        return ErrorParts{.what = text("simulated ", algorithm.name),
                          .found = text("no send from ", steps[step].peer, " to ", receiver),
                          .expected = "one for each receive",
                          .fix = "check the algorithm"};
      });
      pair_of_step[receiver][step] = found->second;
    }
  }
}

std::shared_ptr<const SimAlgorithm> SegmentAlgorithms::of(const Segment& segment, Choose choose) {
  std::shared_ptr<const SimAlgorithm>& known =
      known_[{choose, segment.ranks.size(), segment.elements, segment.kinds}];
  if (known == nullptr) known = std::make_shared<const SimAlgorithm>(choose(segment));
  return known;
}

}  // namespace hethub

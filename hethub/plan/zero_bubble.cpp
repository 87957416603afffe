#include "hethub/plan/zero_bubble.h"

#include "hethub/base/error.h"
#include "hethub/plan/action_list.h"

namespace hethub {
namespace {

// How many micro-batches a stage has behind it in each of the three passes.
struct Done {
  int forward = 0;
  int input = 0;
  int weight = 0;
};

// Plays the step in ticks of one pass each. A stage prefers a forward while few are under way, then
// an input gradient, then a weight gradient; what it chooses depends on the tick before alone.
class Player {
 public:
  Player(int stages, int micro_batches)
      : stages_(stages), micro_batches_(micro_batches), done_(static_cast<std::size_t>(stages)) {
    for (int stage = 0; stage < stages; ++stage) {
      lists_.emplace_back(stages);
    }
  }

  std::vector<ActionList> play() {
    while (done_.front().weight < micro_batches_ || done_.back().weight < micro_batches_) {
      const std::vector<Done> before = done_;
      for (int stage = 0; stage < stages_; ++stage) {
        tick(stage, before);
      }
    }
    return std::move(lists_);
  }

 private:
  void tick(int stage, const std::vector<Done>& before) {
    const Done& now = before[stage];
    const bool has_activation = stage == 0 || before[stage - 1].forward > now.forward;
    const bool has_gradient =
        now.input < now.forward && (stage == stages_ - 1 || before[stage + 1].input > now.input);
    const bool has_room =
        now.forward - now.input < stages_ - stage && now.forward - now.weight < stages_;
    if (now.forward < micro_batches_ && has_activation && has_room) {
      lists_[stage].forward(stage, done_[stage].forward++);
    } else if (has_gradient) {
      lists_[stage].backward_input(stage, done_[stage].input++);
    } else if (now.weight < now.input) {
      lists_[stage].backward_weight(stage, done_[stage].weight++);
    }
  }

  int stages_;
  int micro_batches_;
  std::vector<Done> done_;
  std::vector<ActionList> lists_ = {};
};

}  // namespace

Schedule zero_bubble(int stages, int micro_batches) {
  require_shape("zero-bubble", stages, micro_batches);
  Schedule schedule{.name = "zero-bubble", .micro_batches = micro_batches, .worker_of = {{}}};
  std::vector<ActionList> lists = Player(stages, micro_batches).play();
  for (int stage = 0; stage < stages; ++stage) {
    lists[stage].finish_step(stage);
    schedule.worker_of[0].push_back(stage);
    schedule.actions.push_back(lists[stage].take());
  }
  return schedule;
}

}  // namespace hethub

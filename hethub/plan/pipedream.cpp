#include "hethub/plan/pipedream.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string>

#include "hethub/base/error.h"
#include "hethub/base/text.h"
#include "hethub/plan/action_list.h"

namespace hethub {
namespace {

// How updates and the versions that passes use follow from the micro-batches.
struct Versions {
  int period = 1;                                              // micro-batches of an update
  std::function<int(int micro_batch, int updates)> used = {};  // by a forward pass
};

Schedule make(std::string name, int stages, int micro_batches, const Versions& versions) {
  require_shape(name, stages, micro_batches);
  Schedule schedule{.name = std::move(name), .micro_batches = micro_batches, .worker_of = {{}}};
  for (int stage = 0; stage < stages; ++stage) {
    const int lead = std::min(stages - 1 - stage, micro_batches);
    ActionList list(stages);
    std::vector<int> used;  // by micro-batch
    int updates = 0;
    for (int slot = 0; slot < micro_batches + lead; ++slot) {
      if (slot < micro_batches) {
        used.push_back(versions.used(slot, updates));
        list.use({.weight_version = used.back()});
        list.forward(stage, slot);
      }
      const int back = slot - lead;
      if (back < 0) continue;
      list.use({.weight_version = used[back]});
      list.backward(stage, back);
      if ((back + 1) % versions.period != 0) continue;
      list.use({.weight_version = ++updates});
      list.update(stage, back);
    }
    schedule.worker_of[0].push_back(stage);
    schedule.actions.push_back(list.take());
  }
  return schedule;
}

}  // namespace

Schedule pipedream(int stages, int micro_batches) {
  return make("pipedream", stages, micro_batches,
              {.period = 1, .used = [](int /*micro_batch*/, int updates) { return updates; }});
}

Schedule pipedream_2bw(int stages, int micro_batches) {
  require(stages >= 1 && micro_batches >= stages && micro_batches % stages == 0, [&] {
    return ErrorParts{.what = "pipedream-2bw schedule",
                      .found = text("stages=", stages, " micro_batches=", micro_batches),
                      .expected = "micro-batches in whole runs of the stages",
                      .fix = "change one of the two"};
  });
  return make("pipedream-2bw", stages, micro_batches,
              {.period = stages, .used = [=](int micro_batch, int /*updates*/) {
                 return std::max(0, micro_batch / stages - 1);
               }});
}

int most_weight_versions(const Schedule& schedule, int worker) {
  const auto& actions = schedule.actions.at(worker);
  std::map<int, int> last_use;  // by version
  for (std::size_t slot = 0; slot < actions.size(); ++slot) {
    if (actions[slot].is_compute()) last_use[actions[slot].weight_version] = static_cast<int>(slot);
  }
  int newest = 0;
  int most = 1;
  for (std::size_t slot = 0; slot < actions.size(); ++slot) {
    const bool updates = actions[slot].kind == ActionKind::kUpdate;
    if (updates) newest = std::max(newest, actions[slot].weight_version);
    int alive = last_use.contains(newest) ? 0 : 1;
    for (const auto& [version, last] : last_use) {
      const bool is_made = version <= newest;
      const bool is_needed = version == newest || last > static_cast<int>(slot);
      if (is_made && is_needed) ++alive;
    }
    most = std::max(most, alive);
  }
  return most;
}

}  // namespace hethub

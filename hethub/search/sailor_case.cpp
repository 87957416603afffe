#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "hethub/base/deadline.h"
#include "hethub/base/error.h"
#include "hethub/search/planner_case.h"
#include "hethub/search/sailor_bounds.h"
#include "hethub/search/sailor_plan.h"

namespace hethub {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// A stage of SailorSearch's mixes.
struct MixedStage {
  int mix = 0;
  int begin = 0;
  int end = 0;
};

/// Depth first over stages from the last to the first, for each micro-batch size and each number of
/// replicas that spares a micro-batch. A branch ends where a bound says that no plan in it is
/// faster than the best: what is left keeps the devices that are left busy for so long at least.
class SailorSearch {
 public:
  // Plans of one micro-batch size and number of replicas whose slowest stage is in a range.
  struct Start {
    int size = 0;
    int replicas = 0;
    int range = 0;  // position in bounds_.ranges(size)
    double bound = 0;
  };

  SailorSearch(const SailorTables& tables, double time_limit_s)
      : tables_(tables), bounds_(tables), end_(after_seconds(time_limit_s)) {
    list_mixes({}, 0);
  }

  SailorPlan run() {
    std::vector<Start> starts = all_starts();
    std::stable_sort(starts.begin(), starts.end(),
                     [](const Start& a, const Start& b) { return a.bound < b.bound; });
    // First few stages of several kinds: good plans come early, and rule out much of the rest.
    constexpr std::array<Pass, 3> kPasses = {{{0, 250}, {1, 50}, {kAnyNumber, 100}}};
    const int devices =
        std::max(64, std::accumulate(tables_.available.begin(), tables_.available.end(), 0));
    for (const Pass& pass : kPasses) {
      most_mixed_ = pass.most_mixed;
      most_nodes_ = nodes_ + static_cast<std::int64_t>(pass.nodes_a_device) * devices;
      stopped_ = false;
      search(starts);
    }
    return best_;
  }

  // A lower bound of every plan's seconds.
  double bound_seconds() const { return bound_; }

 private:
  static constexpr int kAnyNumber = 1 << 20;

  struct Pass {
    int most_mixed = 0;  // stages of more than one kind
    int nodes_a_device = 0;
  };

  void search(const std::vector<Start>& starts) {
    bound_ = kNever;
    for (const Start& start : starts) {
      if (start.bound >= best_.seconds) break;
      if (out_of_time()) {
        bound_ = std::min(bound_, start.bound);
        break;
      }
      begin_search(start);
      grow({.end = tables_.layers});
      if (stopped_) bound_ = std::min(bound_, start.bound);
    }
    bound_ = std::min(bound_, best_.seconds);
  }

  // The stages chosen so far, from the end; the first of them lacks what it sends to its front.
  struct State {
    int end = 0;         // layers [0, end) have no stage yet
    double slowest = 0;  // of stages that are complete
    double total = 0;    // likewise
    double open = 0;     // what is known of the first stage
    double update = 0;
    double exchange = 0;
  };

  bool out_of_time() {
    stopped_ = stopped_ || nodes_ > most_nodes_ || std::chrono::steady_clock::now() > end_;
    return stopped_;
  }

  void list_mixes(SailorMix chosen, int kind) {
    if (kind == std::ssize(tables_.kinds)) {
      if (!chosen.empty()) mixes_.push_back(chosen);
      return;
    }
    list_mixes(chosen, kind + 1);
    for (int device = 0; device < std::ssize(tables_.devices); ++device) {
      if (tables_.devices[device].kind != kind || tables_.available[kind] == 0) continue;
      SailorMix more = chosen;
      more.push_back(device);
      list_mixes(more, kind + 1);
    }
  }

  // The fewest replicas for each number of micro-batches: more of them gain nothing.
  std::vector<Start> all_starts() const {
    std::vector<Start> starts;
    const int most = std::accumulate(tables_.available.begin(), tables_.available.end(), 0);
    for (int size = 0; size < std::ssize(tables_.sizes); ++size) {
      std::int64_t before = 0;
      for (int replicas = 1; replicas <= most; ++replicas) {
        const std::int64_t count = micro_batches(tables_, size, replicas);
        if (count == before) continue;
        before = count;
        for (int range = 0; range < std::ssize(bounds_.ranges(size)); ++range) {
          const SailorBounds::Range& one = bounds_.ranges(size)[range];
          if (!affordable(one.rest[0], replicas)) break;
          const double seconds = std::max(one.rest[0].seconds.back(), one.fastest);
          starts.push_back(
              {size, replicas, range, static_cast<double>(count - 1) * one.fastest + seconds});
        }
      }
    }
    return starts;
  }

  bool affordable(const SailorBounds::Rest& rest, int replicas) const {
    for (std::size_t way = 0; way < rest.worth.size(); ++way) {
      if (!bounds_.affordable(way, replicas * rest.worth[way].back())) return false;
    }
    return true;
  }

  void begin_search(const Start& start) {
    size_ = start.size;
    replicas_ = start.replicas;
    range_ = &bounds_.ranges(size_)[start.range];
    more_ = static_cast<double>(micro_batches(tables_, size_, replicas_) - 1);
    stages_.clear();
    exchanges_.assign(exchanges_.size(), -1);
    used_.assign(1, std::vector<double>(bounds_.prices().size(), 0));
  }

  const SailorBounds::Rest& rest_after(std::size_t stages) const {
    return range_->rest[std::min<std::size_t>(stages, SailorBounds::kDeepest)];
  }

  // Seconds of a step at least, with so many stages chosen.
  double bound_of(const State& state, std::size_t stages) const {
    const double slowest = std::max({state.slowest, state.open, range_->fastest});
    return more_ * slowest + state.total + state.open + rest_after(stages).seconds[state.end] +
           state.update + state.exchange;
  }

  // The least that any pairing of the replicas makes the slowest of these transfers.
  double transfer(int layer, const SailorMix& from, const SailorMix& to) const {
    double slowest = 0;
    for (const int one : from) {
      double least = kNever;
      for (const int other : to) {
        least = std::min(least, tables_.transfer(layer, size_, one, other));
      }
      slowest = std::max(slowest, least);
    }
    return slowest;
  }

  void grow(const State& state) {
    if (stopped_ || (++nodes_ % 256 == 0 && out_of_time())) return;
    if (state.end == 0) {
      finish(state);
      return;
    }
    const auto mixed = std::count_if(stages_.begin(), stages_.end(),
                                     [&](const auto& one) { return mixes_[one.mix].size() > 1; });
    for (int mix = 0; mix < std::ssize(mixes_); ++mix) {
      if (mixed >= most_mixed_ && mixes_[mix].size() > 1) continue;
      for (int begin = state.end - 1; begin >= 0; --begin) {
        if (!try_stage(state, mix, begin)) break;
      }
    }
  }

  // False if a longer stage cannot be better.
  bool try_stage(const State& state, int which, int begin) {
    const SailorMix& mix = mixes_[which];
    const int from_end = static_cast<int>(stages_.size()) + 1;
    State next = state;
    double compute = 0;
    for (const int device : mix) {
      if (!tables_.fits(device, size_, begin, state.end, from_end)) return false;
      compute = std::max(compute, tables_.compute(device, size_, begin, state.end));
      next.update = std::max(next.update, tables_.update(device, size_, begin));
    }
    if (compute > range_->slowest) return false;
    if (more_ * compute + compute + state.total >= best_.seconds) return false;
    next.end = begin;
    if (!stages_.empty()) {  // now it is known where the stage before sends its gradients
      const SailorMix& after = mixes_[stages_.back().mix];
      const double back = transfer(state.end, after, mix);
      const double closed = state.open + (stages_.size() == 1 ? 2 : 1) * back;
      if (closed > range_->slowest) return true;
      next.slowest = std::max(next.slowest, closed);
      next.total += closed;
      compute += (begin == 0 && from_end > 3 ? 2 : 1) * transfer(state.end - 1, mix, after);
      if (compute > range_->slowest) return true;
    }
    next.open = compute;
    if (bound_of(next, stages_.size() + 1) >= best_.seconds) return true;
    if (!worth_enough(mix, begin) || !enough_devices(which)) return true;
    next.exchange = std::max(next.exchange, exchange(mix, begin, state.end));
    if (bound_of(next, stages_.size() + 1) >= best_.seconds) return true;
    stages_.push_back({which, begin, state.end});
    grow(next);
    stages_.pop_back();
    return true;
  }

  // Whether, by all prices, the devices are worth what the stages use and the rest needs. Leaves
  // what is used with one more stage of that mix behind that of the stages before.
  bool worth_enough(const SailorMix& mix, int begin) {
    const std::size_t stages = stages_.size() + 1;
    const SailorBounds::Rest& rest = rest_after(stages);
    used_.resize(std::max(used_.size(), stages + 1));
    used_[stages].resize(bounds_.prices().size());
    for (std::size_t way = 0; way < bounds_.prices().size(); ++way) {
      double least = kNever;
      for (const int device : mix) {
        const SailorDevice& made = tables_.devices[device];
        least = std::min(least, bounds_.prices()[way][made.kind] * made.tp);
      }
      const double used = used_[stages - 1][way] + least * replicas_;
      if (!bounds_.affordable(way, used + replicas_ * rest.worth[way][begin])) return false;
      used_[stages][way] = used;
    }
    return true;
  }

  // Where a mix meets, or if it has one kind only.
  double exchange(const SailorMix& mix, int begin, int end) {
    if (replicas_ < 2) return 0;
    int tp = tables_.devices[mix.front()].tp;
    for (const int device : mix) {
      tp = std::min(tp, tables_.devices[device].tp);
    }
    const auto kind = [&](std::size_t position) { return tables_.devices[mix[position]].kind; };
    if (mix.size() == 1) return exchange(begin, end, tp, kind(0), kind(0));
    double slowest = 0;
    for (std::size_t one = 1; one < mix.size(); ++one) {
      slowest = std::max(slowest, exchange(begin, end, tp, kind(one - 1), kind(one)));
    }
    return slowest;
  }

  double exchange(int begin, int end, int tp, int kind, int next_kind) {
    const std::size_t kinds = tables_.kinds.size();
    const std::size_t at =
        (((static_cast<std::size_t>(std::min(tp, 4)) * kinds + kind) * kinds + next_kind) *
             tables_.layers +
         begin) *
            (tables_.layers + 1) +
        end;
    exchanges_.resize(std::max(exchanges_.size(), at + 1), -1);
    if (exchanges_[at] < 0) {
      exchanges_[at] = tables_.exchange(begin, end, tp, replicas_, kind, next_kind);
    }
    return exchanges_[at];
  }

  // Whether the stages that have one kind leave enough of it, with one more stage of that mix.
  bool enough_devices(int more) const {
    std::vector<int> left = tables_.available;
    const auto take = [&](const SailorMix& mix) {
      if (std::ssize(mix) > replicas_) return false;
      for (const int device : mix) {
        int& rest = left[tables_.devices[device].kind];
        rest -= tables_.devices[device].tp * (mix.size() == 1 ? replicas_ : 1);
        if (rest < 0) return false;
      }
      return true;
    };
    return take(mixes_[more]) && std::all_of(stages_.begin(), stages_.end(), [&](const auto& one) {
             return take(mixes_[one.mix]);
           });
  }

  void finish(const State& state) {
    SailorPlan plan{.size = size_, .replicas = replicas_};
    for (auto stage = stages_.rbegin(); stage != stages_.rend(); ++stage) {
      plan.stages.push_back({mixes_[stage->mix], stage->begin, stage->end});
    }
    if (!share_out(tables_, plan)) {
      bound_ = std::min(
          bound_, bound_of(state, stages_.size()));  // it was not proven that none is possible
      return;
    }
    plan.seconds = seconds_of(tables_, plan);
    if (plan.seconds < best_.seconds) best_ = std::move(plan);
  }

  const SailorTables& tables_;
  const SailorBounds bounds_;
  std::vector<SailorMix> mixes_ = {};
  SailorPlan best_ = {};
  double bound_ = kNever;
  std::ptrdiff_t most_mixed_ = 0;
  // Of the search that goes on:
  int size_ = 0;
  int replicas_ = 1;
  double more_ = 0;  // micro-batches after the first
  const SailorBounds::Range* range_ = nullptr;
  std::vector<MixedStage> stages_ = {};
  std::vector<std::vector<double>> used_ = {};  // worth of the stages so far, by prices
  std::vector<double> exchanges_ = {};          // seconds that were asked for; -1: not yet
  std::int64_t nodes_ = 0;
  std::int64_t most_nodes_ = 0;
  Deadline end_;
  bool stopped_ = false;
};

class SailorCase : public PlannerCase {
 public:
  SailorCase(const Json& file, const std::string& where, const std::map<std::string, int>& counts)
      : where_(where), tables_(file, where, counts) {}

  CaseAnswer find(double time_limit_s) const override {
    SailorSearch search(tables_, time_limit_s);
    const SailorPlan plan = search.run();
    if (plan.stages.empty()) {
      throw Error(ErrorCode::kInvalidPlan, {.what = where_ + ": plans",
                                            .found = "none that fits the memory",
                                            .expected = "1 or more",
                                            .fix = "raise --cluster-counts"});
    }
    return {.pipelines = pipelines_of(tables_, plan),
            .step_seconds = plan.seconds,
            .bound_seconds = search.bound_seconds()};
  }

 private:
  std::string where_;
  SailorTables tables_;
};

}  // namespace

std::unique_ptr<PlannerCase> sailor_case(const Json& file, const std::string& where,
                                         const std::map<std::string, int>& counts) {
  return std::make_unique<SailorCase>(file, where, counts);
}

}  // namespace hethub

#include "hethub/search/exact.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "hethub/base/error.h"

namespace hethub {
namespace {

std::vector<int> usable_sizes(const SearchRequest& request) {
  if (request.pins.micro_batch_size) return {*request.pins.micro_batch_size};
  std::vector<int> sizes = request.micro_batch_sizes;
  std::erase_if(sizes, [&](int size) { return size < 1 || size > request.global_batch; });
  return sizes;
}

// What a bound may take, if there is no time for all, is left of the time.
constexpr double kSearchPart = 0.85;

}  // namespace

ExactSearch::ExactSearch(const SearchRequest& request) : ExactSearch(request, own_cache(request)) {}

ExactSearch::ExactSearch(const SearchRequest& request, std::unique_ptr<SearchCache> own)
    : request_(request),
      classes_(usable_classes(request)),
      own_(std::move(own)),
      pricer_((own_ ? *own_ : *request.cache).pricer),
      memory_((own_ ? *own_ : *request.cache).memory),
      stage_memory_((own_ ? *own_ : *request.cache).stage_memory),
      sizes_(usable_sizes(request)),
      tables_(request, classes_, sizes_, pricer_),
      begin_(std::chrono::steady_clock::now()),
      end_(after_seconds(kSearchPart * request.time_limit_s)),
      proof_end_(after_seconds(request.time_limit_s)) {
  list_shapes();
}

std::int64_t ExactSearch::split_capacity(int shape, int split, double seconds) const {
  if (seconds == kNever) return request_.global_batch;
  std::int64_t best = 0;
  for (std::size_t size = 0; size < sizes_.size(); ++size) {
    best = std::max(best, tables_.capacity(shapes_[shape], splits_of(shape)[split],
                                           static_cast<int>(size), seconds, request_.global_batch));
  }
  return best;
}

// What was computed for a higher threshold is an upper bound still.
std::int64_t ExactSearch::shape_capacity(int shape) {
  auto& [at, capacity] = capacities_[shape];
  if (capacity >= 0 && threshold() > 0.99 * at) return capacity;
  at = threshold();
  capacity = 0;
  for (int split = 0; split < std::ssize(splits_of(shape)) && capacity < request_.global_batch;
       ++split) {
    if (out_of_time()) return capacity = request_.global_batch;
    capacity = std::max(capacity, split_capacity(shape, split, at));
  }
  return capacity;
}

double ExactSearch::threshold() const {
  return kept_.size() < request_.keep ? kNever : kept_.back().seconds * (1 + kSlack);
}

// A quarter of the time goes to the dives at most.
bool ExactSearch::dives_over() const {
  return std::chrono::steady_clock::now() > begin_ + (end_ - begin_) / 4;
}

bool ExactSearch::out_of_time() {
  stopped_ = stopped_ || std::chrono::steady_clock::now() > end_;
  return stopped_;
}

SearchResult ExactSearch::run() {
  rate_shapes();
  std::vector<RatedCombination> combinations;
  const Pins& pins = request_.pins;
  const int most = static_cast<int>(std::min<std::int64_t>(
      pins.pipelines.value_or(static_cast<int>(request_.costs.ranks().size())),
      request_.global_batch));
  for_each_combination(classes_, shapes_, most, [&](const std::vector<int>& chosen) {
    if (!pins.pipelines || std::ssize(chosen) == *pins.pipelines) {
      double rate = 0;
      for (const int shape : chosen) {
        rate += rates_[shape];
      }
      combinations.emplace_back(rate, chosen);
    }
    return !out_of_time();
  });
  std::stable_sort(combinations.begin(), combinations.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  dive_everywhere(combinations);
  std::size_t done = 0;
  for (; done < combinations.size() && !out_of_time(); ++done) {
    explore(combinations[done].second);
  }
  result_.complete = !stopped_;
  std::vector<std::vector<int>> rest;
  for (std::size_t index = done == 0 ? 0 : done - 1; stopped_ && index < combinations.size();
       ++index) {
    rest.push_back(combinations[index].second);
  }
  for (const Kept& kept : kept_) {
    result_.best.push_back({kept.plan, predict(kept.plan, request_.model, request_.costs)});
    result_.best.back().plan.predicted_step_seconds = result_.best.back().prediction.step_seconds;
  }
  if (!result_.best.empty()) {
    result_.bound_seconds =
        stopped_ ? proven_bound(rest) : result_.best.front().prediction.step_seconds;
  }
  return std::move(result_);
}

// The largest time at which no set of shapes that is left can take the global batch, as far as
// there is time to find it; 0 where not all splits are known.
double ExactSearch::proven_bound(const std::vector<std::vector<int>>& rest) const {
  if (!listed_) return 0;
  double high = kept_.front().seconds;
  double low = 0;
  for (int round = 0; round < 20; ++round) {
    const double middle = (low + high) / 2;
    (has_room(rest, middle) ? high : low) = middle;
  }
  return low;
}

// Whether one of these sets may take the global batch in so long; true where time is out.
bool ExactSearch::has_room(const std::vector<std::vector<int>>& rest, double seconds) const {
  std::vector<std::int64_t> capacity(shapes_.size(), 0);
  for (int shape = 0; shape < std::ssize(shapes_); ++shape) {
    for (int split = 0;
         split < std::ssize(splits_of(shape)) && capacity[shape] < request_.global_batch; ++split) {
      if (std::chrono::steady_clock::now() > proof_end_) return true;
      capacity[shape] = std::max(capacity[shape], split_capacity(shape, split, seconds));
    }
  }
  return std::any_of(rest.begin(), rest.end(), [&](const auto& combination) {
    std::int64_t all = 0;
    for (const int shape : combination) {
      all += capacity[shape];
    }
    return all >= request_.global_batch;
  });
}

// The sets of the highest rates among those with as many pipelines and ranks, so that the first
// plans kept are good whether computing or talking costs more: a few of each, then more.
void ExactSearch::dive_everywhere(const std::vector<RatedCombination>& combinations) {
  constexpr std::array<int, 3> kRounds = {1, 3, 60};
  std::map<std::vector<int>, int> dives;  // by pipelines and ranks used of each class
  for (const int most : kRounds) {
    std::map<std::vector<int>, int> seen;
    for (const auto& [rate, combination] : combinations) {
      std::vector<int> key(classes_.size() + 1, static_cast<int>(combination.size()));
      for (const int shape : combination) {
        for (const int which : shapes_[shape]) {
          ++key[which];
        }
      }
      if (++seen[key] <= dives[key] || seen[key] > most) continue;
      ++dives[key];
      for (std::size_t size = 0; size < sizes_.size() && !dives_over(); ++size) {
        dive(combination, static_cast<int>(size));
      }
    }
  }
}

// A good plan of a set at once: the split of the highest rate, batches in proportion to the rates.
void ExactSearch::dive(const std::vector<int>& combination, int size) {
  const std::int64_t units = request_.global_batch / sizes_[size];
  if (units * sizes_[size] != request_.global_batch || units < std::ssize(combination)) return;
  std::vector<Choice> chosen;
  for (const int shape : combination) {
    chosen.push_back({shape, best_splits_[shape], size, 1});
  }
  for (std::int64_t unit = std::ssize(chosen); unit < units; ++unit) {
    std::size_t next = 0;  // the pipeline that would be done first with one more
    for (std::size_t pipeline = 1; pipeline < chosen.size(); ++pipeline) {
      const auto done = [&](std::size_t which) {
        return (chosen[which].micro_batches + 1) / rates_[chosen[which].shape];
      };
      if (done(pipeline) < done(next)) next = pipeline;
    }
    ++chosen[next].micro_batches;
  }
  std::sort(chosen.begin(), chosen.end());  // alike pipelines in the order that explore() keeps
  after_norm_ = after_pipelines_ = 0;
  if (bound_of(chosen) >= threshold()) return;
  const Plan plan = plan_of(chosen);
  segments_ = segments_of(plan, request_.model);
  optimizer_ = {};
  pricer_.add_optimizer(plan, segments_, optimizer_);
  consider(chosen);
}

void ExactSearch::explore(const std::vector<int>& combination) {
  std::int64_t capacity = 0;
  for (const int shape : combination) {
    capacity += shape_capacity(shape);
  }
  if (capacity < request_.global_batch) return;
  std::vector<Choice> chosen;
  choose_splits(combination, chosen);
}

void ExactSearch::choose_splits(const std::vector<int>& combination, std::vector<Choice>& chosen) {
  if (out_of_time()) return;
  if (chosen.size() == combination.size()) {
    explore_orders(chosen);
    return;
  }
  const int shape = combination[chosen.size()];
  // Pipelines of one shape are alike: their splits come in ascending order.
  const bool twin = !chosen.empty() && chosen.back().shape == shape;
  const int first = twin ? chosen.back().split : 0;
  for (int split = first; split < std::ssize(splits_of(shape)); ++split) {
    if (!may_fit(shape, split)) continue;
    std::int64_t capacity = split_capacity(shape, split, threshold());
    if (capacity == 0) continue;
    for (std::size_t index = 0; index < combination.size(); ++index) {
      if (index < chosen.size()) {
        capacity += split_capacity(chosen[index].shape, chosen[index].split, threshold());
      } else if (index > chosen.size()) {
        capacity += shape_capacity(combination[index]);
      }
    }
    if (capacity < request_.global_batch) continue;
    chosen.push_back({.shape = shape, .split = split});
    choose_splits(combination, chosen);
    chosen.pop_back();
    if (stopped_) return;
  }
}

// Whether each stage's parameters and gradients alone would fit its device.
bool ExactSearch::may_fit(int shape, int split) {
  const std::vector<int>& layers = splits_of(shape)[split];
  int begin = 0;
  for (std::size_t stage = 0; stage < layers.size(); ++stage) {
    const std::string& kind = classes_[shapes_[shape][stage]].kind;
    const LayerRange range = {begin, begin + layers[stage]};
    const std::int64_t least = stage_memory_.of(range, sizes_.front(), Recompute::kNone).held +
                               request_.costs.fixed_memory_bytes(kind);
    if (least > kind_named(request_.costs.cluster(), kind).memory_bytes) return false;
    begin = range.end;
  }
  return true;
}

// The ranks that each pipeline has, by its first one: alike devices go to the pipelines in turn.
std::vector<std::pair<std::vector<int>, ExactSearch::Choice>> ExactSearch::ranks_of(
    const std::vector<Choice>& chosen) const {
  std::vector<std::size_t> next(classes_.size(), 0);
  std::vector<std::pair<std::vector<int>, Choice>> all;
  for (const Choice& choice : chosen) {
    std::vector<int> ranks;
    for (const int which : shapes_[choice.shape]) {
      ranks.push_back(classes_[which].ranks[next[which]++]);
    }
    all.emplace_back(std::move(ranks), choice);
  }
  std::sort(all.begin(), all.end());
  return all;
}

// Which of alike devices a pipeline has decides who follows whom where ranks exchange: of a few
// pipelines all orders are looked at.
void ExactSearch::explore_orders(std::vector<Choice>& chosen) {
  if (std::ssize(chosen) > kMostOrdered) return explore_layout(chosen);
  std::set<std::vector<std::pair<std::vector<int>, Choice>>> known;
  for (Choice& choice : chosen) {
    choice.size = choice.micro_batches = 0;
  }
  std::vector<Choice> order = chosen;
  std::sort(order.begin(), order.end());
  do {
    if (!known.insert(ranks_of(order)).second) continue;
    std::vector<Choice> layout = order;
    explore_layout(layout);
  } while (!stopped_ && std::next_permutation(order.begin(), order.end()));
}

// Once the layout is known, so is what follows the pipelines: the optimizer and its messages. No
// rank begins it before the slowest pipeline has ended.
void ExactSearch::explore_layout(std::vector<Choice>& chosen) {
  for (Choice& choice : chosen) {
    choice.size = 0;
    choice.micro_batches = 1;
  }
  const Plan plan = plan_of(chosen);
  segments_ = segments_of(plan, request_.model);
  optimizer_ = {};
  pricer_.add_optimizer(plan, segments_, optimizer_);
  after_norm_ = simulate_plan(plan, StepPart::kAfterNorm);
  after_pipelines_ = simulate_plan(plan, StepPart::kAfterPipelines);
  choose_batches(chosen, 0, request_.global_batch);
}

void ExactSearch::choose_batches(std::vector<Choice>& chosen, std::size_t next, std::int64_t left) {
  if (out_of_time()) return;
  const double limit = threshold() - after_norm_;
  std::int64_t others = 0;
  for (std::size_t index = next + 1; index < chosen.size(); ++index) {
    others += split_capacity(chosen[index].shape, chosen[index].split, limit);
  }
  const std::int64_t least = std::max<std::int64_t>(1, left - others);
  const std::int64_t most_left = left - (std::ssize(chosen) - 1 - static_cast<int>(next));
  Choice& choice = chosen[next];
  const bool last = next + 1 == chosen.size();
  const bool twin = std::ssize(chosen) > kMostOrdered && next > 0 &&
                    chosen[next - 1].shape == choice.shape &&
                    chosen[next - 1].split == choice.split;
  for (std::size_t size = 0; size < sizes_.size(); ++size) {
    choice.size = static_cast<int>(size);
    const int width = sizes_[size];
    const std::int64_t first = (last ? left : least) + width - 1;
    for (std::int64_t count = first / width; count * width <= most_left; ++count) {
      if (last && count * width != left) break;
      choice.micro_batches = static_cast<int>(count);
      // Pipelines of one shape and split are alike: sizes, then counts, come in ascending order
      // where not all orders are looked at.
      if (twin && choice < chosen[next - 1]) continue;
      if (limit != kNever &&
          tables_.capacity(shapes_[choice.shape], splits_of(choice.shape)[choice.split],
                           choice.size, threshold() - after_norm_,
                           request_.global_batch) < count * width) {
        break;
      }
      if (last) {
        if (bound_of(chosen) < threshold()) consider(chosen);
      } else {
        choose_batches(chosen, next + 1, left - count * width);
      }
      if (out_of_time()) return;
    }
  }
}

}  // namespace hethub

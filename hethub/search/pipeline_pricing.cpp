#include "hethub/search/pipeline_pricing.h"

#include <algorithm>
#include <limits>

namespace hethub {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// Ranges of stage times this near to each other are tried at once before they are divided.
constexpr double kNear = 1.05;

}  // namespace

PipelinePricing::PipelinePricing(const PipelineTables& tables) : tables_(tables) {
  for (int size = 0; size < std::ssize(tables.sizes); ++size) {
    std::vector<double>& times = times_.emplace_back();
    for (int choice = 0; choice < std::ssize(tables.choices); ++choice) {
      for (int begin = 0; begin < tables.layers; ++begin) {
        for (int end = begin + 1; end <= tables.layers; ++end) {
          const StageCost& cost = tables.cost(size, choice, begin, end);
          if (cost.deepest > 0) times.push_back(cost.seconds);
        }
      }
    }
    for (int choice = 0; choice < std::ssize(tables.choices); ++choice) {
      for (int end = 1; end <= tables.layers; ++end) {
        Ends& all = ends_.emplace_back();
        for (int begin = 0; begin < end; ++begin) {
          all.seconds.push_back(tables.cost(size, choice, begin, end).seconds);
        }
      }
    }
    std::sort(times.begin(), times.end());
    times.erase(std::unique(times.begin(), times.end()), times.end());
  }
}

PricingAnswer PipelinePricing::find(const PricingQuestion& question) {
  question_ = question;
  best_ = question.enough;
  PricingAnswer answer;
  const int first = likely_size_;
  for (int turn = 0; turn < std::ssize(tables_.sizes); ++turn) {
    size_ = (first + turn) % static_cast<int>(tables_.sizes.size());
    size_best_ = 0;
    const std::vector<double>& times = times_[size_];
    if (times.empty()) continue;
    apply_limits();
    search_range(0, times.size() - 1, false);
    if (size_best_ > 0) {
      answer.columns.push_back(size_column_);
      likely_size_ = size_;
    }
  }
  answer.worth = best_;
  return answer;
}

// Sequences of the pipeline over its price.
double PipelinePricing::worth_of(double price, double seconds, double slowest) const {
  const int width = tables_.sizes[size_];
  const std::int64_t most = (tables_.global_batch + width - 1) / width;
  if (seconds > question_.seconds) return 0;
  const double one = tables_.fills ? seconds : slowest;
  if (one > question_.seconds) return 0;
  const double more = (question_.seconds - one) / slowest + 1e-9;  // whole below
  const auto count = more >= static_cast<double>(most) ? most : 1 + static_cast<std::int64_t>(more);
  const auto all = static_cast<double>(std::min(count, most) * width);
  const double whole = price + question_.pipeline_price;
  return whole > 0 ? all / whole : kNever;
}

// What the question allows whatever the range, and the least seconds of what is left then.
void PipelinePricing::apply_limits() {
  rest_seconds_.assign(tables_.layers + 1, kNever);
  rest_seconds_[0] = 0;
  for (int end = 1; end <= tables_.layers; ++end) {
    for (int choice = 0; choice < std::ssize(tables_.choices); ++choice) {
      Ends& all = ends(choice, end);
      all.first = end;
      while (all.first > 0) {
        const StageCost& cost = tables_.cost(size_, choice, all.first - 1, end);
        if (cost.deepest < 1 || cost.update > question_.most_update ||
            cost.exchange > question_.most_exchange) {
          break;
        }
        --all.first;
      }
      for (int begin = all.first; begin < end; ++begin) {
        rest_seconds_[end] = std::min(
            rest_seconds_[end], rest_seconds_[begin] + (tables_.fills ? all.seconds[begin] : 0));
      }
    }
  }
}

void PipelinePricing::search_range(std::size_t first, std::size_t last, bool rest_known) {
  const double fastest = times_[size_][first];
  const double slowest_allowed = times_[size_][last];
  if (!rest_known) find_rest(slowest_allowed);
  if (worth_of(rest_price_.back(), rest_seconds_.back(), fastest) <= best_) return;
  if (slowest_allowed <= fastest * kNear) {
    const double relaxed = grow_labels(fastest);
    if (first == last || relaxed <= best_) return;
  }
  const std::size_t middle = (first + last) / 2;
  search_range(middle + 1, last, true);  // first: its slowest is this range's
  search_range(first, middle, false);
}

// The least price of what is left, every stage as if it were the last.
void PipelinePricing::find_rest(double slowest_allowed) {
  rest_price_.assign(tables_.layers + 1, kNever);
  rest_price_[0] = 0;
  least_price_.assign(tables_.layers + 1, kNever);  // by n: of layers [0, n) to [0, end - 1)
  for (int end = 1; end <= tables_.layers; ++end) {
    for (int before = end - 1; before >= 0; --before) {
      if (least_price_[before] <= rest_price_[end - 1]) break;
      least_price_[before] = rest_price_[end - 1];
    }
    for (int choice = 0; choice < std::ssize(tables_.choices); ++choice) {
      Ends& all = ends(choice, end);
      const auto begin = all.seconds.begin() + all.first;
      const auto slow = [&](double seconds) { return seconds > slowest_allowed; };
      all.first_in_range = static_cast<int>(
          std::partition_point(begin, all.seconds.begin() + end, slow) - all.seconds.begin());
      const StageChoice& made = tables_.choices[choice];
      const double price = question_.prices[made.kind] * made.devices;
      rest_price_[end] = std::min(rest_price_[end], least_price_[all.first_in_range] + price);
    }
  }
}

double PipelinePricing::grow_labels(double fastest) {
  labels_.assign(1, {.stage = {.choice = -1, .begin = tables_.layers, .end = tables_.layers}});
  at_.assign(tables_.layers + 1, {});
  at_[tables_.layers] = {0};
  double relaxed = 0;
  for (int end = tables_.layers; end > 0; --end) {
    for (std::size_t index = 0; index < at_[end].size(); ++index) {
      extend(at_[end][index], fastest, relaxed);
    }
  }
  return relaxed;
}

bool PipelinePricing::too_many_devices(int label, const StageChoice& more) const {
  if (question_.most_devices.empty()) return false;
  int devices = more.devices;
  for (int one = label; labels_[one].parent >= 0; one = labels_[one].parent) {
    const StageChoice& made = tables_.choices[labels_[one].stage.choice];
    if (made.kind == more.kind) devices += made.devices;
  }
  return devices > question_.most_devices[more.kind];
}

void PipelinePricing::extend(int label, double fastest, double& relaxed) {
  const Label from = labels_[label];
  const int end = from.stage.begin;
  for (int choice = 0; choice < std::ssize(tables_.choices); ++choice) {
    const StageChoice& made = tables_.choices[choice];
    if (too_many_devices(label, made)) continue;
    const double price = from.price + question_.prices[made.kind] * made.devices;
    const int first = ends(choice, end).first_in_range;
    for (int begin = end - 1; begin >= first; --begin) {
      const StageCost& cost = tables_.cost(size_, choice, begin, end);
      if (cost.deepest <= from.stages) break;
      const double seconds = from.seconds + (tables_.fills ? cost.seconds : 0);
      if (worth_of(price + rest_price_[begin], seconds + rest_seconds_[begin], fastest) <= best_) {
        continue;
      }
      const Label to = {.price = price,
                        .seconds = seconds,
                        .slowest = std::max(from.slowest, cost.seconds),
                        .stages = from.stages + 1,
                        .parent = label,
                        .stage = {choice, begin, end}};
      if (begin == 0) {
        finish(to, fastest, relaxed);
      } else {
        add_label(to);
      }
    }
  }
}

void PipelinePricing::finish(const Label& label, double fastest, double& relaxed) {
  relaxed = std::max(relaxed, worth_of(label.price, label.seconds, fastest));
  const double worth = worth_of(label.price, label.seconds, label.slowest);
  if (worth <= std::max(best_, size_best_)) return;
  best_ = size_best_ = worth;
  std::vector<PickedStage> stages;
  for (const Label* one = &label; one->stage.choice >= 0; one = &labels_[one->parent]) {
    stages.push_back(one->stage);
  }
  size_column_ = column_of(tables_, size_, std::move(stages));
}

void PipelinePricing::add_label(const Label& label) {
  std::vector<int>& others = at_[label.stage.begin];
  const auto beats = [](const Label& a, const Label& b) {
    return a.price <= b.price && a.seconds <= b.seconds && a.stages <= b.stages;
  };
  for (const int other : others) {
    if (beats(labels_[other], label)) return;
  }
  std::erase_if(others, [&](int other) { return beats(label, labels_[other]); });
  others.push_back(static_cast<int>(labels_.size()));
  labels_.push_back(label);
}

}  // namespace hethub

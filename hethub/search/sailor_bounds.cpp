#include "hethub/search/sailor_bounds.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace hethub {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

}  // namespace

SailorBounds::SailorBounds(const SailorTables& tables) : tables_(tables) {
  list_prices();
  find_transfers();
  list_ranges();
}

// A device's worth is its speed, so that the layers' least work is the same on every kind; and
// that, tilted: each way to price the kinds proves something else.
void SailorBounds::list_prices() {
  std::vector<double> speed(tables_.kinds.size(), 0);
  for (int device = 0; device < std::ssize(tables_.devices); ++device) {
    const SailorDevice& made = tables_.devices[device];
    for (int size = 0; size < std::ssize(tables_.sizes); ++size) {
      const double seconds = made.tp * tables_.compute(device, size, 0, tables_.layers);
      speed[made.kind] = std::max(speed[made.kind], tables_.sizes[size] / seconds);
    }
  }
  prices_.push_back(speed);
  for (std::size_t kind = 0; kind + 1 < speed.size(); ++kind) {
    for (const double tilt : {0.25, 0.5, 0.75, 1.33, 2.0, 4.0}) {
      prices_.push_back(speed);
      prices_.back()[kind] *= tilt;
    }
  }
  // At these the kinds of a mixed stage are worth the same, which share_out() goes by.
  for (std::size_t kind = 0; kind < speed.size(); ++kind) {
    prices_.emplace_back(speed.size(), 0.0)[kind] = 1;
    for (const double ratio : {1.0, 2.0, 4.0}) {
      if (ratio == 1 && kind > 0) continue;
      prices_.emplace_back(speed.size(), 1.0)[kind] = ratio;
    }
  }
  for (const std::vector<double>& prices : prices_) {
    all_worth_.push_back(
        std::inner_product(prices.begin(), prices.end(), tables_.available.begin(), 0.0));
  }
}

void SailorBounds::find_transfers() {
  for (int size = 0; size < std::ssize(tables_.sizes); ++size) {
    std::vector<double>& row = least_transfer_.emplace_back(tables_.layers, kNever);
    for (int layer = 0; layer < tables_.layers; ++layer) {
      for (int from = 0; from < std::ssize(tables_.devices); ++from) {
        for (int to = 0; to < std::ssize(tables_.devices); ++to) {
          row[layer] = std::min(row[layer], tables_.transfer(layer, size, from, to));
        }
      }
    }
  }
}

// Slowest stages from the slowest down, in steps, with what the rest needs at least.
void SailorBounds::list_ranges() {
  constexpr double kStep = 1.1;
  for (int size = 0; size < std::ssize(tables_.sizes); ++size) {
    std::vector<Range>& ranges = ranges_.emplace_back();
    double most = 0;
    for (int device = 0; device < std::ssize(tables_.devices); ++device) {
      const double all = tables_.compute(device, size, 0, tables_.layers);
      if (all < kNever) most = std::max(most, all);
    }
    for (double slowest = 1.5 * most; most > 0; slowest /= kStep) {
      Range range{.fastest = slowest / kStep, .slowest = slowest};
      range.rest = rest_below(size, ranges.empty() ? kNever : slowest);
      if (range.rest[0].seconds.back() == kNever) break;
      ranges.push_back(std::move(range));
    }
    if (!ranges.empty()) ranges.front().slowest = kNever;
  }
}

// What layers [0, n) need at least, behind so many stages at the end, where no stage is slower
// than that: worth of one replica by each of the prices, and seconds.
std::vector<SailorBounds::Rest> SailorBounds::rest_below(int size, double slowest) const {
  const int layers = tables_.layers;
  std::vector<Rest> all(kDeepest + 1);
  for (int deep = kDeepest; deep >= 0; --deep) {
    Rest& rest = all[deep];
    rest.seconds.assign(layers + 1, kNever);
    rest.seconds[0] = 0;
    rest.worth.assign(prices_.size(), rest.seconds);
    const Rest& front = all[std::min(deep + 1, kDeepest)];  // itself: it is filled in order
    for (int end = 1; end <= layers; ++end) {
      for (int device = 0; device < std::ssize(tables_.devices); ++device) {
        const SailorDevice& made = tables_.devices[device];
        if (tables_.available[made.kind] < made.tp) continue;
        for (int begin = end - 1; begin >= 0; --begin) {
          if (!tables_.fits(device, size, begin, end, deep + 1)) break;
          const double compute = tables_.compute(device, size, begin, end);
          if (compute > slowest) break;
          const double seconds = compute + least_messages(size, begin, end);
          if (seconds > slowest) continue;
          rest.seconds[end] = std::min(rest.seconds[end], front.seconds[begin] + seconds);
          for (std::size_t way = 0; way < prices_.size(); ++way) {
            rest.worth[way][end] = std::min(
                rest.worth[way][end], front.worth[way][begin] + prices_[way][made.kind] * made.tp);
          }
        }
      }
    }
  }
  return all;
}

double SailorBounds::least_messages(int size, int begin, int end) const {
  if (begin == 0 && end == tables_.layers) return 0;
  const double on = end < tables_.layers ? least_transfer_[size][end - 1] : 0;
  const double back = begin > 0 ? least_transfer_[size][begin] : 0;
  return end == tables_.layers ? 2 * back : on + back;
}

}  // namespace hethub

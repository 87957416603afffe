#pragma once

#include <vector>

#include "hethub/search/sailor_tables.h"

namespace hethub {

/// Proves what a part of a plan needs, whatever the rest looks like.
///
/// Devices get prices, by several ways to price the kinds. By each of them the stages of a plan may
/// not be worth more than all devices are, and dynamic programming finds the least worth of stages
/// that hold the first n layers and are no slower than some bound.
class SailorBounds {
 public:
  static constexpr int kDeepest = 4;  ///< stages deeper than that are taken to be as deep

  /// What the first n layers need at least, by n.
  struct Rest {
    std::vector<double> seconds = {};
    std::vector<std::vector<double>> worth = {};  ///< of one replica, by way to price
  };

  /// Plans whose slowest stage is between two bounds.
  struct Range {
    double fastest = 0;
    double slowest = 0;
    std::vector<Rest> rest = {};  ///< by number of stages behind, up to kDeepest
  };

  /// Keeps a reference to the tables.
  explicit SailorBounds(const SailorTables& tables);

  /// The ranges of a micro-batch size from the slowest down, which cover everything possible.
  const std::vector<Range>& ranges(int size) const { return ranges_[size]; }

  /// By way to price, the price of a device of each kind.
  const std::vector<std::vector<double>>& prices() const { return prices_; }

  /// Whether the devices are worth as much by that way, but for rounding.
  bool affordable(std::size_t way, double worth) const {
    return worth <= all_worth_[way] * (1 + 1e-9);
  }

 private:
  void list_prices();
  void find_transfers();
  void list_ranges();
  std::vector<Rest> rest_below(int size, double slowest) const;
  double least_messages(int size, int begin, int end) const;

  const SailorTables& tables_;
  std::vector<std::vector<double>> prices_ = {};          // by way to price, of each kind
  std::vector<double> all_worth_ = {};                    // by way to price
  std::vector<std::vector<double>> least_transfer_ = {};  // by size and layer
  std::vector<std::vector<Range>> ranges_ = {};           // by size
};

}  // namespace hethub

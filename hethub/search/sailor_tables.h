#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "hethub/base/json.h"

namespace hethub {

/// A kind and a tensor-parallel width of it: what one replica of a stage runs on.
struct SailorDevice {
  int kind = 0;
  int tp = 1;
};

/// All that Sailor's simulator formula needs, read from a case: seconds and bytes by layer, as sums
/// from layer 0, and fitted bandwidths between kinds.
///
/// Source of the formula: the Sailor artifact (SOSP 2025), restated in the case's "cost_model".
class SailorTables {
 public:
  /// Throws kInvalidConfig naming what is missing. See read_planner_case for `counts`.
  SailorTables(const Json& file, const std::string& where,
               const std::map<std::string, int>& counts);

  /// A stage on a device, for a position in `sizes`: seconds forward and backward; infinite if
  /// there are no costs for it.
  double compute(int device, int size, int begin, int end) const;
  /// Seconds of the optimizer of a stage that begins with this layer. Needs costs.
  double update(int device, int size, int begin) const {
    return costs_[device][size].update[begin];
  }
  /// Whether there are costs for the device, and the layers fit it as the stage with that number
  /// from the end, from 1.
  bool fits(int device, int size, int begin, int end, int from_end) const {
    return deepest_[fit_index(device, size, begin, end)] >= from_end;
  }
  /// Seconds for the output of a layer from one device to another.
  double transfer(int layer, int size, int from, int to) const {
    return transfers_[((static_cast<std::size_t>(layer) * sizes.size() + size) * devices.size() +
                       from) *
                          devices.size() +
                      to];
  }
  /// Seconds for a stage's gradients around a ring of so many replicas, two of which are of these
  /// kinds, side by side; `tp` is the least of the stage's.
  double exchange(int begin, int end, int tp, int replicas, int kind, int next_kind) const;

  int layers = 0;
  std::int64_t global_batch = 0;
  std::vector<std::string> kinds = {};
  std::vector<int> available = {};         ///< by kind
  std::vector<int> sizes = {};             ///< micro-batch sizes
  std::vector<SailorDevice> devices = {};  ///< by kind, then width

 private:
  struct Fit {
    double square = 0;
    double linear = 0;
    double constant = 0;
  };
  struct Costs {
    std::vector<double> seconds = {};  // of layers [0, n); empty: unknown
    std::vector<double> update = {};
  };
  struct Bytes {
    std::vector<double> parameters = {};  // of layers [0, n)
    std::vector<double> held = {};
  };

  std::vector<double> expand(const Json& runs, const std::string& where) const;
  void read_bytes(const Json& file, const std::string& where);
  void read_kinds(const Json& file, const std::string& where,
                  const std::map<std::string, int>& counts);
  void read_costs(const Json& file, const std::string& where);
  void read_links(const Json& file, const std::string& where);
  void fill_tables();
  int deepest(int device, int size, int begin, int end) const;
  std::size_t fit_index(int device, int size, int begin, int end) const {
    return ((static_cast<std::size_t>(device) * sizes.size() + size) * layers + begin) *
               (layers + 1) +
           end;
  }
  static double seconds_of(double bytes, const Fit& fit);

  std::vector<std::vector<Costs>> costs_ = {};  // by device and size
  std::map<int, Bytes> bytes_ = {};             // by width
  std::vector<double> outputs_ = {};            // bytes by layer
  std::vector<double> memory_ = {};             // bytes by kind
  std::vector<std::vector<Fit>> links_ = {};    // by device and device
  std::vector<double> transfers_ = {};          // by layer, size, device and device
  std::vector<int> deepest_ = {};               // by fit_index: stages from the end; 0: never
  std::vector<std::vector<Fit>> rings_ = {};    // by kind and kind
};

}  // namespace hethub

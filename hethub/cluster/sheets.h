#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "hethub/base/json.h"
#include "hethub/cluster/cluster.h"

namespace hethub {

/// What accelerators of one make have in common: fitted to published runs, see docs/predictor.md.
struct EfficiencyClass {
  RoofFractions ops = {};
  double link = 1;     ///< of a link's rate inside a node, that a collective reaches
  double network = 1;  ///< the same between nodes
  std::string provenance = {};
};

/// A data sheet, with the usual machine around the device.
struct DataSheet {
  Kind kind = {};  ///< its backend is empty, its efficiency that of the class
  std::string efficiency_class = {};
  double link_bytes_per_s = 0;             ///< one way, of a device inside its node; 0: not known
  int devices_per_node = 0;                ///< 0: not known
  double network_bytes_per_s_of_node = 0;  ///< one way, all network ports; 0: not known
  double watts = 0;                        ///< 0: not known
  std::string source = {};
};

/// What a training framework does that decides its time.
struct Software {
  bool stores_scores = false;  ///< attention writes its scores to memory, all of them
  bool overlaps = false;       ///< gradients are summed while the backward pass goes on
  int gradient_bytes = 2;      ///< of an element, when gradients are summed
};

/// Data sheets and what was fitted to them.
struct Sheets {
  std::map<std::string, EfficiencyClass> classes = {};
  std::map<std::string, Software> software = {};  ///< by the part of the published runs
  std::vector<DataSheet> sheets = {};

  /// The sheet of that name, or nullptr.
  const DataSheet* find(std::string_view name) const;

  /// Gives every kind the efficiency of its class: after a class has been changed.
  void apply_classes();
};

/// accelerators.json as it was when this was built ("hethub-accelerators/1").
extern const std::string_view kSheetsFile;

/// Reads data sheets. Throws kInvalidConfig for an unknown class or a rate that is not positive.
Sheets parse_sheets(const Json& file, const std::string& name);

/// parse_sheets of kSheetsFile.
Sheets known_sheets();

}  // namespace hethub

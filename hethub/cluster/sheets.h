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

/// Which attention a framework runs.
enum class AttentionKernel : std::uint8_t {
  kVendor,         ///< on chip, the vendor's own
  kPortable,       ///< on chip, a kernel that was written for more than this kind
  kStored,         ///< scores are written to memory, all of them, and read again
  kStoredUnfused,  ///< the same, with mask, casts and softmax by an op each
};

/// What a training framework does that decides its time.
struct Software {
  AttentionKernel attention = AttentionKernel::kVendor;
  /// Gradients are summed while the backward pass goes on, and stages send beside their compute.
  bool overlaps = false;
  int gradient_bytes = 2;  ///< of an element, when gradients are summed
  /// With optimizer state sharded (ZeRO 1), gradients are summed on all ranks rather than each on
  /// its owner.
  bool sums_everywhere = false;
  bool dropout = false;             ///< activations are dropped: their masks are kept
  bool keeps_scores = true;         ///< false: stored scores are made again for the backward pass
  bool norms_in_f32 = false;        ///< norms keep an f32 copy of what they read
  double gradient_memory = 4;       ///< bytes held of an fp16 parameter's gradient
  double bf16_gradient_memory = 4;  ///< the same of a bf16 parameter's
  double allocator_slack = 0;  ///< what its allocator holds beyond what is alive, a share of that
  double fixed_memory_bytes = 0;  ///< of a process: device context, libraries and their buffers
};

/// Data sheets and what was fitted to them.
struct Sheets {
  std::map<std::string, EfficiencyClass> classes = {};
  std::map<std::string, Software> software = {};  ///< by framework, or part of the published runs
  /// What collectives reach on a fabric beside what they reach on others of its rate.
  std::map<std::string, double> fabrics = {};
  std::vector<DataSheet> sheets = {};

  /// The sheet of that name, or nullptr.
  const DataSheet* find(std::string_view name) const;

  /// Gives every kind the efficiency of its class: after a class has been changed.
  void apply_classes();
};

/// The constants of an efficiency class that `object` states, the others as in `base`. Throws
/// kInvalidConfig for other keys and for what is not positive or above its limit.
RoofFractions parse_fractions(const Json& object, const std::string& where, RoofFractions base);

/// accelerators.json as it was when this was built ("hethub-accelerators/1").
extern const std::string_view kSheetsFile;

/// Reads data sheets. Throws kInvalidConfig for an unknown class or a rate that is not positive.
Sheets parse_sheets(const Json& file, const std::string& name);

/// parse_sheets of kSheetsFile.
Sheets known_sheets();

}  // namespace hethub

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "hethub/cluster/cluster.h"
#include "hethub/op/op.h"

namespace hethub {

/// What "emulated:KIND:scale=F:seed=N" says behind its first colon.
struct EmulationOptions {
  std::string kind = {};   ///< a data sheet's name
  double scale = 1000;     ///< the device is such a part of the kind
  std::uint64_t seed = 0;  ///< of the deviations
};

/// Reads "T4", "T4:scale=50" or "T4:scale=50:seed=3". Throws kInvalidArgument, naming the data
/// sheets there are, for an empty text; for options that are not these; for a scale outside
/// 1e-3 .. 1e6.
EmulationOptions parse_emulation(std::string_view text);

/// One `scale`-th of a named kind: of its processors, of its peaks, of the rates of its memory and
/// its link. So the kind's ratio of compute to communication stays. A launch takes what it takes
/// the kind: a small model on a part of a device meets it as seldom as a large one on the whole.
///
/// An op takes analytic_seconds of that part with the sheet's peak for its dtype, times a factor of
/// 0.95 to 1.05 that depends on the seed, the kind and the op's class alone: data sheets are never
/// exact, and whoever predicts has to measure.
class EmulatedKind {
 public:
  /// Throws kInvalidArgument for a kind without a data sheet, kUnsupported for a sheet that lacks a
  /// peak in fp32 or the rate of the device's link.
  explicit EmulatedKind(const EmulationOptions& options);

  const EmulationOptions& options() const { return options_; }
  /// The part that is emulated; its name and memory are the whole kind's.
  const Kind& part() const { return kind_; }

  /// Seconds of an op, launch included.
  double op_seconds(const Op& op) const;

  /// Seconds of a copy inside the device's memory: each byte is read and written.
  double copy_seconds(std::int64_t bytes) const;

  /// Seconds of a copy between device and host: a launch, and what its link, as collectives reach
  /// it, takes for the bytes.
  double link_seconds(std::int64_t bytes) const;

 private:
  double deviation(std::string_view op_class) const;

  EmulationOptions options_;
  Kind kind_ = {};
  double link_bytes_per_s_ = 0;
};

/// The data sheets that can be emulated, in listing order: "V100-32GB-SXM2, T4, ...".
std::string emulated_kinds();

}  // namespace hethub

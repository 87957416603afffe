#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "hethub/cluster/cluster.h"
#include "hethub/op/op.h"

namespace hethub {

/// One op as it was timed on a device.
struct OpRow {
  std::string op = {};     ///< OpFacts::kind, e.g. "linear"
  std::string sizes = {};  ///< sizes_text of the op
  std::string dtype = {};
  double seconds = 0;  ///< median, run back to back on a queue: what it takes inside a program
  int runs = 0;
  double work = 0;  ///< work_of the op: what other sizes are scaled by
};

/// What was measured of one kind.
struct KindCosts {
  double launch_seconds = 0;  ///< an op that does nothing, inside a program
  double action_seconds = 0;  ///< what running one program costs beside its ops
  LinkRate download = {};     ///< device to host; bytes_per_s 0: the host reads it directly
  LinkRate upload = {};       ///< host to device, likewise
  std::map<std::string, double> gemm_flops_per_s = {};  ///< best matrix product, by dtype
  std::int64_t fixed_memory_bytes = 0;  ///< what the process or driver takes beside the arena
  std::vector<OpRow> ops = {};
  bool emulated = false;  ///< measured on a device that keeps another kind's pace
};

/// A message as it was timed.
struct LinkPoint {
  double bytes = 0;
  double seconds = 0;
};

/// A link as it was measured: host to host where the route is host-staged, else device to device.
struct LinkCosts {
  std::string first = {};
  std::string second = {};
  LinkScope scope = LinkScope::kNode;
  RouteKind route = RouteKind::kHostStaged;
  LinkRate rate = {};  ///< fitted to the points
  std::vector<LinkPoint> points = {};
};

/// A costs file: what `hethub profile` measured.
struct Costs {
  std::map<std::string, KindCosts> kinds = {};  ///< by kind name
  std::vector<LinkCosts> links = {};
};

/// The kinds whose costs were measured on emulated devices, for whatever is printed of such costs.
std::vector<std::string> emulated_in(const Costs& costs);

/// The size of an op in one number: the larger of its FLOP count and its bytes.
double work_of(const Op& op);

/// The row of an op that took `seconds`.
OpRow row_of(const Op& op, double seconds, int runs);

/// The α-β line through measured points that has the least relative error (weighted least squares);
/// neither coefficient is negative. Throws kInvalidArgument unless two different sizes are given.
LinkRate fit_link(const std::vector<LinkPoint>& points);

}  // namespace hethub

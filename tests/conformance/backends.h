#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hethub/base/dtype.h"
#include "hethub/op/op.h"

namespace hethub::conformance {

/// A dtype that every op has a kernel in, and how far results may lie from fp64, as a part of an
/// element's size plus its tensor's root mean square.
struct Precision {
  DType dtype = DType::kF32;
  double tolerance = 0;
  double f32_tolerance =
      0;  ///< of what ops on another dtype leave in f32: sums, weights' gradients
};

/// What a backend computes. Every op but the communicator's has a kernel in each dtype of `ops`,
/// an Accumulate in each of `sums` too; whatever else there is, it refuses by name.
struct BackendRow {
  std::string name = {};  ///< as open_backend() takes it
  std::vector<Precision> ops = {};
  std::vector<DType> sums = {};
  bool sums_only = false;  ///< of an Accumulate: no other reduction, and no divisor

  /// Whether it has a kernel for the op, on a machine that has what the backend asks for.
  bool has(const Op& op) const;
  /// The row of `ops` for the dtype, or null.
  const Precision* precision_of(DType dtype) const;
};

/// Every backend, plug-in and stand-in there is: a backend joins with one row here.
const std::vector<BackendRow>& backend_rows();

/// The row of that name. Throws std::out_of_range without one.
const BackendRow& row_named(std::string_view name);

}  // namespace hethub::conformance

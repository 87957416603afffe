#pragma once

#include <vector>

#include "hethub/accel/backend.h"
#include "hethub/profile/op_timer.h"

namespace hethub {

/// The rates that a device's ops are held against.
struct DevicePeaks {
  double flops_per_s = 0;  ///< of the fastest square matrix product
  double bytes_per_s = 0;  ///< of sums of two vectors that no cache holds: each byte moved once
};

/// The matrix products whose fastest is the peak.
std::vector<Op> square_products(DType dtype);

/// Measures the peaks: the fastest batch of runs counts, as what disturbs a device only slows it.
DevicePeaks measure_peaks(Backend& backend, DType dtype = DType::kF32,
                          const OpTimerOptions& options = {});

}  // namespace hethub

#pragma once

#include <string>
#include <vector>

#include "hethub/accel/backend.h"
#include "hethub/accel/opencl/handle.h"
#include "hethub/accel/opencl/opencl.h"

namespace hethub::opencl {

/// What the kernels are built for and the limits they keep, as the device reports them.
struct DeviceLimits {
  bool is_cpu = false;
  int compute_units = 1;
  int vector_width = 4;               ///< floats in a kernel's vector
  int lanes = 1;                      ///< work-items that share a row
  int items = 64;                     ///< work-items of a group in element-by-element kernels
  std::int64_t memory_bytes = 0;      ///< of the device in all
  std::int64_t allocation_bytes = 0;  ///< most of one buffer
};

/// All devices of all platforms, in the driver's order. Empty without a driver; never throws.
std::vector<cl_device_id> list_devices();

DeviceInfo info_of(cl_device_id device);

/// Limits of the device, with the kernel shapes chosen by them or by `choices`.
DeviceLimits limits_of(cl_device_id device, const OpenclChoices& choices);

/// A string the device reports, e.g. CL_DRIVER_VERSION.
std::string device_text(cl_device_id device, cl_device_info what);

}  // namespace hethub::opencl

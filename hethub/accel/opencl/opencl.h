#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "hethub/accel/backend.h"
#include "hethub/accel/registry.h"

namespace hethub {

/// What computes matrix products on an OpenCL device.
enum class OpenclMatmul : std::uint8_t {
  kAuto,     ///< kKernel on CPU devices, kClblast on all others: a rule, never a measurement
  kClblast,  ///< CLBlast's direct kernel
  kKernel,   ///< our register-blocked kernel; on CPU devices only
};

/// Choices that tests and benchmarks make. The defaults are what a training uses.
struct OpenclChoices {
  OpenclMatmul matmul = OpenclMatmul::kAuto;
  int lanes = 0;         ///< work-items that share a row, a power of two; 0: by the device
  int vector_width = 0;  ///< floats in a kernel's vector: 4, 8, 16; 0: by the device
  /// Where compiled kernels are kept; empty: $XDG_CACHE_HOME/hethub or ~/.cache/hethub.
  std::filesystem::path cache_folder = {};
};

/// Opens OpenCL device `options.device`, counted over all platforms in the driver's order.
///
/// Works by what a device reports, never by its name. Ops on f32, and on bf16 and f16 in memory
/// with fp32 arithmetic, which asks nothing more of the device; GroupStart and GroupWait belong to
/// the communicator and throw kUnsupported. Throws kUnavailable without such a device.
///
/// On CPU devices the driver computes with `options.threads` threads: POCL_MAX_PTHREAD_COUNT is set
/// (where the environment does not) before the first OpenCL call of the process; if the driver was
/// already started with more, a sub-device of that many compute units is used. The calling thread
/// is bound to `options.cores` first, and the threads that the driver starts inherit that.
std::unique_ptr<Backend> open_opencl(const BackendOptions& options);
std::unique_ptr<Backend> open_opencl(const BackendOptions& options, const OpenclChoices& choices);

/// Every OpenCL device of every platform. Without a platform: one line that says what to install.
std::vector<FoundDevice> find_opencl();

}  // namespace hethub

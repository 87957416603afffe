#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hethub/accel/backend.h"

namespace hethub {

/// How a rank wants its device opened.
struct BackendOptions {
  int device = 0;               ///< which of the backend's devices
  int threads = 1;              ///< CPU threads, where the backend computes with them
  std::vector<int> cores = {};  ///< cores these threads are bound to; empty: as the process is
};

/// One line of `hethub devices`: a device that can be used, or why one cannot.
struct FoundDevice {
  std::string backend = {};
  int device = 0;
  DeviceInfo info = {};
  std::string problem = {};  ///< empty if usable; otherwise what is missing and how to mend it
};

/// Every backend this build knows, and on each what it finds. Never throws for a missing driver.
std::vector<FoundDevice> find_devices();

/// Names of the backends built in, e.g. {"cpu", "opencl"}.
std::vector<std::string> backend_names();

/// Opens a device. Throws kInvalidArgument for an unknown name, kUnavailable if it is not there.
std::unique_ptr<Backend> open_backend(std::string_view name, const BackendOptions& options);

}  // namespace hethub

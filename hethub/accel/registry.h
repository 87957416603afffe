#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hethub/accel/backend.h"

namespace hethub {

/// How a rank wants its device opened.
struct BackendOptions {
  int device = 0;                ///< which of the backend's devices
  int threads = 1;               ///< CPU threads, where the backend computes with them
  std::vector<int> cores = {};   ///< cores these threads are bound to; empty: as the process is
  std::string device_type = {};  ///< of a backend that reaches several, e.g. "cuda" of torch
};

/// One line of `hethub devices`: a device that can be used, or why one cannot.
struct FoundDevice {
  std::string backend = {};
  int device = 0;
  DeviceInfo info = {};
  std::string problem = {};  ///< empty if usable; otherwise what is missing and how to mend it
};

/// A backend that is a plug-in, a file of its own that is loaded when it is asked for.
struct PluginKind {
  std::string_view name = {};
  std::string_view built_where = {};  ///< "nvcc is"
};

/// The plug-ins there are of this version, built or not.
inline constexpr PluginKind kPluginKinds[] = {
    {"cuda", "nvcc is"}, {"hip", "hipcc is"}, {"torch", "libtorch is"}};

/// Every backend this build knows and every plug-in that lies in a plug-in folder, and on each what
/// it finds; for a plug-in that cannot be loaded and for one of kPluginKinds that is not there,
/// why. Never throws for a missing driver.
std::vector<FoundDevice> find_devices();

/// Names of the backends built in that drive devices, e.g. {"cpu", "opencl"}. The backend emulated
/// is not among them: it has no device of its own.
std::vector<std::string> backend_names();

/// Names of the plug-ins in the plug-in folders (HETHUB_PLUGIN_PATH, hethub-plugins beside the
/// program), whether or not they can be loaded.
std::vector<std::string> plugin_names();

/// Whether open_backend() knows this name: a backend of the build or a plug-in, which may be
/// followed by the type of device it is to reach, as in "torch:cuda"; or "emulated:KIND...".
bool is_backend(std::string_view name);

/// Opens a device of a backend, loading its plug-in if it is one. A type of device after a ':'
/// takes the place of the options'. Throws kInvalidArgument for an unknown name, kUnavailable if
/// the device is not there or the plug-in cannot be loaded.
std::unique_ptr<Backend> open_backend(std::string_view name, const BackendOptions& options);

}  // namespace hethub

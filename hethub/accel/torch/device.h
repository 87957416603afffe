#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include "hethub/accel/backend.h"

namespace hethub::torch_backend {

/// Loads the libraries that HETHUB_TORCH_LIBRARIES names (divided by ':'): a vendor's extension
/// that brings a type of device. Throws kUnavailable, naming the file, if one cannot be loaded.
void load_extensions();

/// The device of this type ("" is cpu) and number. Throws kUnavailable if libtorch knows no such
/// type or has not so many of it.
at::Device device_of(const std::string& type, int number);

/// "torch" for the CPU, else "torch:TYPE": what opens it.
std::string backend_name(at::Device device);

/// `memory_bytes` is 0 where libtorch cannot say it: on every device but the CPU.
DeviceInfo info_of(at::Device device);

/// Every device that the installed libtorch and its extensions can use here.
std::vector<at::Device> list_devices();

/// Throws what libtorch said about `what`: kOutOfMemory, kInvalidArgument for an index outside a
/// tensor, or kInternal.
[[noreturn]] void fail(std::string_view what, const c10::Error& error);

/// Runs `work`; a failure of libtorch's becomes an Error that names `what`.
template <typename Work>
auto translated(std::string_view what, Work&& work) {
  try {
    return work();
  } catch (const c10::Error& error) {
    fail(what, error);
  }
}

}  // namespace hethub::torch_backend

#include "hethub/accel/torch/device.h"

#include <cstdlib>

#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>
#include <torch/csrc/api/include/torch/version.h>

#include "hethub/base/error.h"
#include "hethub/base/host_memory.h"

namespace hethub::torch_backend {
namespace {

// The first line: what follows is libtorch's own call stack.
std::string first_line(const std::string& words) { return words.substr(0, words.find('\n')); }

int count_of(at::DeviceType type) {
  if (type == at::kCPU) return 1;
  if (!c10::impl::hasDeviceGuardImpl(type)) return 0;
  return c10::impl::VirtualGuardImpl(type).deviceCount();
}

}  // namespace

void load_extensions() {
  const char* named = std::getenv("HETHUB_TORCH_LIBRARIES");
  std::string rest = named == nullptr ? "" : named;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    const std::string file = rest.substr(0, end);
    rest.erase(0, end + 1);
    if (file.empty() || ::dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) continue;
    const char* why = ::dlerror();
    throw Error(ErrorCode::kUnavailable,
                {.what = text("torch: ", file, " of HETHUB_TORCH_LIBRARIES"),
                 .found = why == nullptr ? "it cannot be loaded" : why,
                 .expected = "an extension of the installed libtorch",
                 .fix = "correct the variable, or unset it"});
  }
}

at::Device device_of(const std::string& type, int number) {
  const auto refuse = [&](std::string found, std::string expected) {
    throw Error(ErrorCode::kUnavailable,
                {.what = text("torch: device ", number, " of type ", type.empty() ? "cpu" : type),
                 .found = std::move(found),
                 .expected = std::move(expected),
                 .fix = "see `hethub devices` for what this libtorch has; a vendor's extension is "
                        "named by HETHUB_TORCH_LIBRARIES"});
  };
  at::DeviceType known = at::kCPU;
  try {
    known = at::Device(type.empty() ? "cpu" : type).type();
  } catch (const c10::Error& error) {
    refuse(first_line(error.what_without_backtrace()), "a type that libtorch knows");
  }
  const int count = count_of(known);
  if (number < 0 || number >= count) {
    refuse(text(count, " of them"), count == 0 ? text("1 or more") : text("0 to ", count - 1));
  }
  return {known, static_cast<at::DeviceIndex>(known == at::kCPU ? -1 : number)};
}

std::string backend_name(at::Device device) {
  if (device.is_cpu()) return "torch";
  return "torch:" + c10::DeviceTypeName(device.type(), true);
}

DeviceInfo info_of(at::Device device) {
  const std::string type = c10::DeviceTypeName(device.type(), true);
  const bool is_cpu = device.is_cpu();
  return {.backend = backend_name(device),
          .kind = is_cpu ? "torch" : "torch-" + type,
          .name = text("libtorch device ", is_cpu ? type : device.str()),
          .memory_bytes = is_cpu ? host_memory_bytes() : 0,
          .driver = text("libtorch ", TORCH_VERSION)};
}

std::vector<at::Device> list_devices() {
  std::vector<at::Device> devices;
  constexpr int kTypes = static_cast<int>(at::COMPILE_TIME_MAX_DEVICE_TYPES);
  for (int type = 0; type < kTypes; ++type) {
    const auto known = static_cast<at::DeviceType>(type);
    if (known == at::kMeta) continue;  // it has shapes and no memory
    for (int number = 0; number < count_of(known); ++number) {
      devices.emplace_back(known, static_cast<at::DeviceIndex>(known == at::kCPU ? -1 : number));
    }
  }
  return devices;
}

void fail(std::string_view what, const c10::Error& error) {
  const bool memory = dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr;
  const std::string said = first_line(error.what_without_backtrace());
  const bool index = said.find("out of range") != std::string::npos ||
                     said.find("out of bounds") != std::string::npos;
  throw Error(memory  ? ErrorCode::kOutOfMemory
              : index ? ErrorCode::kInvalidArgument
                      : ErrorCode::kInternal,
              {.what = text("torch: ", what),
               .found = said,
               .expected = "a call that succeeds",
               .fix = memory  ? "turn on recompute for this stage, give it fewer layers, or lower "
                                "micro_batch_size"
                      : index ? "see whether the data were made with this model's vocabulary and "
                                "sequence length"
                              : "see whether `hethub verify` passes on this device"});
}

}  // namespace hethub::torch_backend

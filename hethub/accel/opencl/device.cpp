#include "hethub/accel/opencl/device.h"

#include <algorithm>
#include <bit>

#include "hethub/accel/opencl/status.h"
#include "hethub/base/error.h"
#include "hethub/base/text.h"

namespace hethub::opencl {
namespace {

template <typename T>
T device_value(cl_device_id device, cl_device_info what) {
  T value{};
  check(clGetDeviceInfo(device, what, sizeof(T), &value, nullptr), "clGetDeviceInfo", "device");
  return value;
}

// Some drivers end a string with zeros or spaces.
std::string trimmed(std::string value) {
  while (!value.empty() && (value.back() == '\0' || value.back() == ' ')) {
    value.pop_back();
  }
  value.erase(0, value.find_first_not_of(' '));
  return value;
}

}  // namespace

std::string device_text(cl_device_id device, cl_device_info what) {
  std::size_t bytes = 0;
  check(clGetDeviceInfo(device, what, 0, nullptr, &bytes), "clGetDeviceInfo", "device");
  std::string value(bytes, '\0');
  check(clGetDeviceInfo(device, what, bytes, value.data(), nullptr), "clGetDeviceInfo", "device");
  return trimmed(std::move(value));
}

std::vector<cl_device_id> list_devices() {
  cl_uint count = 0;
  if (clGetPlatformIDs(0, nullptr, &count) != CL_SUCCESS || count == 0) return {};
  std::vector<cl_platform_id> platforms(count);
  if (clGetPlatformIDs(count, platforms.data(), nullptr) != CL_SUCCESS) return {};
  std::vector<cl_device_id> all;
  for (const cl_platform_id platform : platforms) {
    cl_uint found = 0;
    if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &found) != CL_SUCCESS) continue;
    std::vector<cl_device_id> devices(found);
    if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, found, devices.data(), nullptr) ==
        CL_SUCCESS) {
      all.insert(all.end(), devices.begin(), devices.end());
    }
  }
  return all;
}

DeviceInfo info_of(cl_device_id device) {
  const auto platform = device_value<cl_platform_id>(device, CL_DEVICE_PLATFORM);
  std::string version(256, '\0');
  clGetPlatformInfo(platform, CL_PLATFORM_VERSION, version.size(), version.data(), nullptr);
  return {.backend = "opencl",
          .kind = "opencl",
          .name = device_text(device, CL_DEVICE_NAME),
          .memory_bytes =
              static_cast<std::int64_t>(device_value<cl_ulong>(device, CL_DEVICE_GLOBAL_MEM_SIZE)),
          .driver = text(device_text(device, CL_DRIVER_VERSION), " (",
                         trimmed(version.substr(0, version.find('\0'))), ")")};
}

DeviceLimits limits_of(cl_device_id device, const OpenclChoices& choices) {
  DeviceLimits limits;
  limits.is_cpu = (device_value<cl_device_type>(device, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU) != 0;
  limits.compute_units =
      static_cast<int>(device_value<cl_uint>(device, CL_DEVICE_MAX_COMPUTE_UNITS));
  const int native =
      static_cast<int>(device_value<cl_uint>(device, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT));
  const int group = static_cast<int>(
      std::min<std::size_t>(device_value<std::size_t>(device, CL_DEVICE_MAX_WORK_GROUP_SIZE), 64));
  limits.vector_width = choices.vector_width > 0 ? choices.vector_width : std::clamp(native, 4, 16);
  limits.items = static_cast<int>(std::bit_floor(static_cast<unsigned>(group)));
  limits.lanes = choices.lanes > 0 ? choices.lanes : (limits.is_cpu ? 1 : limits.items);
  limits.memory_bytes =
      static_cast<std::int64_t>(device_value<cl_ulong>(device, CL_DEVICE_GLOBAL_MEM_SIZE));
  limits.allocation_bytes =
      static_cast<std::int64_t>(device_value<cl_ulong>(device, CL_DEVICE_MAX_MEM_ALLOC_SIZE));
  return limits;
}

}  // namespace hethub::opencl

namespace hethub {

std::vector<FoundDevice> find_opencl() {
  std::vector<FoundDevice> found;
  for (const cl_device_id device : opencl::list_devices()) {
    FoundDevice one{.backend = "opencl", .device = static_cast<int>(found.size())};
    try {
      one.info = opencl::info_of(device);
      if (!opencl::device_value<cl_bool>(device, CL_DEVICE_AVAILABLE) ||
          !opencl::device_value<cl_bool>(device, CL_DEVICE_COMPILER_AVAILABLE)) {
        one.problem =
            "the device or its compiler is not available; install the vendor's whole "
            "OpenCL driver";
      }
    } catch (const Error& error) {
      one.problem = error.what();
    }
    found.push_back(std::move(one));
  }
  if (found.empty()) {
    found.push_back({.backend = "opencl",
                     .info = {.backend = "opencl", .kind = "opencl"},
                     .problem = "no OpenCL driver is installed; install your device's, or "
                                "pocl-opencl-icd to use the CPU (apt install pocl-opencl-icd)"});
  }
  return found;
}

}  // namespace hethub

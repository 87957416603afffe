#include "hethub/accel/opencl/program.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "hethub/accel/opencl/device.h"
#include "hethub/accel/opencl/kernels.h"
#include "hethub/accel/opencl/status.h"
#include "hethub/base/error.h"
#include "hethub/base/files.h"
#include "hethub/base/text.h"

namespace hethub::opencl {
namespace {

constexpr std::string_view kMagic = "hethub-opencl/1\n";

// FNV-1a: tells files apart and finds damage; nothing here needs to withstand an attacker who can
// already write to the user's own cache.
std::uint64_t hash_of(std::string_view bytes) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (const char byte : bytes) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 1099511628211ULL;
  }
  return hash;
}

std::string hash_bytes(std::string_view bytes) {
  const std::uint64_t hash = hash_of(bytes);
  std::string out(sizeof(hash), '\0');
  std::memcpy(out.data(), &hash, sizeof(hash));
  return out;
}

std::filesystem::path default_folder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache != '\0') return std::filesystem::path(cache) / "hethub";
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home != '\0') return std::filesystem::path(home) / ".cache" / "hethub";
  return {};
}

std::string build_log(cl_program program, cl_device_id device) {
  std::size_t bytes = 0;
  clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, nullptr, &bytes);
  std::string log(bytes, '\0');
  clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, bytes, log.data(), nullptr);
  constexpr std::size_t kMost = 2000;
  return log.substr(0, kMost);
}

// The driver's form of the program, or nothing if it gives none.
std::string binary_of(cl_program program) {
  std::size_t bytes = 0;
  if (clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof(bytes), &bytes, nullptr) !=
      CL_SUCCESS) {
    return {};
  }
  std::string binary(bytes, '\0');
  auto* data = reinterpret_cast<unsigned char*>(binary.data());
  if (clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof(data), static_cast<void*>(&data),
                       nullptr) != CL_SUCCESS) {
    return {};
  }
  return binary;
}

std::string hex(std::uint64_t value) {
  std::array<char, 17> out{};
  std::snprintf(out.data(), out.size(), "%016llx", static_cast<unsigned long long>(value));
  return out.data();
}

}  // namespace

Programs::Programs(cl_context context, cl_device_id device, std::filesystem::path folder)
    : context_(context),
      device_(device),
      folder_(folder.empty() ? default_folder() : std::move(folder)),
      device_key_(text(device_text(device, CL_DEVICE_NAME), '\n',
                       device_text(device, CL_DEVICE_VERSION), '\n',
                       device_text(device, CL_DRIVER_VERSION), '\n')) {}

cl_program Programs::get(const Source& source) {
  std::string key = text(device_key_, source.options, '\n', kCommonSource, source.text);
  const auto known = built_.find(key);
  if (known != built_.end()) return known->second.get();

  const std::filesystem::path file =
      folder_.empty() ? std::filesystem::path()
                      : folder_ / text("opencl-", source.name, "-", hex(hash_of(key)), ".bin");
  Program program = load(file, key, source.options);
  if (program.get() == nullptr) {
    program = compile(source);
    store(program.get(), file, key);
  }
  return built_.emplace(std::move(key), std::move(program)).first->second.get();
}

// The file: magic, hash of the key, hash of the binary, the binary.
Program Programs::load(const std::filesystem::path& file, const std::string& key,
                       const std::string& options) const {
  std::error_code error;
  if (file.empty() || !std::filesystem::is_regular_file(file, error)) return {};
  std::string content;
  try {
    content = read_file(file);
  } catch (const Error&) {
    return {};
  }
  const std::string head = text(kMagic, hash_bytes(key));
  const std::size_t body = head.size() + sizeof(std::uint64_t);
  if (content.size() <= body || content.compare(0, head.size(), head) != 0) return {};
  const std::string_view binary = std::string_view(content).substr(body);
  if (content.compare(head.size(), sizeof(std::uint64_t), hash_bytes(binary)) != 0) return {};

  const std::size_t bytes = binary.size();
  const auto* data = reinterpret_cast<const unsigned char*>(binary.data());
  cl_int status = CL_SUCCESS;
  Program program(
      clCreateProgramWithBinary(context_, 1, &device_, &bytes, &data, nullptr, &status));
  if (status != CL_SUCCESS) return {};
  if (clBuildProgram(program.get(), 1, &device_, options.c_str(), nullptr, nullptr) != CL_SUCCESS) {
    return {};
  }
  return program;
}

Program Programs::compile(const Source& source) {
  std::array<const char*, 2> texts = {kCommonSource.data(), source.text.data()};
  std::array<std::size_t, 2> lengths = {kCommonSource.size(), source.text.size()};
  cl_int status = CL_SUCCESS;
  Program program(clCreateProgramWithSource(context_, 2, texts.data(), lengths.data(), &status));
  check(status, "clCreateProgramWithSource", source.name);
  status = clBuildProgram(program.get(), 1, &device_, source.options.c_str(), nullptr, nullptr);
  if (status != CL_SUCCESS) {
    throw Error(ErrorCode::kInternal,
                {.what = text("opencl: kernels '", source.name, "' with ", source.options),
                 .found = text(name_of_status(status), ": ", build_log(program.get(), device_)),
                 .expected = "a driver that compiles OpenCL C 1.2",
                 .fix = "try another version of the device's driver"});
  }
  ++compiled_;
  return program;
}

void Programs::store(cl_program program, const std::filesystem::path& file,
                     const std::string& key) const {
  if (file.empty()) return;
  const std::string binary = binary_of(program);
  if (binary.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  try {
    write_file(file, text(kMagic, hash_bytes(key), hash_bytes(binary), binary));
  } catch (const Error&) {
    // Without a cache the next start compiles again; that is all.
  }
}

}  // namespace hethub::opencl

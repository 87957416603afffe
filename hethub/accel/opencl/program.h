#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "hethub/accel/opencl/handle.h"

namespace hethub::opencl {

/// A file of kernels and the definitions it is built with.
struct Source {
  std::string_view name = {};  ///< for messages, e.g. "attention"
  std::string_view text = {};
  std::string options = {};
};

/// Compiled programs of one device: each is built once a process, and kept on disk between them.
///
/// A file in the folder is used only if its key (device, driver, options, source) and its checksum
/// match; anything else, a folder that cannot be written included, only costs a compilation.
class Programs {
 public:
  /// An empty `folder` is $XDG_CACHE_HOME/hethub, or ~/.cache/hethub.
  Programs(cl_context context, cl_device_id device, std::filesystem::path folder);

  /// The program, compiled. Throws kInternal with the compiler's log.
  cl_program get(const Source& source);

  /// How many were compiled from source, and not loaded.
  int compiled() const { return compiled_; }

 private:
  Program load(const std::filesystem::path& file, const std::string& key,
               const std::string& options) const;
  Program compile(const Source& source);
  void store(cl_program program, const std::filesystem::path& file, const std::string& key) const;

  cl_context context_;
  cl_device_id device_;
  std::filesystem::path folder_;
  std::string device_key_;
  std::map<std::string, Program> built_;
  int compiled_ = 0;
};

}  // namespace hethub::opencl

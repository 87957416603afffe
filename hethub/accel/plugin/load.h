#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "hethub/accel/plugin/plugin.h"
#include "hethub/accel/registry.h"

namespace hethub {

/// A plug-in that lies in a folder, not loaded yet.
struct PluginFile {
  std::string name = {};  ///< of the backend: NAME of hethub-NAME.so
  std::filesystem::path path = {};
};

/// The plug-ins of these folders by name; of one name, the first folder's. A folder that is not
/// there has none.
std::vector<PluginFile> plugin_files(const std::vector<std::filesystem::path>& folders);

/// A loaded plug-in. It stays loaded until the program ends, since vendors' libraries do not bear
/// being unloaded; so what it opened may outlive this object.
class Plugin {
 public:
  /// Throws kUnavailable, naming the file, if it or a library it needs cannot be loaded, if it is
  /// no plug-in, or if it is one of another version or name.
  explicit Plugin(const PluginFile& file);

  std::vector<FoundDevice> find() const;
  std::unique_ptr<Backend> open(const BackendOptions& options) const;

 private:
  const HethubPlugin* table_ = nullptr;
};

/// The table, if this program can use it. Throws kUnavailable, naming the file, for one that is of
/// another version or name, or lacks a function.
const HethubPlugin& checked(const HethubPlugin* table, const PluginFile& file);

}  // namespace hethub

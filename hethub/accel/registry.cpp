#include "hethub/accel/registry.h"

#include <algorithm>

#include "built_backends.h"
#include "hethub/accel/emulated/emulated.h"
#include "hethub/accel/plugin/load.h"
#include "hethub/base/error.h"
#include "hethub/base/plugin_folders.h"

namespace hethub {
namespace {

constexpr std::string_view kEmulated = "emulated";

// "torch:cuda" is the device type cuda of the backend torch.
struct BackendName {
  std::string_view backend = {};
  std::string_view device_type = {};
};

BackendName parts_of(std::string_view name) {
  const std::size_t colon = name.find(':');
  if (colon == std::string_view::npos) return {name, {}};
  return {name.substr(0, colon), name.substr(colon + 1)};
}

FoundDevice unusable(const std::string& backend, std::string problem) {
  return {.backend = backend,
          .info = {.backend = backend, .kind = backend},
          .problem = std::move(problem)};
}

std::vector<FoundDevice> find_in(const PluginFile& file) {
  try {
    return Plugin(file).find();
  } catch (const Error& error) {
    return {unusable(file.name, error.what())};
  }
}

std::string joined(const std::vector<std::string>& words) {
  std::string all;
  for (const std::string& word : words) {
    all += text(all.empty() ? "" : ", ", word);
  }
  return all;
}

// Those of kPluginKinds without a file.
std::vector<FoundDevice> missing_plugins(const std::vector<PluginFile>& files) {
  std::vector<std::string> folders;
  for (const std::filesystem::path& folder : plugin_folders()) {
    folders.push_back(folder.string());
  }
  std::vector<FoundDevice> missing;
  for (const PluginKind& kind : kPluginKinds) {
    const bool there = std::any_of(files.begin(), files.end(),
                                   [&](const PluginFile& file) { return file.name == kind.name; });
    if (there) continue;
    missing.push_back(
        unusable(std::string(kind.name),
                 text("found no plug-in hethub-", kind.name, ".so in ", joined(folders),
                      ", expected one; build hethub where ", kind.built_where,
                      " and put the file there, or name its folder in HETHUB_PLUGIN_PATH")));
  }
  return missing;
}

}  // namespace

std::vector<FoundDevice> find_devices() {
  std::vector<FoundDevice> all;
  for (const BuiltBackend& backend : kBuiltBackends) {
    for (FoundDevice& device : backend.find()) {
      all.push_back(std::move(device));
    }
  }
  const std::vector<PluginFile> files = plugin_files(plugin_folders());
  for (const PluginFile& file : files) {
    for (FoundDevice& device : find_in(file)) {
      all.push_back(std::move(device));
    }
  }
  for (FoundDevice& device : missing_plugins(files)) {
    all.push_back(std::move(device));
  }
  for (FoundDevice& device : find_emulated()) {
    all.push_back(std::move(device));
  }
  return all;
}

std::vector<std::string> backend_names() {
  std::vector<std::string> names;
  for (const BuiltBackend& backend : kBuiltBackends) {
    names.emplace_back(backend.name);
  }
  return names;
}

std::vector<std::string> plugin_names() {
  std::vector<std::string> names;
  for (const PluginFile& file : plugin_files(plugin_folders())) {
    names.push_back(file.name);
  }
  return names;
}

bool is_backend(std::string_view name) {
  const std::string_view backend = parts_of(name).backend;
  const auto knows = [&](const std::vector<std::string>& names) {
    return std::find(names.begin(), names.end(), backend) != names.end();
  };
  return backend == kEmulated || knows(backend_names()) || knows(plugin_names());
}

std::unique_ptr<Backend> open_backend(std::string_view name, const BackendOptions& options) {
  const BackendName parts = parts_of(name);
  BackendOptions chosen = options;
  if (!parts.device_type.empty()) chosen.device_type = parts.device_type;
  if (parts.backend == kEmulated) return open_emulated(chosen);
  for (const BuiltBackend& backend : kBuiltBackends) {
    if (backend.name != parts.backend) continue;
    require(chosen.device_type.empty(), {.what = "backend",
                                         .found = text("'", name, "'"),
                                         .expected = text(backend.name, " alone"),
                                         .fix = "leave out what follows the ':'"});
    return backend.open(chosen);
  }
  for (const PluginFile& file : plugin_files(plugin_folders())) {
    if (file.name == parts.backend) return Plugin(file).open(chosen);
  }
  std::vector<std::string> known = backend_names();
  for (const std::string& plugin : plugin_names()) {
    known.push_back(plugin);
  }
  known.push_back(text(kEmulated, ":KIND"));
  throw Error(ErrorCode::kInvalidArgument,
              {.what = "backend",
               .found = text("'", name, "'"),
               .expected = text("one of: ", joined(known)),
               .fix = "name a backend of this build or of a plug-in; see `hethub devices`"});
}

}  // namespace hethub

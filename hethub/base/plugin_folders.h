#pragma once

#include <filesystem>
#include <vector>

namespace hethub {

/// Where plug-ins are looked for: the folders of HETHUB_PLUGIN_PATH (divided by ':'), then
/// hethub-plugins beside the program.
std::vector<std::filesystem::path> plugin_folders();

}  // namespace hethub

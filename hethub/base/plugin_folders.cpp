#include "hethub/base/plugin_folders.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <system_error>

namespace hethub {

std::vector<std::filesystem::path> plugin_folders() {
  std::vector<std::filesystem::path> folders;
  const char* named = std::getenv("HETHUB_PLUGIN_PATH");
  std::string rest = named == nullptr ? "" : named;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    if (end > 0) folders.emplace_back(rest.substr(0, end));
    rest.erase(0, end + 1);
  }
  std::error_code unknown;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", unknown);
  if (!unknown) folders.push_back(program.parent_path() / "hethub-plugins");
  return folders;
}

}  // namespace hethub

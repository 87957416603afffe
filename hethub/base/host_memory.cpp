#include "hethub/base/host_memory.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>

#include <unistd.h>

namespace hethub {
namespace {

constexpr std::int64_t kNoNumber = std::numeric_limits<std::int64_t>::max();

// A file of one number, or kNoNumber if it holds none ("max") or is not there.
std::int64_t number_in(const char* path) {
  std::ifstream file(path);
  std::int64_t number = 0;
  return file >> number ? number : kNoNumber;
}

// What the control group leaves this process, in either version.
std::int64_t group_limit() {
  return std::min(number_in("/sys/fs/cgroup/memory.max"),
                  number_in("/sys/fs/cgroup/memory/memory.limit_in_bytes"));
}

std::int64_t group_use() {
  const std::int64_t use = std::min(number_in("/sys/fs/cgroup/memory.current"),
                                    number_in("/sys/fs/cgroup/memory/memory.usage_in_bytes"));
  return use == kNoNumber ? 0 : use;
}

// MemAvailable of /proc/meminfo, or kNoNumber.
std::int64_t available_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  std::int64_t kibibytes = 0;
  for (std::string line; file >> key >> kibibytes; std::getline(file, line)) {
    if (key == "MemAvailable:") return kibibytes * 1024;
  }
  return kNoNumber;
}

}  // namespace

std::int64_t host_memory_bytes() {
  return std::min<std::int64_t>(sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE), group_limit());
}

std::int64_t free_host_memory_bytes() {
  return std::min({host_memory_bytes(), available_bytes(),
                   std::max<std::int64_t>(0, group_limit() - group_use())});
}

}  // namespace hethub

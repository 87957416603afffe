#include "hethub/comm/tcp/port_owner.h"

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "hethub/base/text.h"

namespace hethub {
namespace {

// The inodes of sockets that listen on `port`, as /proc/net/tcp tells: columns are slot, local
// address:port in hexadecimal, remote address:port, state (0A listens), ..., inode (the tenth).
void add_listeners(const char* table, int port, std::set<std::string>& inodes) {
  std::ifstream file(table);
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::istringstream columns(line);
    std::string slot;
    std::string local;
    std::string remote;
    std::string state;
    std::string inode;
    columns >> slot >> local >> remote >> state;
    for (int column = 4; column < 10; ++column) {
      columns >> inode;
    }
    const std::size_t colon = local.rfind(':');
    if (state != "0A" || colon == std::string::npos) continue;
    if (std::strtol(local.c_str() + colon + 1, nullptr, 16) == port) {
      inodes.insert(text("socket:[", inode, "]"));
    }
  }
}

bool holds_one_of(const std::filesystem::path& process, const std::set<std::string>& sockets) {
  std::error_code failed;
  std::filesystem::directory_iterator entries(process / "fd", failed);
  for (const std::filesystem::directory_iterator end; !failed && entries != end;
       entries.increment(failed)) {
    std::error_code unread;
    if (sockets.count(std::filesystem::read_symlink(entries->path(), unread).string()) > 0) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::string owner_of_port(int port) {
  std::set<std::string> sockets;
  add_listeners("/proc/net/tcp", port, sockets);
  add_listeners("/proc/net/tcp6", port, sockets);
  std::error_code failed;
  std::filesystem::directory_iterator entries("/proc", failed);
  for (const std::filesystem::directory_iterator end; !failed && entries != end;
       entries.increment(failed)) {
    const std::string pid = entries->path().filename().string();
    if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
    if (!holds_one_of(entries->path(), sockets)) continue;
    std::string name;
    std::getline(std::ifstream(entries->path() / "comm"), name);
    return text("pid ", pid, " (", name, ")");
  }
  return "a process that this user may not see";
}

}  // namespace hethub

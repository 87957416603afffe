#pragma once

#include <string>

namespace hethub {

/// Who listens on a port of this host: "pid 123 (nc)", or "a process that this user may not see".
std::string owner_of_port(int port);

}  // namespace hethub

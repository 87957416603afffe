#pragma once

#include <string_view>

namespace hethub {

/// How data travel between ranks: over shared memory inside a host, if it is allowed and there;
/// else over ucx (a plug-in), if it is chosen; else over tcp.
struct Transports {
  bool shm = true;
  bool ucx = false;
};

/// Reads a list: "shm,tcp" (what is chosen by default), "tcp", "shm,ucx", "ucx"; "shm" alone is
/// "shm,tcp". Throws kUsage.
Transports transports_of(std::string_view list);

}  // namespace hethub

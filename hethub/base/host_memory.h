#pragma once

#include <cstdint>

namespace hethub {

/// Bytes of memory this process may have: the machine's, or fewer where its control group says so.
/// The one figure of the host's memory: a machine whose memory grows tells its NUMA nodes' late.
/// Threads: any.
std::int64_t host_memory_bytes();

/// Bytes of it that are still to be had.
std::int64_t free_host_memory_bytes();

}  // namespace hethub

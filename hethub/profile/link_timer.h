#pragma once

#include <vector>

#include "hethub/accel/backend.h"
#include "hethub/comm/messenger.h"
#include "hethub/cost/costs.h"

namespace hethub {

/// Sizes of messages that are timed: 1 KiB to 16 MiB.
std::vector<double> message_sizes();

/// Times messages between this rank and `peer`, which calls it too, as host memory over the
/// transport that training uses: both ranks send and receive at once, the median of several. Both
/// ends return the times as the one that `starts` saw them.
std::vector<LinkPoint> time_messages(Messenger& messenger, int peer, bool starts,
                                     const std::vector<double>& sizes, int repeats = 15);

/// Rates of copies between a device and the host; bytes_per_s 0 where the host reads its memory.
struct CopyRates {
  LinkRate download = {};
  LinkRate upload = {};
};
CopyRates time_copies(Backend& backend, const std::vector<double>& sizes, int repeats = 15);

}  // namespace hethub

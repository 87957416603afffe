#pragma once

#include "hethub/trace/timeline.h"

namespace hethub {

/// The last step that every rank of `timeline` has whole, moved so that it begins at 0.
///
/// A rank's step begins with its first span of a micro-batch after a sync_norm, and is whole if it
/// has as many spans as the rank's longest. If no step is whole on all ranks, the last one is taken
/// as it is.
Timeline last_whole_step(const Timeline& timeline);

}  // namespace hethub

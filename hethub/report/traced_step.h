#pragma once

#include "hethub/trace/timeline.h"

namespace hethub {

/// The last step that every rank of `timeline` has whole, moved so that it begins at 0.
///
/// A rank's step begins with the name that its first span has, and is whole if it has as many spans
/// as the rank's longest. If no step is whole on all ranks, the last one is taken as it is.
Timeline last_whole_step(const Timeline& timeline);

}  // namespace hethub

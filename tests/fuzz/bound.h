#pragma once

namespace hethub {

/// From now on a single allocation above kMostAllocation ends the program.
void bound_allocations();

}  // namespace hethub

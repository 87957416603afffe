#pragma once

#include <vector>

#include "hethub/accel/registry.h"

namespace hethub {

/// Prints how bytes would travel between each two of these devices' ranks, on one host and between
/// hosts, and why not faster. Opens each device for a moment.
void print_routes(const std::vector<FoundDevice>& devices, bool json);

}  // namespace hethub

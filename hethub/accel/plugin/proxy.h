#pragma once

#include <memory>

#include "hethub/accel/plugin/plugin.h"
#include "hethub/accel/registry.h"

namespace hethub {

/// Opens a device of a plug-in: a Backend whose every call goes through the table, which must
/// outlive it. Throws what the plug-in reports.
std::unique_ptr<Backend> open_proxy(const HethubPlugin& table, const BackendOptions& options);

}  // namespace hethub

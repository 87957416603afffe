#pragma once

#include <memory>
#include <vector>

#include "hethub/accel/registry.h"

namespace hethub {

// What a plug-in defines. serve.cpp makes the table of plugin.h of it, so that a backend in a
// plug-in is written like any other.

/// The NAME of hethub-NAME.so.
extern const char* const kServedName;

/// Opens a device; throws what open_backend() throws.
std::unique_ptr<Backend> open_served(const BackendOptions& options);

/// What is here, or why nothing can be used.
std::vector<FoundDevice> find_served();

}  // namespace hethub

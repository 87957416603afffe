#pragma once

#include <string_view>

namespace hethub {

/// What `hethub --version` prints: "0.1.0", and in brackets what git calls the tree it was built
/// from, if that is known: "0.1.0 (3f2a9c1-dirty)".
std::string_view version();

}  // namespace hethub

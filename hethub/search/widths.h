#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hethub/base/error.h"
#include "hethub/search/strategy.h"

namespace hethub {

/// The tensor-parallel widths that a stage on a kind may have: 1, 2, 4 and 8, or the one of a pin,
/// where the model can be split so and where they divide the kind's devices of each node, so that
/// groups stay inside one. Not whether costs are known.
std::vector<int> widths_of(const SearchRequest& request, const std::string& kind);

/// Why no stage on the kind has that width, but for where it happened; nothing if one may.
std::optional<ErrorParts> width_fault(const SearchRequest& request, const std::string& kind,
                                      int width);

/// Whether a stage on some kind of the request may have a width above 1.
bool may_be_wide(const SearchRequest& request);

}  // namespace hethub

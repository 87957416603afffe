#include "hethub/search/widths.h"

#include <algorithm>
#include <map>
#include <set>

#include "hethub/base/error.h"
#include "hethub/plan/tensor_width.h"

namespace hethub {

std::optional<ErrorParts> width_fault(const SearchRequest& request, const std::string& kind,
                                      int width) {
  const WidthJob job{request.sequence_length, request.sequence_parallel};
  std::optional<ErrorParts> of_model = width_fault(request.model, job, width);
  if (of_model || width == 1) return of_model;
  std::map<int, int> on_node;
  for (const RankPlace& place : request.costs.ranks()) {
    if (place.kind == kind) ++on_node[place.node];
  }
  for (const auto& [node, devices] : on_node) {
    if (devices % width == 0) continue;
    return ErrorParts{.found = text(devices, " of its devices on node ", node, ", tp=", width),
                      .expected = text("a multiple of ", width, ": groups stay inside a node"),
                      .fix = "choose a width that divides a node's devices"};
  }
  return std::nullopt;
}

std::vector<int> widths_of(const SearchRequest& request, const std::string& kind) {
  std::vector<int> wanted = {1, 2, 4, 8};
  if (request.pins.tensor_parallel) wanted = {*request.pins.tensor_parallel};
  std::erase_if(wanted, [&](int width) { return width_fault(request, kind, width).has_value(); });
  return wanted;
}

bool may_be_wide(const SearchRequest& request) {
  std::set<std::string> kinds;
  for (const RankPlace& place : request.costs.ranks()) {
    if (request.pins.allow(place.kind)) kinds.insert(place.kind);
  }
  return std::any_of(kinds.begin(), kinds.end(), [&](const std::string& kind) {
    const std::vector<int> widths = widths_of(request, kind);
    return !widths.empty() && widths.back() > 1;
  });
}

}  // namespace hethub

#pragma once

#include <optional>
#include <vector>

#include "hethub/search/memory_check.h"
#include "hethub/search/strategy.h"

namespace hethub {

/// The plan with `ranges` virtual stages on each stage, which share out its layers evenly; none if
/// a stage has fewer layers, recomputes only some of them, or a pipeline's micro-batches do not
/// come in whole runs of its stages.
std::optional<Plan> interleaved_plan(Plan plan, int ranges);

/// Lets stages of a plan recompute their first layers, as few as make it fit; none if that does not
/// help, e.g. because a stage that lacks memory recomputes already. Few rounds, each of which plans
/// the memory of all ranks. `segments` are segments_of the plan.
std::optional<Plan> fitted_plan(Plan plan, const std::vector<Segment>& segments,
                                MemoryCheck& memory, const CostModel& costs);

/// Prices the fastest plan of a result under the schedules that the search's tables do not:
/// zero-bubble, and interleaved over three virtual stages (two, of short stages), then over ever
/// more while that is faster. The best of them that fits, with some layers recomputed if need be,
/// comes before it if it is faster by half a percent. If a pin asks for one of these schedules, the
/// best plan with it is all that is left, if any fits.
void vary_schedule(SearchResult& result, const SearchRequest& request);

}  // namespace hethub

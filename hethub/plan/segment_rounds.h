#pragma once

#include <vector>

#include "hethub/plan/segments.h"

namespace hethub {

/// Sets Segment::round of all that several ranks hold: from the last segment to the first, each
/// gets the first round in which none of its ranks has another (first-fit colouring). Where ranks
/// hold unlike slices of the model, those of one round are summed side by side; one order from
/// last to first would let each wait for the one before it. `holders` says which segments the same
/// ranks hold: they have the same number, counted from 0.
void set_rounds(std::vector<Segment>& segments, const std::vector<int>& holders);

}  // namespace hethub

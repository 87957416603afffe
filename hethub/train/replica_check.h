#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hethub/accel/rank/rank_device.h"
#include "hethub/plan/segments.h"

namespace hethub {

/// A digest of each part of a tensor that this rank shares with others, as text: a line
/// "SEGMENT PART HEX" each. Reads the parameters from the device.
std::string replica_digests(const std::vector<Segment>& segments, RankDevice& device,
                            Deadline deadline);

/// Compares what replica_digests gave on each rank, in rank order; returns how many parts of
/// tensors several ranks hold. Throws kNumerical, naming `when`, the first tensor that differs and
/// its ranks; kCorruptData if a rank's text lacks a part that it holds.
std::int64_t require_equal_replicas(const std::vector<Segment>& segments,
                                    const std::vector<std::string>& digests,
                                    const std::string& when);

}  // namespace hethub

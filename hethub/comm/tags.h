#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "hethub/base/dtype.h"
#include "hethub/base/reduction.h"
#include "hethub/base/text.h"
#include "hethub/comm/message.h"

namespace hethub {

// Tag.match:  bit 63        1 for a collective, 0 for point-to-point
//             bits 62..48   the group's id, the same on all its members
//             bits 47..0    the number of the collective in its group, or the caller's tag
// Tag.check:  0 for point-to-point; for a collective
//             bits 63..56   position in kOperations, plus 1
//             bits 55..52   the reduction
//             bits 51..48   the dtype
//             bits 47..0    elements in all

inline constexpr int kMostGroups = 1 << 15;
inline constexpr std::uint64_t kMostTag = (std::uint64_t{1} << 48U) - 1;

/// What a check can name.
inline constexpr std::array<std::string_view, 30> kOperations = {"collective",
                                                                 "all_reduce_host",
                                                                 "all_gather_host",
                                                                 "ring_all_reduce",
                                                                 "ring_reduce_scatter",
                                                                 "ring_all_gather",
                                                                 "halving_reduce_scatter",
                                                                 "doubling_all_gather",
                                                                 "halving_doubling_all_reduce",
                                                                 "tree_broadcast",
                                                                 "tree_reduce",
                                                                 "tree_all_reduce",
                                                                 "tree_gather",
                                                                 "tree_scatter",
                                                                 "scatter_all_gather_broadcast",
                                                                 "pairwise_reduce_scatter",
                                                                 "pairwise_all_gather",
                                                                 "pairwise_all_reduce",
                                                                 "pairwise_reduce",
                                                                 "pairwise_all_to_all",
                                                                 "direct_all_reduce",
                                                                 "direct_reduce",
                                                                 "direct_broadcast",
                                                                 "direct_gather",
                                                                 "direct_scatter",
                                                                 "dissemination_barrier",
                                                                 "hierarchical_all_reduce",
                                                                 "hierarchical_broadcast",
                                                                 "hierarchical_reduce_scatter",
                                                                 "hierarchical_all_gather"};

constexpr Tag point_to_point_tag(int group, std::uint64_t tag) {
  return {.match = (static_cast<std::uint64_t>(group) << 48U) | tag};
}

constexpr Tag collective_tag(int group, std::uint64_t number, std::uint64_t check) {
  return {.match = (std::uint64_t{1} << 63U) | (static_cast<std::uint64_t>(group) << 48U) |
                   (number & kMostTag),
          .check = check};
}

constexpr std::uint64_t check_of(std::string_view operation, DType dtype, std::int64_t elements,
                                 Reduction reduction = Reduction::kSum) {
  std::uint64_t code = 0;
  for (std::size_t known = 0; known < kOperations.size(); ++known) {
    if (kOperations[known] == operation) code = known;
  }
  return ((code + 1) << 56U) | (static_cast<std::uint64_t>(reduction) << 52U) |
         (static_cast<std::uint64_t>(dtype) << 48U) |
         (static_cast<std::uint64_t>(elements) & kMostTag);
}

/// "ring_all_reduce f32 2048 elements"; ", max" follows where the reduction is not a sum.
inline std::string describe_check(std::uint64_t check) {
  if (check == 0) return "point-to-point";
  const std::uint64_t code = (check >> 56U) - 1;
  const std::uint64_t dtype = (check >> 48U) & 0xFU;
  const std::uint64_t reduction = (check >> 52U) & 0xFU;
  return text(code < kOperations.size() ? kOperations[code] : "an unknown operation", ' ',
              dtype < kDTypes.size() ? kDTypes[dtype].name : "?", ' ', check & kMostTag,
              " elements", reduction > 0 && reduction < kReductionNames.size() ? ", " : "",
              reduction > 0 && reduction < kReductionNames.size() ? kReductionNames[reduction]
                                                                  : std::string_view());
}

/// "seq 7 ring_all_reduce f32 2048 elements" or "message with tag 5"; " in group 3" follows where
/// the group is not the first.
inline std::string describe_tag(Tag tag) {
  const bool collective = (tag.match >> 63U) != 0;
  const std::uint64_t group = (tag.match >> 48U) & 0x7FFFU;
  const std::uint64_t number = tag.match & kMostTag;
  const std::string where = group == 0 ? "" : text(" in group ", group);
  if (!collective) return text("message with tag ", number, where);
  return text("seq ", number, ' ', describe_check(tag.check), where);
}

}  // namespace hethub

#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "hethub/base/dtype.h"
#include "hethub/base/text.h"
#include "hethub/comm/message.h"

namespace hethub {

// Tag.match:  bit 63        1 for a collective, 0 for point-to-point
//             bits 62..48   the group's id, the same on all its members
//             bits 47..0    the number of the collective in its group, or the caller's tag
// Tag.check:  0 for point-to-point; for a collective
//             bits 63..56   position in kOperations, plus 1
//             bits 55..48   the dtype
//             bits 47..0    elements in all

inline constexpr int kMostGroups = 1 << 15;
inline constexpr std::uint64_t kMostTag = (std::uint64_t{1} << 48U) - 1;

/// What a check can name.
inline constexpr std::array<std::string_view, 8> kOperations = {
    "collective",     "ring_all_reduce",       "ring_reduce_scatter", "ring_all_gather",
    "tree_broadcast", "dissemination_barrier", "all_reduce_host",     "all_gather_host"};

constexpr Tag point_to_point_tag(int group, std::uint64_t tag) {
  return {.match = (static_cast<std::uint64_t>(group) << 48U) | tag};
}

constexpr Tag collective_tag(int group, std::uint64_t number, std::uint64_t check) {
  return {.match = (std::uint64_t{1} << 63U) | (static_cast<std::uint64_t>(group) << 48U) |
                   (number & kMostTag),
          .check = check};
}

constexpr std::uint64_t check_of(std::string_view operation, DType dtype, std::int64_t elements) {
  std::uint64_t code = 0;
  for (std::size_t known = 0; known < kOperations.size(); ++known) {
    if (kOperations[known] == operation) code = known;
  }
  return ((code + 1) << 56U) | (static_cast<std::uint64_t>(dtype) << 48U) |
         (static_cast<std::uint64_t>(elements) & kMostTag);
}

/// "ring_all_reduce f32 2048 elements".
inline std::string describe_check(std::uint64_t check) {
  if (check == 0) return "point-to-point";
  const std::uint64_t code = (check >> 56U) - 1;
  const std::uint64_t dtype = (check >> 48U) & 0xFFU;
  return text(code < kOperations.size() ? kOperations[code] : "an unknown operation", ' ',
              dtype < kDTypes.size() ? kDTypes[dtype].name : "?", ' ', check & kMostTag,
              " elements");
}

}  // namespace hethub

#include "hethub/base/split.h"

#include <vector>

#include <gtest/gtest.h>

namespace hethub {
namespace {

TEST(PartOf, the_parts_cover_the_whole_in_order_and_differ_by_at_most_one) {
  for (const std::int64_t total : {0, 1, 2, 7, 8, 64, 127, 128}) {
    for (std::int64_t parts = 1; parts <= 17; ++parts) {
      std::int64_t reached = 0;
      for (std::int64_t part = 0; part < parts; ++part) {
        const IndexRange range = part_of(total, parts, part);
        EXPECT_EQ(range.begin, reached);
        EXPECT_GE(range.size(), total / parts);
        EXPECT_LE(range.size(), (total + parts - 1) / parts);
        if (part > 0) {
          EXPECT_LE(range.size(), part_of(total, parts, part - 1).size());
        }
        reached = range.end;
      }
      EXPECT_EQ(reached, total);
    }
  }
}

TEST(PartOf, layers_that_do_not_divide_go_to_the_first_parts) {
  const auto sizes = [](std::int64_t total, std::int64_t parts) {
    std::vector<std::int64_t> out;
    for (std::int64_t part = 0; part < parts; ++part) {
      out.push_back(part_of(total, parts, part).size());
    }
    return out;
  };
  EXPECT_EQ(sizes(30, 4), (std::vector<std::int64_t>{8, 8, 7, 7}));
  EXPECT_EQ(sizes(10, 3), (std::vector<std::int64_t>{4, 3, 3}));
  EXPECT_EQ(sizes(7, 2), (std::vector<std::int64_t>{4, 3}));
}

}  // namespace
}  // namespace hethub

#include "hethub/comm/tags.h"

#include <gtest/gtest.h>

#include "hethub/collective/choice.h"

namespace hethub {
namespace {

TEST(Tags, a_check_names_every_algorithm_there_is) {
  for (int number = 0; number < kCollectiveOps; ++number) {
    const auto op = static_cast<CollectiveOp>(number);
    for (const std::string& algorithm : algorithms_for(op)) {
      const std::string name = make_algorithm(algorithm, {.op = op, .world_size = 4}).name;
      EXPECT_EQ(describe_check(check_of(name, DType::kBf16, 77)), name + " bf16 77 elements");
    }
  }
}

}  // namespace
}  // namespace hethub

#include "hethub/train/replica_check.h"

#include <gtest/gtest.h>

#include "hethub/base/error.h"

namespace hethub {
namespace {

// Two tensors shared by ranks 0 and 2, one of rank 1 alone.
std::vector<Segment> segments() {
  const auto part = [](const char* name) {
    return TensorShard{.tensor = {.name = name, .shape = {8}}, .count = 8};
  };
  return {{.name = "shared", .ranks = {0, 2}, .parts = {part("first"), part("second")}},
          {.name = "own", .ranks = {1}, .parts = {part("third")}}};
}

std::string refusal_of(const std::vector<std::string>& digests, ErrorCode code) {
  try {
    require_equal_replicas(segments(), digests, "at step 3");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
  return "they passed";
}

TEST(ReplicaCheck, equal_digests_pass_and_parts_of_one_holder_are_not_counted) {
  const std::string digests = "0 0 aa\n0 1 bb\n";
  EXPECT_EQ(require_equal_replicas(segments(), {digests, "", digests}, "at step 3"), 2);
}

TEST(ReplicaCheck, the_first_tensor_that_differs_is_named_with_its_ranks) {
  const std::string refusal =
      refusal_of({"0 0 aa\n0 1 bb\n", "", "0 0 aa\n0 1 bc\n"}, ErrorCode::kNumerical);
  EXPECT_NE(refusal.find("second: ranks 0 and 2 differ"), std::string::npos) << refusal;
  EXPECT_NE(refusal.find("at step 3"), std::string::npos) << refusal;
}

TEST(ReplicaCheck, a_rank_that_lacks_a_digest_is_named) {
  const std::string refusal =
      refusal_of({"0 0 aa\n0 1 bb\n", "", "0 0 aa\n"}, ErrorCode::kCorruptData);
  EXPECT_NE(refusal.find("rank 2"), std::string::npos) << refusal;
}

}  // namespace
}  // namespace hethub

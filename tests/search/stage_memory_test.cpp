#include "hethub/search/stage_memory.h"

#include <random>

#include <gtest/gtest.h>

#include "hethub/plan/each_rank.h"
#include "hethub/plan/rank_plan.h"
#include "hethub/search/memory_check.h"
#include "tests/predict/example_plans.h"

namespace hethub {
namespace {

ModelConfig wide_model(int layers, bool tied) {
  ModelConfig model = example_model(layers, tied);
  model.hidden_size = 1024;
  model.intermediate_size = 2816;
  model.heads = 16;
  model.kv_heads = 8;
  model.head_dim = 64;
  model.vocab_size = 8001;
  return model;
}

// A pipeline of so many stages with any layers, recompute, widths and micro-batches.
Pipeline random_pipeline(std::mt19937& random, int layers, int& next_rank) {
  const auto below = [&](int end) { return static_cast<int>(random() % end); };
  Pipeline pipeline{.micro_batch_size = 1 + below(3), .micro_batches = 1 + below(6)};
  const int stages = 1 + below(3);
  int begin = 0;
  for (int stage = 0; stage < stages; ++stage) {
    const int left = stages - stage - 1;
    const int end = left == 0 ? layers : begin + 1 + below(layers - begin - left);
    Stage& made = pipeline.stages.emplace_back();
    made.kind = "a";
    made.tensor_parallel = 1 << below(3);
    made.layers = {{begin, end}};
    for (int place = 0; place < made.tensor_parallel; ++place) {
      made.ranks.push_back(next_rank++);
    }
    const auto kind = static_cast<Recompute>(below(3));
    if (kind != Recompute::kNone)
      made.recompute = {{kind, {begin, begin + 1 + below(end - begin)}}};
    begin = end;
  }
  return pipeline;
}

TEST(StageMemory, its_limit_holds_for_the_arena_of_every_rank_and_is_near) {
  std::mt19937 random(4);
  double farthest = 1;
  for (int round = 0; round < 60; ++round) {
    const ModelConfig model = wide_model(8, round % 2 == 1);
    std::vector<Pipeline> pipelines;
    int ranks = 0;
    for (int pipeline = 0; pipeline <= round % 3; ++pipeline) {
      pipelines.push_back(random_pipeline(random, model.layers, ranks));
    }
    Plan plan = example_plan(pipelines, round % 4 == 0 ? "gpipe" : "1f1b");
    plan.bucket_bytes = 1 << 20;
    MemoryCheck check(model);
    StageMemory memory(model, {.sequence_length = plan.sequence_length});
    const std::vector<std::int64_t> arenas = check.arenas_of(plan, segments_of(plan, model));
    for_each_rank(plan, [&](const RankPosition& at, int rank) {
      const std::int64_t limit = memory.arena_limit(plan, at);
      EXPECT_GE(limit, arenas[rank]) << round << " rank " << rank;
      farthest = std::max(farthest, static_cast<double>(limit) / static_cast<double>(arenas[rank]));
    });
  }
  EXPECT_LT(farthest, 2);  // a small stage beside the largest tensor, recompute of some layers
}

// Scratch of large buckets lies where lanes do: which of the two is larger differs from stage to
// stage.
TEST(MemoryCheck, its_arenas_are_those_of_the_rank_plans_whatever_the_bucket) {
  const ModelConfig model = wide_model(8, false);
  for (const int length : {4, 16, 32, 64, 96, 128}) {
    Plan plan =
        example_plan({example_pipeline({0, 1, 2, 3}, {"a", "a", "a", "a"}, {2, 2, 2, 2}, 2, 8),
                      example_pipeline({4, 5, 6, 7}, {"a", "a", "a", "a"}, {2, 2, 2, 2}, 2, 8)});
    plan.sequence_length = length;
    plan.bucket_bytes = 64 << 20;
    const std::vector<Segment> segments = segments_of(plan, model);
    const std::vector<std::int64_t> arenas = MemoryCheck(model).arenas_of(plan, segments);
    for (int rank = 0; rank < plan.world_size(); ++rank) {
      EXPECT_EQ(arenas[rank], make_rank_plan(plan, model, segments, rank).memory.arena_bytes)
          << "length " << length << " rank " << rank;
    }
  }
}

}  // namespace
}  // namespace hethub

// Gradients that are summed while the backward pass goes on.

#include <map>

#include <gtest/gtest.h>

#include "hethub/base/text.h"
#include "tests/train/thread_ranks.h"

namespace hethub {
namespace {

constexpr std::int64_t kSmallBucket = 1 << 15;

TrainOptions options_for(Plan plan, bool tied, bool overlap) {
  plan.overlap = overlap;
  plan.bucket_bytes = kSmallBucket;
  return {.plan = std::move(plan),
          .model = small_model(tied),
          .optimizer = {.learning_rate = 1e-3, .schedule = "constant", .total_steps = 3},
          .start = {.seed = 5},
          .steps = 3,
          .timeout_s = 60};
}

Pipeline virtual_stages(int rank) {
  Pipeline pipeline = two_stages(rank, 1, 2, 2);
  pipeline.stages[0].layers = {{0, 1}, {2, 3}};
  pipeline.stages[1].layers = {{1, 2}, {3, 4}};
  return pipeline;
}

std::vector<Plan> plans() {
  Plan interleaved = cpu_plan(32, {virtual_stages(0), virtual_stages(2)});
  interleaved.schedule = "interleaved";
  Plan split = cpu_plan(32, {two_stages(0, 1, 3, 2), two_stages(2, 1, 1, 1)});
  split.schedule = "zero-bubble";
  return {cpu_plan(32, {replica(0, 1, 3), replica(1, 1, 1)}),
          cpu_plan(32, {two_stages(0, 1, 2, 1), replica(2, 2, 1), two_stages(3, 1, 1, 3)}),
          interleaved, split};
}

// The order of the additions is the algorithm's: bits do not depend on when a sum begins.
TEST(Overlap, changes_no_bit_of_the_parameters) {
  const MadeSamples source(32, {});
  for (const Plan& plan : plans()) {
    for (const bool tied : {false, true}) {
      const auto after = train_in_threads(options_for(plan, tied, false), source);
      const auto beside = train_in_threads(options_for(plan, tied, true), source);
      for (std::size_t rank = 0; rank < after.size(); ++rank) {
        EXPECT_EQ(beside[rank].parameters, after[rank].parameters) << plan.schedule << ' ' << rank;
        EXPECT_EQ(beside[rank].steps.back().loss, after[rank].steps.back().loss);
      }
    }
  }
}

TEST(Overlap, a_nan_is_named_before_it_spreads) {
  const MadeSamples source(32, {});
  TrainOptions options = options_for(plans().front(), false, true);
  options.inject = {.nan_rank = 1, .nan_step = 2, .nan_last = 2};
  for (const ThreadRank& rank : train_in_threads(options, source)) {
    EXPECT_EQ(rank.steps[1].reason, "reason=nonfinite rank=1 param=model.embed_tokens.weight");
    EXPECT_FALSE(rank.steps[2].skipped);
  }
}

// No instruction of a later moment writes to a bucket whose sum may have begun.
TEST(Overlap, a_bucket_is_ready_only_after_the_last_instruction_that_adds_to_it) {
  for (const Plan& made : plans()) {
    for (const bool tied : {false, true}) {
      const TrainOptions options = options_for(made, tied, true);
      const auto segments = segments_of(options.plan, options.model);
      for (int rank = 0; rank < options.plan.world_size(); ++rank) {
        const RankPlan plan = make_rank_plan(options.plan, options.model, segments, rank);
        const Schedule schedule = schedule_of(options.plan, plan.position.pipeline);
        ASSERT_GT(plan.buckets.size(), 1U);
        std::vector<bool> begun(plan.buckets.size(), false);
        for (const Action& action : schedule.actions[plan.position.stage]) {
          for (const Phase phase : phases_of(action.kind)) {
            const int program = plan.program_of(action);
            const auto& list = plan.programs[program].phase(phase);
            for (int at = 0; at < std::ssize(list); ++at) {
              for (std::size_t bucket = 0; bucket < begun.size(); ++bucket) {
                const ArenaRange& range = plan.segments[plan.buckets[bucket].held].gradients;
                for (const int output : list[at].outputs) {
                  if (plan.programs[program].values[output].role != ValueRole::kGradient) continue;
                  const auto offset = plan.memory.offset_of(program, output, 0);
                  const bool inside = range.offset <= offset && offset < range.offset + range.bytes;
                  EXPECT_FALSE(inside && begun[bucket]) << list[at].op.name;
                }
                const BucketReady& ready = plan.buckets[bucket].ready;
                begun[bucket] =
                    begun[bucket] ||
                    (ready.program == program && ready.phase == phase &&
                     ready.micro_batch == action.micro_batch && ready.instruction == at);
              }
            }
          }
        }
        EXPECT_TRUE(std::all_of(begun.begin(), begun.end(), [](bool one) { return one; }));
      }
    }
  }
}

TEST(Overlap, the_trace_shows_sums_that_begin_before_the_backward_pass_ends) {
  const MadeSamples source(32, {});
  TrainOptions options = options_for(plans().front(), false, true);
  options.trace_steps = 1;
  auto world = local_world(2, Transport::kShm, 65536);
  Timeline timeline;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const auto backend = open_backend("cpu", {.threads = 1});
      Trainer trainer(options, *backend, *world[rank]);
      trainer.run(source, nullptr, {});
      Timeline all = trainer.gather_trace();
      if (rank == 0) timeline = std::move(all);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  std::map<int, double> backward_ends;
  for (const Span& span : timeline.spans) {
    if (span.category == "backward") {
      backward_ends[span.rank] = std::max(backward_ends[span.rank], span.end_s);
    }
  }
  std::map<int, int> early;
  for (const Span& span : timeline.spans) {
    if (span.lane == "buckets" && span.begin_s < backward_ends[span.rank]) ++early[span.rank];
  }
  EXPECT_GE(early[0], 1);
  EXPECT_GE(early[1], 1);
}

}  // namespace
}  // namespace hethub

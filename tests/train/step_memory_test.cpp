// A steady step takes nothing from the heap: not our code, not the matrix library.

#include <atomic>
#include <cstdlib>
#include <new>

#include <gtest/gtest.h>

#include "tests/train/thread_ranks.h"

namespace {

std::atomic<bool> counting = false;
std::atomic<std::int64_t> allocations = 0;

}  // namespace

extern "C" {

void* __libc_malloc(std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);

void* malloc(std::size_t size) {
  if (counting) ++allocations;
  return __libc_malloc(size);
}

int posix_memalign(void** out, std::size_t alignment, std::size_t size) {
  if (counting) ++allocations;
  *out = __libc_memalign(alignment, size);
  return *out == nullptr ? ENOMEM : 0;
}

void* aligned_alloc(std::size_t alignment, std::size_t size) {
  if (counting) ++allocations;
  return __libc_memalign(alignment, size);
}
}

namespace hethub {
namespace {

TEST(Step, the_hook_counts) {
  counting = true;
  const auto before = allocations.load();
  std::free(std::malloc(100));
  counting = false;
  EXPECT_GT(allocations.load(), before);
}

// Ranks take their steps in turn with a barrier between, so that only steps are counted.
void expect_no_allocation(const Plan& plan, const ModelConfig& model) {
  const MadeSamples source(32, {});
  const TrainOptions options{.plan = plan,
                             .model = model,
                             .optimizer = {.schedule = "constant", .total_steps = 9},
                             .steps = 9};
  auto world = local_world(plan.world_size(), Transport::kShm, 65536);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < plan.world_size(); ++rank) {
    threads.emplace_back([&, rank] {
      const auto backend = open_backend("cpu", {.threads = 1});
      Trainer trainer(options, *backend, *world[rank]);
      RankWorker& worker = trainer.worker();
      for (std::int64_t step = 0; step < 3; ++step) {
        worker.run_step(source, step, step + 1);
      }
      worker.world().barrier(worker.deadline());
      counting = true;
      for (std::int64_t step = 3; step < 9; ++step) {
        worker.run_step(source, step, step + 1);
      }
      worker.world().barrier(worker.deadline());
      counting = false;
      worker.world().barrier(worker.deadline());
    });
  }
  allocations = 0;
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(allocations.load(), 0);
}

TEST(Step, allocates_nothing_once_it_is_warm) {
  Plan plan = cpu_plan(32, {two_stages(0, 1, 2, 1), replica(2, 2, 1)});
  plan.overlap = true;
  plan.bucket_bytes = 1 << 16;
  expect_no_allocation(plan, small_model(true));
}

TEST(Step, allocates_nothing_for_tensor_parallel_groups) {
  Pipeline pipeline = two_stages(0, 2, 2, 1);
  pipeline.stages[0].ranks = {0, 1};
  pipeline.stages[0].tensor_parallel = 2;
  pipeline.stages[1].ranks = {2};
  for (const bool sequence : {false, true}) {
    Plan plan = cpu_plan(32, {pipeline});
    plan.sequence_parallel = sequence;
    expect_no_allocation(plan, small_model(true));
  }
}

// The arena's guards are filled with a pattern that a step must leave as it is.
TEST(Step, writes_nothing_outside_its_values) {
  constexpr std::int64_t kGuard = 256;
  const ModelConfig model = small_model(true);
  const Plan plan = cpu_plan(32, {replica(0, 2, 2)});
  const auto segments = segments_of(plan, model);
  const RankPlan rank = make_rank_plan(plan, model, segments, 0, {.guard_bytes = kGuard});
  const auto backend = open_backend("cpu", {.threads = 1});
  RankDevice device(*backend, rank);
  std::vector<bool> owned(static_cast<std::size_t>(rank.memory.arena_bytes), false);
  const auto mark = [&](std::int64_t offset, std::int64_t bytes) {
    std::fill_n(owned.begin() + offset, bytes, true);
  };
  for (std::size_t value = 0; value < rank.programs.front().values.size(); ++value) {
    for (int mb = 0; mb < 2; ++mb) {
      mark(rank.memory.offset_of(0, static_cast<int>(value), mb),
           rank.programs.front().values[value].spec.bytes());
    }
  }
  for (int phase = 0; phase < kPhases; ++phase) {
    const auto& list = rank.programs.front().phase(static_cast<Phase>(phase));
    for (std::size_t index = 0; index < list.size(); ++index) {
      const std::int64_t bytes = facts_of(list[index].op).workspace_bytes;
      for (int mb = 0; bytes > 0 && mb < 2; ++mb) {
        mark(rank.memory.workspace_of(0, static_cast<Phase>(phase), static_cast<int>(index), mb),
             bytes);
      }
    }
  }
  for (const ArenaRange& range : {rank.first_moment, rank.second_moment, rank.scalars,
                                  rank.square_sums, rank.check_sums, rank.scratch}) {
    mark(range.offset, range.bytes);
  }
  for (const StepOp& op : rank.norm_ops) {
    mark(op.workspace.offset, op.workspace.bytes);
  }
  mark(rank.gradients.offset, rank.gradients.bytes);
  std::byte* arena = device.view(ArenaRange{0, rank.memory.arena_bytes}).buffer->host_data();
  std::int64_t guards = 0;
  for (std::int64_t at = 0; at < rank.memory.arena_bytes; ++at) {
    if (owned[at]) continue;
    arena[at] = std::byte{0xA5};
    ++guards;
  }
  ASSERT_GT(guards, kGuard * 20);
  for (int mb = 0; mb < 2; ++mb) {
    device.run(0, Phase::kForward, mb);
    device.run(0, Phase::kBackward, mb);
  }
  device.run(device.norm_ops());
  device.run(device.update_ops());
  device.run(device.zero_ops());
  device.synchronize(std::chrono::steady_clock::now() + std::chrono::seconds(60));
  for (std::int64_t at = 0; at < rank.memory.arena_bytes; ++at) {
    ASSERT_TRUE(owned[at] || arena[at] == std::byte{0xA5}) << "at " << at;
  }
}

}  // namespace
}  // namespace hethub

#include "hethub/program/memory.h"

#include <algorithm>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "hethub/program/differentiate.h"
#include "hethub/program/packing.h"
#include "tests/program/small_program.h"

namespace hethub {
namespace {

// `lanes` micro-batches forward, then each one's backward and the next one's forward, as 1F1B.
std::vector<ProgramUse> uses_with(int lanes, int micro_batches) {
  std::vector<ProgramUse> uses;
  for (int mb = 0; mb < micro_batches; ++mb) {
    const int forward = mb < lanes ? mb : lanes + 2 * (mb - lanes) + 1;
    const int backward = lanes + 2 * std::min(mb, std::max(micro_batches - lanes, 0)) +
                         std::max(0, mb - std::max(micro_batches - lanes, 0));
    uses.push_back({0, mb, forward, backward});
  }
  return uses;
}

struct Cell {
  int value;
  int instance;
};

// Runs the phases of every micro-batch in order of their slots and checks, byte range by byte
// range, that nobody overwrites what somebody will still read. Returns the most bytes alive.
class Replay {
 public:
  Replay(const Program& program, const MemoryPlan& plan) : program_(program), plan_(plan) {}

  void write(int value, int instance) {
    const std::int64_t begin = plan_.offset_of(0, value, instance);
    const std::int64_t end = begin + program_.values[value].spec.bytes();
    ASSERT_LE(end, plan_.arena_bytes);
    std::erase_if(owner_, [&](const auto& entry) {
      const auto& [at, range] = entry;
      return at < end && range.first > begin;
    });
    owner_[begin] = {end, {value, instance}};
  }

  void read(int value, int instance) {
    const auto found = owner_.find(plan_.offset_of(0, value, instance));
    ASSERT_NE(found, owner_.end()) << program_.values[value].name << " was overwritten";
    EXPECT_EQ(found->second.second.value, value);
    EXPECT_EQ(found->second.second.instance, instance);
  }

  void run(Phase phase, int instance) {
    if (phase == Phase::kForward) {
      for (const ValueRole role :
           {ValueRole::kInput, ValueRole::kParameter, ValueRole::kConstant}) {
        for (const int value : program_.values_of(role)) {
          if (role == ValueRole::kInput || instance == 0) write(value, instance);
        }
      }
      if (instance == 0) {
        for (const int value : program_.values_of(ValueRole::kGradient)) {
          write(value, instance);
        }
      }
      if (program_.received_activation >= 0) write(program_.received_activation, instance);
    } else if (phase == Phase::kBackward && program_.received_gradient >= 0) {
      read(program_.sent_activation, instance);
      write(program_.received_gradient, instance);
    }
    for (const Instruction& instruction : program_.phase(phase)) {
      for (const int value : instruction.inputs) {
        const bool shared = program_.values[value].role == ValueRole::kParameter ||
                            program_.values[value].role == ValueRole::kConstant ||
                            program_.values[value].role == ValueRole::kGradient;
        read(value, shared ? 0 : instance);
      }
      for (const int value : instruction.outputs) {
        const bool gradient = program_.values[value].role == ValueRole::kGradient;
        write(value, gradient ? 0 : instance);
      }
    }
    if (phase == Phase::kBackward && program_.sent_gradient >= 0) {
      read(program_.sent_gradient, instance);
    }
  }

 private:
  const Program& program_;
  const MemoryPlan& plan_;
  std::map<std::int64_t, std::pair<std::int64_t, Cell>> owner_;
};

void replay(const Program& program, int lanes, int micro_batches) {
  const auto uses = uses_with(lanes, micro_batches);
  const MemoryPlan plan = plan_memory({&program}, uses, {});
  EXPECT_EQ(plan.programs[0].lanes, std::min(lanes, micro_batches));
  std::map<int, std::pair<Phase, int>> slots;
  for (const ProgramUse& use : uses) {
    slots[use.first_slot] = {Phase::kForward, use.instance};
    slots[use.last_slot] = {Phase::kBackward, use.instance};
  }
  ASSERT_EQ(slots.size(), 2 * uses.size());
  Replay run(program, plan);
  for (const auto& [slot, what] : slots) {
    run.run(what.first, what.second);
  }
  EXPECT_LE(plan.arena_bytes, 1.10 * plan.live_bytes);
  EXPECT_GE(plan.arena_bytes, plan.live_bytes);
}

TEST(PlanMemory, nothing_is_overwritten_while_it_is_needed_and_little_is_wasted) {
  for (const int layers : {1, 2, 5}) {
    for (const int lanes : {1, 2, 4}) {
      for (const bool recompute : {false, true}) {
        std::set<int> again;
        for (int layer = 0; recompute && layer < layers; ++layer) {
          again.insert(layer);
        }
        Program whole = small_program(layers, 0);
        differentiate(whole, {.recompute_layers = again});
        replay(whole, lanes, 6);
        Program slice = small_slice(layers);
        differentiate(slice, {.recompute_layers = again});
        replay(slice, lanes, 6);
      }
    }
  }
}

TEST(PlanMemory, recompute_needs_fewer_bytes_for_each_micro_batch_alive) {
  Program keep = small_slice(6);
  Program again = small_slice(6);
  differentiate(keep);
  differentiate(again, {.recompute_layers = {0, 1, 2, 3, 4, 5}});
  const auto uses = uses_with(4, 4);
  EXPECT_LT(plan_memory({&again}, uses, {}).programs[0].lane_bytes,
            plan_memory({&keep}, uses, {}).programs[0].lane_bytes / 3);
}

TEST(PlanMemory, gradients_lie_as_their_parameters_do) {
  Program program = small_program(3, 0);
  differentiate(program);
  const MemoryPlan plan = plan_memory({&program}, uses_with(1, 1), {});
  for (const int parameter : program.values_of(ValueRole::kParameter)) {
    EXPECT_EQ(plan.offset_of(0, program.gradient_of(parameter), 0) - plan.gradients_offset,
              plan.offset_of(0, parameter, 0) - plan.parameters_offset);
  }
}

TEST(PlanMemory, blocks_between_steps_lie_over_the_micro_batches) {
  Program program = small_program(3, 0);
  differentiate(program);
  const auto uses = uses_with(2, 4);
  const MemoryPlan without = plan_memory({&program}, uses, {});
  const MemoryPlan with = plan_memory({&program}, uses, {{"scratch", 1000, true}});
  EXPECT_EQ(with.arena_bytes, without.arena_bytes);
  const MemoryPlan kept = plan_memory({&program}, uses, {{"state", 1000, false}});
  EXPECT_EQ(kept.arena_bytes, without.arena_bytes + aligned(1000));
}

TEST(Pack, intervals_alive_at_once_never_overlap) {
  std::uint32_t state = 1;
  const auto random = [&](int below) {
    state = state * 1664525 + 1013904223;
    return static_cast<int>((state >> 8) % static_cast<std::uint32_t>(below));
  };
  for (int round = 0; round < 200; ++round) {
    std::vector<Interval> intervals;
    for (int index = 0; index < 30; ++index) {
      const int first = random(20);
      intervals.push_back({1 + random(100), first, first + random(8)});
    }
    const Packing packing = pack(intervals);
    for (std::size_t a = 0; a < intervals.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        const bool together =
            intervals[a].first <= intervals[b].last && intervals[b].first <= intervals[a].last;
        const bool overlap = packing.offsets[a] < packing.offsets[b] + intervals[b].bytes &&
                             packing.offsets[b] < packing.offsets[a] + intervals[a].bytes;
        EXPECT_FALSE(together && overlap);
      }
    }
    EXPECT_GE(packing.end, most_alive(intervals));
  }
}

}  // namespace
}  // namespace hethub

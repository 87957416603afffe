#include "hethub/program/memory.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "hethub/base/error.h"
#include "hethub/program/packing.h"

namespace hethub {
namespace {

// Moments of one micro-batch in one program: 0 before forward, 1.. its instructions, then a
// boundary during which other micro-batches run, the backward instructions, a boundary, and so on.
struct Moments {
  std::array<int, kPhases> first = {};     // of each phase's first instruction
  std::array<int, kPhases> boundary = {};  // after each phase

  explicit Moments(const Program& program) {
    int moment = 1;
    for (int phase = 0; phase < kPhases; ++phase) {
      first[phase] = moment;
      moment += static_cast<int>(program.phase(static_cast<Phase>(phase)).size());
      boundary[phase] = moment++;
    }
  }
  int end() const { return boundary[kPhases - 1]; }
};

struct Life {
  int first = std::numeric_limits<int>::max();
  int last = -1;
};

bool is_persistent(ValueRole role) {
  return role == ValueRole::kParameter || role == ValueRole::kGradient ||
         role == ValueRole::kCopy || role == ValueRole::kConstant;
}

// Lays out the values of one program that live within one micro-batch.
class InstancePlanner {
 public:
  InstancePlanner(const Program& program, const MemoryOptions& options)
      : program_(program), options_(options), moments_(program), lives_(program.values.size()) {
    place_.values.resize(program.values.size());
    root_.resize(program.values.size());
    for (std::size_t value = 0; value < root_.size(); ++value) {
      root_[value] = static_cast<int>(value);
    }
    find_lives();
    share_memory();
  }

  void run() {
    collect();
    const Packing lane = pack(crossing_);
    place_.lane_bytes = lane.end;
    const Packing rest = pack(within_, lane.end, crossing_, lane.offsets);
    for (std::size_t index = 0; index < crossing_.size(); ++index) {
      place_.values[crossing_values_[index]] = {Region::kLane, lane.offsets[index]};
    }
    for (std::size_t index = 0; index < within_.size(); ++index) {
      *within_places_[index] = place_of(rest.offsets[index]);
      shared_bytes_ =
          std::max(shared_bytes_, rest.offsets[index] + within_[index].bytes - place_.lane_bytes);
    }
    for (std::size_t value = 0; value < root_.size(); ++value) {
      if (!is_persistent(program_.values[value].role)) {
        place_.values[value] = place_.values[root_[value]];
      }
    }
  }

  ProgramMemory& place() { return place_; }
  std::int64_t shared_bytes() const { return shared_bytes_; }

  // Most bytes alive at once, with one micro-batch running and `others` between two phases.
  std::int64_t live_bytes(int others) const {
    std::vector<Interval> all = crossing_;
    all.insert(all.end(), within_.begin(), within_.end());
    std::int64_t waiting = 0;
    for (const Interval& interval : crossing_) {
      const int boundary = moments_.boundary[0];
      if (interval.first <= boundary && interval.last >= boundary) waiting += interval.bytes;
    }
    return most_alive(all) + others * waiting;
  }

 private:
  std::int64_t padded(std::int64_t bytes) const { return aligned(bytes + options_.guard_bytes); }

  Place place_of(std::int64_t offset) const {
    if (offset < place_.lane_bytes) return {Region::kLane, offset};
    return {Region::kShared, offset - place_.lane_bytes};
  }

  void touch(int value, int moment) {
    if (value < 0) return;
    lives_[value].first = std::min(lives_[value].first, moment);
    lives_[value].last = std::max(lives_[value].last, moment);
  }

  void find_lives() {
    for (int phase = 0; phase < kPhases; ++phase) {
      int moment = moments_.first[phase];
      for (const Instruction& instruction : program_.phase(static_cast<Phase>(phase))) {
        for (const int value : instruction.inputs) {
          touch(value, moment);
        }
        for (const int value : instruction.outputs) {
          touch(value, moment);
        }
        ++moment;
      }
    }
    for (std::size_t value = 0; value < lives_.size(); ++value) {
      if (program_.values[value].role == ValueRole::kInput) touch(static_cast<int>(value), 0);
    }
    touch(program_.received_activation, 0);
    touch(program_.sent_activation, moments_.boundary[0]);
    touch(program_.received_gradient, moments_.boundary[0]);
    touch(program_.sent_gradient, moments_.end());
    if (program_.losses >= 0) touch(program_.losses, moments_.boundary[0] - 1);
  }

  bool is_sent(int value) const {
    return value == program_.sent_activation || value == program_.sent_gradient;
  }

  // Lets an output take over the memory of an input that nobody needs any more.
  void share_memory() {
    for (int phase = 0; phase < kPhases; ++phase) {
      int moment = moments_.first[phase];
      for (const Instruction& instruction : program_.phase(static_cast<Phase>(phase))) {
        const OpFacts facts = facts_of(instruction.op);
        for (std::size_t index = 0; index < facts.outputs.size(); ++index) {
          const int reused = facts.outputs[index].may_reuse;
          if (reused >= 0) {
            take_over(instruction.outputs[index], instruction.inputs[reused], moment);
          }
        }
        ++moment;
      }
    }
  }

  void take_over(int output, int input, int moment) {
    const ValueRole role = program_.values[input].role;
    const bool may = (role == ValueRole::kTemporary || role == ValueRole::kReceived) &&
                     lives_[input].last == moment && !is_sent(input) && root_[output] == output &&
                     program_.values[input].spec.bytes() == program_.values[output].spec.bytes();
    if (!may) return;
    const int root = root_[input];
    if (merged_last_.empty()) merged_last_.resize(root_.size(), -1);
    if (std::max(merged_last_[root], lives_[root].last) > moment) return;
    root_[output] = root;
    merged_last_[root] = lives_[output].last;
  }

  void collect() {
    for (std::size_t value = 0; value < root_.size(); ++value) {
      const Life& life = lives_[value];
      const bool own = root_[value] == static_cast<int>(value) && life.last >= 0;
      if (!own || is_persistent(program_.values[value].role)) continue;
      const int merged = merged_last_.empty() ? -1 : merged_last_[value];
      const Interval interval{padded(program_.values[value].spec.bytes()), life.first,
                              std::max(life.last, merged)};
      if (crosses(interval)) {
        crossing_.push_back(interval);
        crossing_values_.push_back(static_cast<int>(value));
      } else {
        within_.push_back(interval);
        within_places_.push_back(&place_.values[value]);
      }
    }
    collect_workspaces();
  }

  bool crosses(const Interval& interval) const {
    if (interval.first == 0 || interval.last == moments_.end()) return true;
    return std::any_of(moments_.boundary.begin(), moments_.boundary.end(), [&](int boundary) {
      return interval.first <= boundary && boundary <= interval.last;
    });
  }

  void collect_workspaces() {
    for (int phase = 0; phase < kPhases; ++phase) {
      const auto& list = program_.phase(static_cast<Phase>(phase));
      place_.workspaces[phase].resize(list.size());
      for (std::size_t index = 0; index < list.size(); ++index) {
        const int moment = moments_.first[phase] + static_cast<int>(index);
        const std::int64_t bytes = facts_of(list[index].op).workspace_bytes;
        if (bytes == 0) continue;
        within_.push_back({padded(bytes), moment, moment + end_of_group_op(list, index)});
        within_places_.push_back(&place_.workspaces[phase][index]);
      }
    }
  }

  // How many instructions later the matching GroupWait stands, up to which a group op uses its
  // workspace; 0 for other ops.
  static int end_of_group_op(const std::vector<Instruction>& list, std::size_t index) {
    if (!std::holds_alternative<GroupStart>(list[index].op.body)) return 0;
    const auto wait = std::find_if(list.begin() + static_cast<std::ptrdiff_t>(index), list.end(),
                                   [&](const Instruction& later) {
                                     return std::holds_alternative<GroupWait>(later.op.body) &&
                                            later.inputs == list[index].outputs;
                                   });
    require(wait != list.end(), {.what = list[index].op.name + ": group op",
                                 .found = "a start without a wait",
                                 .expected = "a GroupWait on its output in the same phase",
                                 .fix = "correct the program's builder"});
    return static_cast<int>(wait - list.begin()) - static_cast<int>(index);
  }

  const Program& program_;
  const MemoryOptions& options_;
  Moments moments_;
  std::vector<Life> lives_;
  std::vector<int> root_;         // whose memory a value uses
  std::vector<int> merged_last_;  // of a root: when the last value in its memory dies
  std::vector<Interval> crossing_;
  std::vector<int> crossing_values_;
  std::vector<Interval> within_;
  std::vector<Place*> within_places_;
  ProgramMemory place_;
  std::int64_t shared_bytes_ = 0;
};

// Places what lives for the whole run; returns the bytes it takes.
class PersistentPlanner {
 public:
  PersistentPlanner(const std::vector<const Program*>& programs, MemoryPlan& plan,
                    const MemoryOptions& options)
      : programs_(programs), plan_(plan), options_(options) {}

  std::int64_t run(const std::vector<MemoryBlock>& blocks) {
    plan_.parameters_offset = 0;
    place(ValueRole::kParameter);
    plan_.flat_bytes = end_;
    plan_.gradients_offset = end_;
    place_gradients();
    place(ValueRole::kCopy);
    place(ValueRole::kConstant);
    for (std::size_t index = 0; index < blocks.size(); ++index) {
      if (blocks[index].between_steps) continue;
      plan_.blocks[index] = take(blocks[index].bytes + options_.guard_bytes);
    }
    return end_;
  }

 private:
  std::int64_t take(std::int64_t bytes) {
    const std::int64_t offset = end_;
    end_ += aligned(bytes);
    return offset;
  }

  void place(ValueRole role) {
    for (std::size_t index = 0; index < programs_.size(); ++index) {
      for (const int value : programs_[index]->values_of(role)) {
        plan_.programs[index].values[value] = {Region::kPersistent,
                                               take(programs_[index]->values[value].spec.bytes())};
      }
    }
  }

  // In the order of their parameters; one without a gradient leaves its place free.
  void place_gradients() {
    for (std::size_t index = 0; index < programs_.size(); ++index) {
      auto& places = plan_.programs[index].values;
      for (const int parameter : programs_[index]->values_of(ValueRole::kParameter)) {
        const int gradient = programs_[index]->gradient_of(parameter);
        const int sized = gradient < 0 ? parameter : gradient;
        const std::int64_t offset = take(programs_[index]->values[sized].spec.bytes());
        if (gradient >= 0) places[gradient] = {Region::kPersistent, offset};
      }
    }
    plan_.gradient_bytes = end_ - plan_.gradients_offset;
  }

  const std::vector<const Program*>& programs_;
  MemoryPlan& plan_;
  const MemoryOptions& options_;
  std::int64_t end_ = 0;
};

}  // namespace

LaneUse lanes_of(const std::vector<ProgramUse>& uses, int program) {
  std::vector<ProgramUse> mine;
  for (const ProgramUse& use : uses) {
    if (use.program == program) mine.push_back(use);
  }
  std::stable_sort(mine.begin(), mine.end(), [](const ProgramUse& a, const ProgramUse& b) {
    return a.first_slot < b.first_slot;
  });
  LaneUse made;
  std::vector<int> busy_until;
  for (const ProgramUse& use : mine) {
    const auto free = std::find_if(busy_until.begin(), busy_until.end(),
                                   [&](int last) { return last < use.first_slot; });
    const auto lane = static_cast<int>(free - busy_until.begin());
    if (free == busy_until.end()) busy_until.push_back(0);
    busy_until[lane] = use.last_slot;
    if (use.instance >= std::ssize(made.lane_of_instance)) {
      made.lane_of_instance.resize(use.instance + 1, -1);
    }
    made.lane_of_instance[use.instance] = lane;
  }
  made.lanes = static_cast<int>(busy_until.size());
  return made;
}

std::int64_t MemoryPlan::offset_of(int program, int value, int instance) const {
  const ProgramMemory& memory = programs.at(program);
  const Place& place = memory.values.at(value);
  switch (place.region) {
    case Region::kPersistent:
      return place.offset;
    case Region::kLane:
      return memory.lane_offset + memory.lane_of_instance.at(instance) * memory.lane_bytes +
             place.offset;
    case Region::kShared:
      return shared_offset + place.offset;
  }
  return -1;
}

std::int64_t MemoryPlan::workspace_of(int program, Phase phase, int instruction,
                                      int instance) const {
  const ProgramMemory& memory = programs.at(program);
  const Place& place = memory.workspaces.at(static_cast<std::size_t>(phase)).at(instruction);
  if (place.region == Region::kShared) return shared_offset + place.offset;
  if (place.region == Region::kPersistent) return 0;  // it needs none
  return memory.lane_offset + memory.lane_of_instance.at(instance) * memory.lane_bytes +
         place.offset;
}

MemoryPlan plan_memory(const std::vector<const Program*>& programs,
                       const std::vector<ProgramUse>& uses, const std::vector<MemoryBlock>& blocks,
                       const MemoryOptions& options) {
  MemoryPlan plan{.blocks = std::vector<std::int64_t>(blocks.size(), 0)};
  std::int64_t waiting_and_running = 0;
  std::int64_t running_shared = 0;
  for (std::size_t index = 0; index < programs.size(); ++index) {
    InstancePlanner planner(*programs[index], options);
    planner.run();
    LaneUse lanes = lanes_of(uses, static_cast<int>(index));
    planner.place().lanes = lanes.lanes;
    planner.place().lane_of_instance = std::move(lanes.lane_of_instance);
    waiting_and_running += planner.live_bytes(std::max(planner.place().lanes - 1, 0));
    running_shared = std::max(running_shared, planner.shared_bytes());
    plan.programs.push_back(std::move(planner.place()));
  }
  std::int64_t end = PersistentPlanner(programs, plan, options).run(blocks);
  const std::int64_t persistent = end;
  for (ProgramMemory& memory : plan.programs) {
    memory.lane_offset = end;
    end += memory.lanes * memory.lane_bytes;
  }
  plan.shared_offset = end;
  plan.shared_bytes = running_shared;
  std::int64_t between = 0;
  for (std::size_t index = 0; index < blocks.size(); ++index) {
    if (!blocks[index].between_steps) continue;
    plan.blocks[index] = persistent + between;
    between += aligned(blocks[index].bytes + options.guard_bytes);
  }
  plan.between_bytes = between;
  plan.arena_bytes = std::max(end + running_shared, persistent + between);
  plan.live_bytes = persistent + std::max(waiting_and_running, between);
  return plan;
}

}  // namespace hethub

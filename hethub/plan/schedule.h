#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hethub/program/memory.h"

namespace hethub {

enum class ActionKind : std::uint8_t {
  kForward,
  kBackward,        // input and weight gradients together
  kBackwardInput,   // only the gradient the position before waits for
  kBackwardWeight,  // only the weight gradient, which nobody waits for
  kSendActivation,
  kRecvActivation,
  kSendGradient,
  kRecvGradient,
  kCheckGradients,  // whether this rank's own gradients are numbers, before they are mixed
  kSyncGradients,   // every range's gradient is summed at its owner
  kNormGradients,   // sums of squares of the ranges this rank owns
  kSyncNorm,        // loss, tokens and gradient norm are summed over all ranks
  kUpdate,          // the optimizer, on the ranges this rank owns
  kSyncParameters,  // owners hand the updated ranges to the other holders
};

inline constexpr int kActionKinds = 14;

/// The kind as traces spell it, e.g. "send_activation".
std::string_view name_of(ActionKind kind);

/// The phases of a program that a compute action runs, one after the other; none for others.
std::span<const Phase> phases_of(ActionKind kind);

/// What each worker does once its micro-batches are done, in order: the last six kinds.
std::span<const ActionKind> step_actions();

/// One thing a worker does; the last six kinds are of the step as a whole.
struct Action {
  ActionKind kind = ActionKind::kForward;
  int direction = 0;  ///< 0; bidirectional schedules have a second pipeline, 1
  int position = 0;   ///< slice of the model along that direction
  int micro_batch = 0;
  int weight_version = 0;  ///< 0 in synchronous schedules

  bool is_send() const;
  bool is_recv() const;
  bool is_compute() const;   ///< forward or any backward
  bool is_transfer() const;  ///< data goes from rank to rank: drawn in the lane "comm"
  friend auto operator<=>(const Action&, const Action&) = default;
};

/// "forward 3", "send_activation 3", "update": the name of the action's span in every trace.
std::string name_of(const Action& action);

/// Which of a rank's lanes the action is drawn in, in every trace: "compute" or "comm".
std::string_view lane_of(const Action& action);

/// How every trace shows an action.
struct ActionLabel {
  std::string_view lane = {};
  std::string name = {};
  std::string_view category = {};
};
ActionLabel label_of(const Action& action);

/// A pipeline schedule written down: for every worker (a stage), what it does in a step, in order.
///
/// Sends never wait; a receive waits for the one send that matches it. That is the same rule the
/// steps of a CollectiveAlgorithm obey. `train` runs this object, `predict` prices it.
struct Schedule {
  std::string name = {};  ///< as plans spell it: "1f1b"
  int micro_batches = 0;
  std::vector<std::vector<int>> worker_of = {};   ///< worker_of[direction][position]
  std::vector<std::vector<Action>> actions = {};  ///< actions[worker]

  int workers() const { return static_cast<int>(actions.size()); }
  int positions() const { return static_cast<int>(worker_of.at(0).size()); }

  /// Whether weight gradients are actions of their own, so that programs must be split for them.
  bool splits_backward() const;
};

/// An action together with the worker that performs it.
struct WorkerAction {
  int worker = 0;
  Action action = {};

  friend auto operator<=>(const WorkerAction&, const WorkerAction&) = default;
};

/// Throws kInvalidArgument, naming the schedule, if `stages` or `micro_batches` < 1.
void require_shape(std::string_view schedule, int stages, int micro_batches);

/// The far end of a message: the receive that matches a send, or the send that matches a receive,
/// at the position before or after. Any other action is its own far end.
WorkerAction far_end(const Schedule& schedule, const Action& near);

/// One forward, one backward. Stage s of p holds at most p - s micro-batches of activations.
/// Source: Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN Training", ICML 2021.
/// Throws kInvalidArgument if `stages` or `micro_batches` < 1.
Schedule one_forward_one_backward(int stages, int micro_batches);

/// All forwards, then all backwards. Simple, and holds every micro-batch's activations at once.
/// Source: Huang et al., "GPipe", NeurIPS 2019. Throws like one_forward_one_backward.
Schedule gpipe(int stages, int micro_batches);

/// Every micro-batch forward, in the order of `schedule`, and nothing else: an evaluation.
Schedule forward_only(Schedule schedule);

/// What a schedule is made for.
struct ScheduleShape {
  int stages = 1;
  int micro_batches = 1;
  int ranges = 1;  ///< of layers on each stage: its virtual stages
};

/// A schedule a plan can name.
struct ScheduleEntry {
  std::string_view name = {};
  Schedule (*make)(const ScheduleShape& shape);
  /// Micro-batches alive at once on the first stage, of which no other has more: the lanes that
  /// lanes_of finds there. Null: not known before the schedule is written down.
  int (*most_alive)(const ScheduleShape& shape) = nullptr;
  bool virtual_stages = false;  ///< whether stages may have several ranges of layers
  bool (*fits)(const ScheduleShape& shape) = [](const ScheduleShape&) { return true; };
  std::string_view needs = {};  ///< what a shape must be to fit, in words
};

/// Every known schedule; adding one is a generator and a row.
const std::vector<ScheduleEntry>& all_schedules();

/// The row of that name. Throws kInvalidPlan, listing the names there are.
const ScheduleEntry& schedule_entry(std::string_view name);

/// The schedule of that name. Throws like schedule_entry, and what the
/// schedule throws for the shape.
Schedule make_schedule(std::string_view name, const ScheduleShape& shape);

/// From when to when each micro-batch is alive on a worker, in positions of its list of actions:
/// from the first action on it to the last. One row per position that the worker holds and per
/// micro-batch; `program` counts those positions, ascending.
std::vector<ProgramUse> uses_of(const Schedule& schedule, int worker);

}  // namespace hethub

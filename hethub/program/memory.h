#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "hethub/program/program.h"

namespace hethub {

/// One micro-batch's life in one program, in slots of the rank's list of actions: from the slot in
/// which its input arrives to the last slot that touches what it made.
struct ProgramUse {
  int program = 0;
  int instance = 0;  ///< numbered from 0 within the program: the micro-batch
  int first_slot = 0;
  int last_slot = 0;
};

/// Memory that no program names: optimizer state, a collective's scratch.
struct MemoryBlock {
  std::string name = {};
  std::int64_t bytes = 0;
  bool between_steps = false;  ///< needed only while no micro-batch is alive: may lie over theirs
};

/// Which part of the arena an offset counts from.
enum class Region : std::uint8_t {
  kPersistent,  ///< from the arena's start: parameters, gradients, copies, constants
  kLane,        ///< from the start of the micro-batch's lane: what lives from phase to phase
  kShared,      ///< from the start of the shared region: what lives within one phase
};

struct Place {
  Region region = Region::kPersistent;
  std::int64_t offset = 0;
};

/// The places of one program's values and workspaces.
struct ProgramMemory {
  std::vector<Place> values = {};                           ///< by value
  std::array<std::vector<Place>, kPhases> workspaces = {};  ///< by phase, by instruction
  std::int64_t lane_offset = 0;                             ///< of lane 0, in the arena
  std::int64_t lane_bytes = 0;
  int lanes = 0;
  std::vector<int> lane_of_instance = {};
};

/// Where everything of one rank lies in its one arena. Its size is what is allocated and what the
/// predictor reports: nothing else is allocated in a step.
///
/// Layout: parameters of all programs, then their gradients (both flat and in the same order; a
/// gradient may be a part of its parameter's), copies, constants, blocks; then each program's
/// lanes; then the shared region. Micro-batches alive at once have a lane each; the shared region
/// serves the one action that runs.
struct MemoryPlan {
  std::int64_t arena_bytes = 0;
  std::int64_t parameters_offset = 0;
  std::int64_t gradients_offset = 0;
  std::int64_t flat_bytes = 0;      ///< of the parameters, each padded to 256 bytes
  std::int64_t gradient_bytes = 0;  ///< of the gradients, likewise
  std::int64_t shared_offset = 0;
  std::int64_t shared_bytes = 0;
  std::int64_t between_bytes = 0;  ///< of the blocks between steps, from where the lanes begin
  std::int64_t live_bytes = 0;     ///< the largest sum of bytes alive at one moment
  std::vector<ProgramMemory> programs = {};
  std::vector<std::int64_t> blocks = {};  ///< offset of each MemoryBlock

  /// Offset in the arena of a value of one micro-batch.
  std::int64_t offset_of(int program, int value, int instance) const;

  /// Offset in the arena of an instruction's workspace.
  std::int64_t workspace_of(int program, Phase phase, int instruction, int instance) const;
};

struct MemoryOptions {
  std::int64_t guard_bytes = 0;  ///< left free after every value but parameters and gradients,
                                 ///< which lie flat: for sentinels in tests
};

inline constexpr std::int64_t kMemoryAlignment = 256;

/// `bytes` rounded up to the alignment of every value.
constexpr std::int64_t aligned(std::int64_t bytes) {
  return (bytes + kMemoryAlignment - 1) / kMemoryAlignment * kMemoryAlignment;
}

/// How one program's micro-batches share its lanes.
struct LaneUse {
  int lanes = 0;
  std::vector<int> lane_of_instance = {};  ///< -1 for an instance without a use
};

/// Gives each micro-batch of `program` the lowest lane that is free for all of its life: as many
/// lanes as micro-batches are alive at once.
LaneUse lanes_of(const std::vector<ProgramUse>& uses, int program);

/// Lays out a rank's memory. `uses` come from its schedule; an instance without one gets no lane.
MemoryPlan plan_memory(const std::vector<const Program*>& programs,
                       const std::vector<ProgramUse>& uses, const std::vector<MemoryBlock>& blocks,
                       const MemoryOptions& options = {});

}  // namespace hethub

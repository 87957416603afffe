#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace hethub {

/// "step-00000020": the folder of a committed checkpoint. While it is written it has ".tmp" behind
/// its name, and ".old" while one that replaces it is renamed into place.
std::string step_folder_name(std::int64_t step);

/// A folder of a run's checkpoints, and its step.
struct FoundCheckpoint {
  std::int64_t step = 0;
  std::filesystem::path folder = {};
};

/// A folder that bears a checkpoint's final name and is none, and why.
struct BrokenCheckpoint {
  std::int64_t step = 0;
  std::filesystem::path folder = {};
  std::string fault = {};
};

/// The checkpoints of a run.
struct CheckpointList {
  std::vector<FoundCheckpoint> complete = {};  ///< newest first
  /// One line for each folder that was passed over, newest first:
  /// "ignored step-20: incomplete (no COMMIT)".
  std::vector<std::string> ignored = {};
  std::vector<BrokenCheckpoint> broken = {};    ///< of these, those that had been committed
  std::vector<FoundCheckpoint> left_over = {};  ///< what interrupted saves left; no reader uses it
};

/// What is in `dir`; nothing if there is no such folder. Complete means committed, with every shard
/// there in its full size; checksums are not read.
CheckpointList list_checkpoints(const std::filesystem::path& dir);

/// The newest complete checkpoint of `dir`, if there is one, and what was passed over.
struct LatestCheckpoint {
  std::optional<FoundCheckpoint> found = {};
  std::vector<std::string> ignored = {};
};
LatestCheckpoint find_latest(const std::filesystem::path& dir);

/// The folder that a user means by `path`: a checkpoint ("runs/a/step-20", "step-00000020"), or the
/// folder of a run, whose newest is taken. Throws kMissingInput if there is none, kCorruptData
/// "incomplete (no COMMIT)" if the one that was named was never committed.
std::filesystem::path resolve_checkpoint(const std::filesystem::path& path);

}  // namespace hethub

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace hethub {

/// A step's folder, and what is wrong with it.
struct CheckedCheckpoint {
  std::int64_t step = 0;
  std::filesystem::path folder = {};
  std::int64_t shards = 0;               ///< 0: it could not be opened
  std::vector<std::string> faults = {};  ///< empty: it is as it was written

  bool good() const { return faults.empty(); }
};

/// Opens a step's folder and compares every shard with its checksum. What is wrong with the
/// checkpoint is a fault, not an error; what keeps it from being read is one.
CheckedCheckpoint check_checkpoint(std::int64_t step, const std::filesystem::path& folder);

/// The checkpoint that `path` names; or, if it is the folder of a run, that run's from the newest
/// on down to the first good one. What a save left that never had its final name is not looked at:
/// no save has called it a checkpoint. Throws what resolve_checkpoint throws.
std::vector<CheckedCheckpoint> check_checkpoints(const std::filesystem::path& path);

}  // namespace hethub

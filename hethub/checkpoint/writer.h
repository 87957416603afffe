#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "hethub/checkpoint/manifest.h"

// Saving, over any number of ranks: each writes the ranges it owns with write_shard, sends the
// record it gets (as text) to one rank, and that one commits. Nothing is communicated in here. All
// ranks must see one folder.

namespace hethub {

/// Elements [first, first + count) of a tensor in the order it is stored in, which this rank alone
/// writes. All ranks store a tensor in one order.
struct OwnedRange {
  LogicalTensor tensor = {};
  ElementOrder order = ElementOrder::kRows;
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// Copies elements [first, first + count) of the tensor of ranges[range] into `out`, in its order.
using FetchElements = std::function<void(std::size_t range, std::int64_t first, std::int64_t count,
                                         std::span<std::byte> out)>;

struct ShardOptions {
  std::int64_t staging_bytes = std::int64_t{4} << 20;  ///< memory used besides the tensors
  /// Called whenever bytes were handed to the file; what it throws ends the save as a kill would.
  std::function<void(std::int64_t written, std::int64_t total)> after_bytes = {};
};

/// Which shard of which checkpoint.
struct ShardPlace {
  std::filesystem::path dir = {};  ///< the run's checkpoint folder; created if it is not there
  std::int64_t step = 0;
  int rank = 0;
};

/// Writes this rank's shard into the temporary folder of the step and waits until it is on the
/// disk. Ranges without elements are left out. Throws kCannotWrite and whatever `fetch` throws;
/// the temporary folder is then ignored by readers and replaced by the next save.
ShardRecord write_shard(const ShardPlace& place, const std::vector<OwnedRange>& ranges,
                        const FetchElements& fetch, const ShardOptions& options = {});

struct CommitOptions {
  int keep_last = 2;  ///< complete checkpoints kept, this one included; at least 1
  /// Called after each action that a kill could follow ("manifest", "set aside", "rename",
  /// "remove"); what it throws ends the commit there.
  std::function<void(std::string_view action)> after = {};
};

/// Makes the step's checkpoint of what all ranks wrote: checks that the shards are there and that
/// the pieces cover every one of `tensors` exactly once and nothing else, writes the manifest,
/// renames the folder (the commit) and only then removes older checkpoints. Newer ones, of a run
/// that was resumed before them, are left alone. A kill at any moment leaves the last good one.
/// Throws kInternal if a range was written by nobody or twice, kCannotWrite otherwise.
/// Returns the committed folder.
std::filesystem::path commit_checkpoint(const std::filesystem::path& dir,
                                        const CheckpointFacts& facts,
                                        const std::vector<LogicalTensor>& tensors,
                                        const std::vector<ShardRecord>& records,
                                        const CommitOptions& options = {});

}  // namespace hethub

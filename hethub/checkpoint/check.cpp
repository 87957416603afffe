#include "hethub/checkpoint/check.h"

#include <algorithm>

#include "hethub/base/error.h"
#include "hethub/checkpoint/folder.h"
#include "hethub/checkpoint/reader.h"

namespace hethub {

CheckedCheckpoint check_checkpoint(std::int64_t step, const std::filesystem::path& folder) {
  CheckedCheckpoint checked{.step = step, .folder = folder};
  try {
    const Checkpoint checkpoint = Checkpoint::open(folder);
    checked.step = checkpoint.facts().step;
    checked.shards = std::ssize(checkpoint.manifest().files);
    checked.faults = checkpoint.verify();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCorruptData) throw;
    checked.faults.emplace_back(error.what());
  }
  return checked;
}

std::vector<CheckedCheckpoint> check_checkpoints(const std::filesystem::path& path) {
  std::error_code error;
  CheckpointList list;
  if (!std::filesystem::exists(path / kManifestName, error)) list = list_checkpoints(path);
  if (list.complete.empty() && list.broken.empty()) {
    return {check_checkpoint(0, resolve_checkpoint(path))};
  }
  std::vector<CheckedCheckpoint> checked;
  for (const BrokenCheckpoint& broken : list.broken) {
    checked.push_back({.step = broken.step, .folder = broken.folder, .faults = {broken.fault}});
  }
  for (const FoundCheckpoint& found : list.complete) {
    checked.push_back(check_checkpoint(found.step, found.folder));
    if (checked.back().good()) break;
  }
  std::stable_sort(checked.begin(), checked.end(),
                   [](const auto& a, const auto& b) { return a.step > b.step; });
  const auto good = std::find_if(checked.begin(), checked.end(),
                                 [](const CheckedCheckpoint& one) { return one.good(); });
  if (good != checked.end()) checked.erase(good + 1, checked.end());
  return checked;
}

}  // namespace hethub

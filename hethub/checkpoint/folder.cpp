#include "hethub/checkpoint/folder.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>

#include "hethub/base/error.h"
#include "hethub/base/files.h"
#include "hethub/checkpoint/manifest.h"

namespace hethub {
namespace {

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kIncomplete = "incomplete (no COMMIT)";

// A folder's name taken apart: "step-00000020.tmp" is 20 and ".tmp".
struct StepName {
  std::int64_t step = 0;
  std::string suffix = {};
};

std::optional<StepName> parse_step(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  StepName result;
  const auto [rest, error] = std::from_chars(name.data(), name.data() + name.size(), result.step);
  if (error != std::errc{} || result.step < 0) return std::nullopt;
  result.suffix = std::string(rest, name.data() + name.size());
  const bool known = result.suffix.empty() || result.suffix == ".tmp" || result.suffix == ".old";
  if (!known) return std::nullopt;
  return result;
}

// Why `folder` is not a complete checkpoint; empty if it is one.
std::string fault_of(const std::filesystem::path& folder) {
  const auto manifest_file = folder / kManifestName;
  std::error_code error;
  if (!std::filesystem::exists(manifest_file, error)) return std::string(kIncomplete);
  try {
    const Manifest manifest = manifest_from(read_file(manifest_file), manifest_file.string());
    for (const ShardFile& file : manifest.files) {
      const auto size = std::filesystem::file_size(folder / file.name, error);
      if (error) return text("no ", file.name);
      if (static_cast<std::int64_t>(size) != file.bytes) {
        return text(file.name, " has ", size, " of ", file.bytes, " bytes");
      }
    }
  } catch (const Error& fault) {
    return fault.what();
  }
  return "";
}

}  // namespace

std::string step_folder_name(std::int64_t step) {
  std::string digits = std::to_string(step);
  digits.insert(0, digits.size() < 8 ? 8 - digits.size() : 0, '0');
  return std::string(kPrefix) + digits;
}

CheckpointList list_checkpoints(const std::filesystem::path& dir) {
  std::map<std::int64_t, std::vector<std::pair<std::string, std::filesystem::path>>> steps;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(dir, error), end; !error && entry != end;
       entry.increment(error)) {
    const auto name = parse_step(entry->path().filename().string());
    if (name) steps[name->step].emplace_back(name->suffix, entry->path());
  }
  CheckpointList list;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    std::sort(step->second.begin(), step->second.end());  // "" before ".old" before ".tmp"
    std::string fault;
    bool complete = false;
    for (const auto& [suffix, folder] : step->second) {
      const FoundCheckpoint here = {.step = step->first, .folder = folder};
      if (suffix == ".tmp" || complete) list.left_over.push_back(here);
      if (complete) continue;
      const std::string found = suffix == ".tmp" ? std::string(kIncomplete) : fault_of(folder);
      if (found.empty()) {
        list.complete.push_back(here);
        complete = true;
      }
      if (fault.empty()) fault = found;
    }
    if (complete) continue;
    list.ignored.push_back(text("ignored step-", step->first, ": ", fault));
    const auto& [suffix, folder] = step->second.front();
    if (suffix == ".tmp") continue;
    list.broken.push_back({.step = step->first, .folder = folder, .fault = fault});
  }
  return list;
}

LatestCheckpoint find_latest(const std::filesystem::path& dir) {
  CheckpointList list = list_checkpoints(dir);
  LatestCheckpoint latest = {.ignored = std::move(list.ignored)};
  if (!list.complete.empty()) latest.found = list.complete.front();
  return latest;
}

std::filesystem::path resolve_checkpoint(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::exists(path / kManifestName, error)) return path;
  const std::filesystem::path trimmed = path.has_filename() ? path : path.parent_path();
  if (const auto name = parse_step(trimmed.filename().string())) {
    const auto run = trimmed.has_parent_path() ? trimmed.parent_path() : ".";
    const CheckpointList list = list_checkpoints(run);
    for (const FoundCheckpoint& found : list.complete) {
      if (found.step == name->step) return found.folder;
    }
    const std::string start = text("ignored step-", name->step, ": ");
    for (const std::string& ignored : list.ignored) {
      if (!ignored.starts_with(start)) continue;
      throw Error(ErrorCode::kCorruptData, {.what = path.string(),
                                            .found = "it " + ignored.substr(start.size()),
                                            .expected = "a checkpoint that was committed",
                                            .fix = "resume an earlier step, or --resume auto"});
    }
  }
  const LatestCheckpoint latest = find_latest(path);
  if (latest.found) return latest.found->folder;
  throw Error(ErrorCode::kMissingInput, {.what = path.string(),
                                         .found = "no complete checkpoint",
                                         .expected = "step-N with a manifest.json, or its folder",
                                         .fix = "name the folder given as --checkpoint-dir"});
}

}  // namespace hethub

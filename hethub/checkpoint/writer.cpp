#include "hethub/checkpoint/writer.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "hethub/base/error.h"
#include "hethub/base/files.h"
#include "hethub/checkpoint/folder.h"
#include "hethub/checkpoint/safetensors_writer.h"

namespace hethub {
namespace {

[[noreturn]] void cannot_write(const std::filesystem::path& what, std::string found,
                               std::string expected, std::string fix) {
  throw Error(ErrorCode::kCannotWrite, {.what = what.string(),
                                        .found = std::move(found),
                                        .expected = std::move(expected),
                                        .fix = std::move(fix)});
}

std::filesystem::path temporary_folder(const std::filesystem::path& dir, std::int64_t step) {
  return dir / (step_folder_name(step) + ".tmp");
}

std::string stored_name(const OwnedRange& range) {
  return text(name_of(range.tensor.role), ":", range.tensor.name, "[", range.first, ":",
              range.first + range.count, "]");
}

void rename_folder(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::error_code error;
  std::filesystem::rename(from, to, error);
  if (error) cannot_write(to, error.message(), "to rename a folder to it", "check its rights");
}

void remove_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  if (error) cannot_write(folder, error.message(), "to remove it", "check its rights");
}

// The tensors as asked for, each with the pieces that the ranks reported.
std::vector<StoredTensor> gathered(const std::vector<LogicalTensor>& tensors,
                                   const std::vector<ShardRecord>& records) {
  std::vector<StoredTensor> result;
  std::map<std::pair<std::string, TensorRole>, std::size_t> index;
  for (const LogicalTensor& tensor : tensors) {
    index.emplace(std::pair(tensor.name, tensor.role), result.size());
    result.push_back({.tensor = tensor});
  }
  for (const ShardRecord& record : records) {
    for (const StoredTensor& part : record.tensors) {
      const auto found = index.find({part.tensor.name, part.tensor.role});
      if (found == index.end() || result[found->second].tensor != part.tensor) {
        throw Error(
            ErrorCode::kInternal,
            {.what = text("checkpoint: ", record.file.name),
             .found = label_of(part.tensor) + (found == index.end() ? ", which the model lacks"
                                                                    : " of another shape or type"),
             .expected = "tensors of the model",
             .fix = "report this as a bug of hethub"});
      }
      StoredTensor& whole = result[found->second];
      require(whole.pieces.empty() || whole.order == part.order,
              {.what = text("checkpoint: ", label_of(part.tensor)),
               .found = "pieces in two orders",
               .expected = "one on all ranks",
               .fix = "report this as a bug of hethub"});
      whole.order = part.order;
      auto& pieces = whole.pieces;
      pieces.insert(pieces.end(), part.pieces.begin(), part.pieces.end());
    }
  }
  return result;
}

// Every shard is there in full size; what an earlier, interrupted save left is removed.
void check_shards(const std::filesystem::path& folder, const std::vector<ShardFile>& files) {
  std::set<std::string> expected;
  for (const ShardFile& file : files) {
    std::error_code error;
    const auto size = std::filesystem::file_size(folder / file.name, error);
    if (error || static_cast<std::int64_t>(size) != file.bytes) {
      cannot_write(folder / file.name, error ? error.message() : text(size, " bytes"),
                   text(file.bytes, " bytes, as its rank wrote"),
                   "give every rank the same folder, on storage that all nodes share");
    }
    expected.insert(file.name);
  }
  std::vector<std::filesystem::path> left_over;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (!expected.contains(entry.path().filename().string())) left_over.push_back(entry.path());
  }
  for (const auto& path : left_over) {
    remove_folder(path);
  }
}

// Removes what is older than `step`: all but the newest `keep` complete ones, and what interrupted
// saves left. A folder loses its
// name before its files, so that a kill on the way leaves nothing that looks complete.
void remove_older(const std::filesystem::path& dir, std::int64_t step, int keep,
                  const std::function<void(std::string_view)>& after) {
  const CheckpointList list = list_checkpoints(dir);
  for (const FoundCheckpoint& found : list.left_over) {
    if (found.step < step) remove_folder(found.folder);
  }
  for (const FoundCheckpoint& found : list.complete) {
    if (found.step >= step || keep-- > 0) continue;
    const auto gone = temporary_folder(dir, found.step);
    remove_folder(gone);
    rename_folder(found.folder, gone);
    after("remove");
    remove_folder(gone);
  }
}

}  // namespace

ShardRecord write_shard(const ShardPlace& place, const std::vector<OwnedRange>& ranges,
                        const FetchElements& fetch, const ShardOptions& options) {
  const auto folder = temporary_folder(place.dir, place.step);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) cannot_write(folder, error.message(), "to create it", "check its rights");
  ShardRecord record = {.file = {.name = text("shard-", place.rank, ".safetensors")}};
  std::vector<SafetensorsTensor> declared;
  std::map<std::string, std::size_t> range_of;
  std::int64_t total = 0;
  for (std::size_t index = 0; index < ranges.size(); ++index) {
    const OwnedRange& range = ranges[index];
    if (range.count == 0) continue;
    const std::string name = stored_name(range);
    declared.push_back({.name = name, .dtype = range.tensor.dtype, .shape = {range.count}});
    range_of.emplace(name, index);
    total += range.count * size_of(range.tensor.dtype);
    record.tensors.push_back({.tensor = range.tensor,
                              .order = range.order,
                              .pieces = {{.first = range.first,
                                          .count = range.count,
                                          .file = record.file.name,
                                          .stored_name = name}}});
  }
  SafetensorsWriter writer(folder / record.file.name, declared);
  std::vector<std::byte> staging;
  std::int64_t written = 0;
  for (const SafetensorsEntry& entry : writer.entries()) {
    const std::size_t index = range_of.at(entry.name);
    const OwnedRange& range = ranges[index];
    const std::int64_t bytes = size_of(range.tensor.dtype);
    const std::int64_t most = std::max<std::int64_t>(1, options.staging_bytes / bytes);
    for (std::int64_t done = 0; done < range.count;) {
      const std::int64_t count = std::min(most, range.count - done);
      staging.resize(static_cast<std::size_t>(count * bytes));
      fetch(index, range.first + done, count, staging);
      writer.append(entry.name, staging);
      done += count;
      written += count * bytes;
      if (options.after_bytes) options.after_bytes(written, total);
    }
  }
  const WrittenFile file = writer.finish();
  sync_folder(folder);
  record.file.bytes = file.bytes;
  record.file.checksum = file.checksum;
  return record;
}

std::filesystem::path commit_checkpoint(const std::filesystem::path& dir,
                                        const CheckpointFacts& facts,
                                        const std::vector<LogicalTensor>& tensors,
                                        const std::vector<ShardRecord>& records,
                                        const CommitOptions& options) {
  require(options.keep_last >= 1, {.what = "checkpoint: keep_last",
                                   .found = std::to_string(options.keep_last),
                                   .expected = "1 or more",
                                   .fix = "keep at least the newest checkpoint"});
  const auto after = [&](std::string_view action) {
    if (options.after) options.after(action);
  };
  const auto temporary = temporary_folder(dir, facts.step);
  const auto committed = dir / step_folder_name(facts.step);
  const auto old = dir / (step_folder_name(facts.step) + ".old");
  Manifest manifest = {.facts = facts, .tensors = gathered(tensors, records)};
  for (const ShardRecord& record : records) {
    manifest.files.push_back(record.file);
  }
  check_coverage(manifest, ErrorCode::kInternal, "checkpoint");
  check_shards(temporary, manifest.files);
  write_file(temporary / kManifestName, to_text(manifest));
  after("manifest");
  if (std::filesystem::exists(committed)) {  // saved before, by a run that was resumed earlier
    remove_folder(old);
    rename_folder(committed, old);  // readers still find it under this name
    after("set aside");
  }
  rename_folder(temporary, committed);
  sync_folder(dir);
  after("rename");
  remove_folder(old);
  remove_older(dir, facts.step, options.keep_last - 1, after);
  return committed;
}

}  // namespace hethub

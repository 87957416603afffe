#include "hethub/checkpoint/export.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "hethub/base/error.h"
#include "hethub/base/files.h"
#include "hethub/base/json.h"
#include "hethub/checkpoint/safetensors_writer.h"

namespace hethub {
namespace {

using Group = std::vector<SafetensorsTensor>;  // the tensors of one file

[[noreturn]] void cannot_write(const std::filesystem::path& folder, std::string found,
                               std::string expected) {
  throw Error(ErrorCode::kCannotWrite, {.what = folder.string(),
                                        .found = std::move(found),
                                        .expected = std::move(expected),
                                        .fix = "name another folder with -o"});
}

// The parameters in the order of the manifest, a new file wherever one would grow too large.
std::vector<Group> grouped(const Checkpoint& checkpoint, bool tied, std::int64_t most_bytes) {
  std::vector<Group> groups(1);
  std::int64_t bytes = 0;
  for (const StoredTensor& stored : checkpoint.manifest().tensors) {
    const LogicalTensor& tensor = stored.tensor;
    if (tensor.role != TensorRole::kParameter) continue;
    if (tied && tensor.name == "lm_head.weight") continue;
    const std::int64_t size = tensor.elements() * size_of(tensor.dtype);
    if (!groups.back().empty() && size > most_bytes - bytes) {
      groups.emplace_back();
      bytes = 0;
    }
    groups.back().push_back({.name = tensor.name, .dtype = tensor.dtype, .shape = tensor.shape});
    bytes += size;
  }
  return groups;
}

void write_group(const Checkpoint& checkpoint, const Group& group,
                 const std::filesystem::path& file, std::int64_t staging_bytes) {
  SafetensorsWriter writer(file, group);
  std::vector<std::byte> staging;
  for (const SafetensorsEntry& entry : writer.entries()) {
    const LogicalTensor& tensor = *checkpoint.find(entry.name, TensorRole::kParameter);
    const std::int64_t bytes = size_of(tensor.dtype);
    const std::int64_t most = std::max<std::int64_t>(1, staging_bytes / bytes);
    const std::int64_t elements = tensor.elements();
    for (std::int64_t first = 0; first < elements; first += most) {
      const std::int64_t count = std::min(most, elements - first);
      staging.resize(static_cast<std::size_t>(count * bytes));
      checkpoint.read(entry.name, TensorRole::kParameter, first, count, staging);
      writer.append(entry.name, staging);
    }
  }
  writer.finish();
}

// "model.safetensors", or "model-00001-of-00003.safetensors".
std::string file_name(std::size_t group, std::size_t groups) {
  if (groups == 1) return "model.safetensors";
  std::array<char, 64> name = {};
  std::snprintf(name.data(), name.size(), "model-%05zu-of-%05zu.safetensors", group + 1, groups);
  return name.data();
}

std::string index_of(const std::vector<Group>& groups) {
  std::int64_t total = 0;
  std::map<std::string, std::string> weight_map;
  for (std::size_t group = 0; group < groups.size(); ++group) {
    for (const SafetensorsTensor& tensor : groups[group]) {
      std::int64_t bytes = size_of(tensor.dtype);
      for (const std::int64_t size : tensor.shape) {
        bytes *= size;
      }
      total += bytes;
      weight_map[tensor.name] = file_name(group, groups.size());
    }
  }
  return Json({{"metadata", {{"total_size", total}}}, {"weight_map", weight_map}}).dump(2) + "\n";
}

void check_checksums(const Checkpoint& checkpoint) {
  const std::vector<std::string> faults = checkpoint.verify();
  if (faults.empty()) return;
  throw Error(ErrorCode::kCorruptData, {.what = checkpoint.folder().string(),
                                        .found = faults.front(),
                                        .expected = "the bytes that were saved",
                                        .fix = "export another checkpoint"});
}

}  // namespace

void export_hugging_face(const Checkpoint& checkpoint, const std::filesystem::path& folder,
                         const ExportOptions& options) {
  std::error_code error;
  if (std::filesystem::exists(folder, error) && !std::filesystem::is_empty(folder, error)) {
    cannot_write(folder, "something in it", "an empty folder, or none");
  }
  check_checksums(checkpoint);
  const std::string& config_text = checkpoint.facts().model_config;
  const Json config = parse_document(config_text, "model_config");
  const bool tied = get_or<bool>(config, "model_config", "tie_word_embeddings", false);
  const auto groups = grouped(checkpoint, tied, options.most_file_bytes);
  const auto clean = folder.has_filename() ? folder : folder.parent_path();
  const std::filesystem::path temporary = clean.string() + ".tmp";
  std::filesystem::remove_all(temporary, error);
  std::filesystem::create_directories(temporary, error);
  if (error) cannot_write(temporary, error.message(), "to create it");
  for (std::size_t group = 0; group < groups.size(); ++group) {
    write_group(checkpoint, groups[group], temporary / file_name(group, groups.size()),
                options.staging_bytes);
  }
  if (groups.size() > 1) write_file(temporary / "model.safetensors.index.json", index_of(groups));
  write_file(temporary / "config.json", config_text + "\n");
  std::filesystem::rename(temporary, clean, error);
  if (error) cannot_write(clean, error.message(), "to rename a folder to it");
  sync_folder(clean.has_parent_path() ? clean.parent_path() : ".");
}

}  // namespace hethub

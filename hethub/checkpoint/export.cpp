#include "hethub/checkpoint/export.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <span>
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

// What to write, in the order of the manifest or of the options.
Group exported(const Checkpoint& checkpoint, bool tied, const ExportOptions& options) {
  Group all;
  for (const ExportTensor& tensor : options.tensors) {
    all.push_back({.name = tensor.name, .dtype = DType::kF32, .shape = tensor.shape});
  }
  if (!all.empty()) return all;
  for (const StoredTensor& stored : checkpoint.manifest().tensors) {
    const LogicalTensor& tensor = stored.tensor;
    if (tensor.role != TensorRole::kParameter) continue;
    if (tied && tensor.name == "lm_head.weight") continue;
    all.push_back({.name = tensor.name, .dtype = tensor.dtype, .shape = tensor.shape});
  }
  return all;
}

std::int64_t elements_of(const std::vector<std::int64_t>& shape) {
  std::int64_t elements = 1;
  for (const std::int64_t size : shape) {
    elements *= size;
  }
  return elements;
}

// A new file wherever one would grow too large.
std::vector<Group> grouped(const Group& all, std::int64_t most_bytes) {
  std::vector<Group> groups(1);
  std::int64_t bytes = 0;
  for (const SafetensorsTensor& tensor : all) {
    const std::int64_t size = elements_of(tensor.shape) * size_of(tensor.dtype);
    if (!groups.back().empty() && size > most_bytes - bytes) {
      groups.emplace_back();
      bytes = 0;
    }
    groups.back().push_back(tensor);
    bytes += size;
  }
  return groups;
}

// A tensor put together from rows of the checkpoint's.
std::vector<float> assembled(const Checkpoint& checkpoint, const ExportTensor& tensor) {
  std::vector<float> all(static_cast<std::size_t>(elements_of(tensor.shape)));
  for (const ExportPart& part : tensor.parts) {
    std::vector<float> rows(static_cast<std::size_t>(part.rows * part.row_length));
    checkpoint.read(part.tensor, TensorRole::kParameter, part.row * part.row_length,
                    std::ssize(rows), std::as_writable_bytes(std::span(rows)));
    for (std::int64_t index = 0; index < std::ssize(rows); ++index) {
      const std::int64_t row = part.first + index / part.row_length;
      const std::int64_t column = index % part.row_length;
      const std::int64_t to =
          tensor.transposed ? column * tensor.shape[1] + row : row * part.row_length + column;
      all[static_cast<std::size_t>(to)] = rows[static_cast<std::size_t>(index)];
    }
  }
  return all;
}

void write_group(const Checkpoint& checkpoint, const Group& group,
                 const std::filesystem::path& file, const ExportOptions& options) {
  SafetensorsWriter writer(file, group);
  std::vector<std::byte> staging;
  for (const SafetensorsEntry& entry : writer.entries()) {
    const auto made = std::find_if(options.tensors.begin(), options.tensors.end(),
                                   [&](const ExportTensor& one) { return one.name == entry.name; });
    if (made != options.tensors.end()) {
      const std::vector<float> values = assembled(checkpoint, *made);
      writer.append(entry.name, std::as_bytes(std::span(values)));
      continue;
    }
    const LogicalTensor& tensor = *checkpoint.find(entry.name, TensorRole::kParameter);
    const std::int64_t bytes = size_of(tensor.dtype);
    const std::int64_t most = std::max<std::int64_t>(1, options.staging_bytes / bytes);
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
      total += elements_of(tensor.shape) * size_of(tensor.dtype);
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
  const auto groups = grouped(exported(checkpoint, tied, options), options.most_file_bytes);
  const auto clean = folder.has_filename() ? folder : folder.parent_path();
  const std::filesystem::path temporary = clean.string() + ".tmp";
  std::filesystem::remove_all(temporary, error);
  std::filesystem::create_directories(temporary, error);
  if (error) cannot_write(temporary, error.message(), "to create it");
  for (std::size_t group = 0; group < groups.size(); ++group) {
    write_group(checkpoint, groups[group], temporary / file_name(group, groups.size()), options);
  }
  if (groups.size() > 1) write_file(temporary / "model.safetensors.index.json", index_of(groups));
  write_file(temporary / "config.json", config_text + "\n");
  std::filesystem::rename(temporary, clean, error);
  if (error) cannot_write(clean, error.message(), "to rename a folder to it");
  sync_folder(clean.has_parent_path() ? clean.parent_path() : ".");
}

}  // namespace hethub

#include "hethub/checkpoint/hf_folder.h"

#include <algorithm>
#include <optional>
#include <set>

#include <nlohmann/json.hpp>

#include "hethub/base/error.h"
#include "hethub/base/json.h"

namespace hethub {
namespace {

constexpr std::size_t kMostNamed = 5;

[[noreturn]] void corrupt(std::string what, std::string found, std::string expected,
                          std::string fix) {
  throw Error(ErrorCode::kCorruptData, {.what = std::move(what),
                                        .found = std::move(found),
                                        .expected = std::move(expected),
                                        .fix = std::move(fix)});
}

bool is_legacy_buffer(std::string_view name) { return name.ends_with(".rotary_emb.inv_freq"); }

// Looks at names and links only; opens nothing.
void check_plain_name(const std::filesystem::path& index_file, const std::string& tensor,
                      const std::string& file) {
  const auto refuse = [&](const std::string& found) {
    corrupt(text(index_file.string(), ": weight_map entry ", tensor, " is not a plain file name"),
            found, "a file of the same folder",
            "correct the index, or put the file itself into the folder");
  };
  if (!is_plain_file_name(file)) refuse("\"" + file.substr(0, file.find('\0')) + "\"");
  std::error_code error;
  const auto folder = std::filesystem::weakly_canonical(index_file.parent_path(), error);
  const auto target = std::filesystem::weakly_canonical(index_file.parent_path() / file, error);
  if (error) refuse(text("\"", file, "\": ", error.message()));
  const auto [rest, unused] =
      std::mismatch(folder.begin(), folder.end(), target.begin(), target.end());
  if (rest != folder.end()) refuse(text("\"", file, "\", a link that leaves the folder"));
}

// tensor -> file, every name checked.
std::map<std::string, std::string> weight_map_of(const Json& index,
                                                 const std::filesystem::path& file) {
  const auto found = index.is_object() ? index.find("weight_map") : index.end();
  if (!index.is_object() || found == index.end() || !found->is_object()) {
    corrupt(file.string(), "no weight_map", "an object weight_map: tensor to file",
            "fetch the index again");
  }
  std::map<std::string, std::string> result;
  for (const auto& [tensor, shard] : found->items()) {
    if (!shard.is_string()) {
      corrupt(text(file.string(), ": weight_map entry ", tensor, " is not a plain file name"),
              "a value that is no string", "a file of the same folder", "fetch the index again");
    }
    check_plain_name(file, tensor, shard.get<std::string>());
    result[tensor] = shard.get<std::string>();
  }
  return result;
}

// What the index says of the size, if it disagrees with the files.
std::optional<std::string> size_warning(const Json& index, std::int64_t bytes) {
  const auto metadata = index.find("metadata");
  if (metadata == index.end() || !metadata->is_object()) return std::nullopt;
  const auto total = metadata->find("total_size");
  if (total == metadata->end() || !total->is_number()) return std::nullopt;
  if (total->get<double>() == static_cast<double>(bytes)) return std::nullopt;
  return text("the index says total_size ", total->dump(), ", the shards hold ", bytes, " bytes");
}

}  // namespace

HfWeights HfWeights::open(const std::filesystem::path& folder) {
  HfWeights weights;
  weights.folder_ = folder;
  const auto single = folder / "model.safetensors";
  const auto index = folder / "model.safetensors.index.json";
  std::error_code error;
  if (std::filesystem::exists(index, error)) {
    weights.open_sharded(index);
  } else if (std::filesystem::exists(single, error)) {
    weights.open_single(single);
  } else {
    throw Error(ErrorCode::kMissingInput,
                {.what = folder.string(),
                 .found = "no weights",
                 .expected = "model.safetensors or model.safetensors.index.json",
                 .fix = "name a Hugging Face folder with safetensors weights"});
  }
  return weights;
}

void HfWeights::open_single(const std::filesystem::path& file) {
  files_.push_back(SafetensorsFile::open(file));
  for (const SafetensorsEntry& entry : files_.back().tensors()) {
    if (!is_legacy_buffer(entry.name)) where_.emplace(entry.name, 0);
  }
}

void HfWeights::open_sharded(const std::filesystem::path& index_file) {
  const Json index = read_document(index_file);
  const auto weight_map = weight_map_of(index, index_file);
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : weight_map) {
    shards.insert(shard);
  }
  std::int64_t bytes = 0;
  std::map<std::string, std::string> found_in;
  for (const std::string& shard : shards) {
    files_.push_back(SafetensorsFile::open(folder_ / shard));
    for (const SafetensorsEntry& entry : files_.back().tensors()) {
      bytes += entry.end - entry.begin;
      const auto [earlier, fresh] = found_in.emplace(entry.name, shard);
      if (!fresh) {
        corrupt(text(folder_.string(), ": tensor ", entry.name),
                text("it in ", earlier->second, " and in ", shard), "it in one shard",
                "remove the shard that does not belong to this model");
      }
      if (is_legacy_buffer(entry.name)) continue;
      if (!weight_map.contains(entry.name)) {
        warnings_.push_back(text(shard, " holds ", entry.name, ", which the index does not list"));
        continue;
      }
      where_.emplace(entry.name, files_.size() - 1);
    }
  }
  for (const auto& [tensor, shard] : weight_map) {
    const auto found = found_in.find(tensor);
    if (found != found_in.end() && found->second == shard) continue;
    corrupt(text(index_file.string(), ": weight_map entry ", tensor),
            found == found_in.end() ? text("no such tensor in ", shard)
                                    : text("the tensor in ", found->second),
            text("it in ", shard), "fetch the folder again");
  }
  if (const auto warning = size_warning(index, bytes)) warnings_.push_back(*warning);
}

std::vector<std::string> HfWeights::names() const {
  std::vector<std::string> result;
  result.reserve(where_.size());
  for (const auto& [name, file] : where_) {
    result.push_back(name);
  }
  return result;
}

const SafetensorsEntry* HfWeights::find(std::string_view name) const {
  const auto found = where_.find(name);
  return found == where_.end() ? nullptr : files_[found->second].find(name);
}

const SafetensorsFile& HfWeights::file_of(std::string_view name) const {
  const auto found = where_.find(name);
  if (found != where_.end()) return files_[found->second];
  std::string some;
  for (const auto& [stored, file] : where_) {
    some += text(some.empty() ? "" : ", ", stored);
    if (static_cast<std::size_t>(std::count(some.begin(), some.end(), ',')) + 1 == kMostNamed)
      break;
  }
  corrupt(text(folder_.string(), ": tensor ", name),
          text(where_.size(), " tensors without it (", some, ", ...)"), "the tensor",
          "use weights that belong to this config");
}

namespace {

bool same_bytes(const HfWeights& weights, const std::string& a, const std::string& b) {
  const SafetensorsEntry* one = weights.find(a);
  const SafetensorsEntry* other = weights.find(b);
  if (one->dtype != other->dtype || one->shape != other->shape) return false;
  constexpr std::int64_t kChunk = 1 << 18;
  const std::int64_t elements = one->elements();
  if (elements == 0) return true;
  const std::int64_t bytes = (one->end - one->begin) / elements;
  std::vector<std::byte> left;
  std::vector<std::byte> right;
  for (std::int64_t first = 0; first < elements; first += kChunk) {
    const std::int64_t count = std::min(kChunk, elements - first);
    left.resize(static_cast<std::size_t>(count * bytes));
    right.resize(left.size());
    weights.file_of(a).read_range(a, first, count, left);
    weights.file_of(b).read_range(b, first, count, right);
    if (left != right) return false;
  }
  return true;
}

}  // namespace

HeadSource head_source(const HfWeights& weights, const HeadRule& rule) {
  const std::string folder = weights.folder().string();
  weights.file_of(rule.embedding);  // throws if it is missing
  const bool stored = weights.find(rule.head) != nullptr;
  if (!stored && !rule.tied && !rule.tie_missing_head) {
    corrupt(folder + ": " + rule.head, "none, and a config that says it is not tied",
            "the head's weights",
            "pass --tie-missing-head to use " + rule.embedding + ", or fetch the whole model");
  }
  if (!stored && !rule.tied) {
    return {.name = rule.embedding,
            .warnings = {text("no ", rule.head, ": starting it as a copy of ", rule.embedding)}};
  }
  if (!rule.tied) return {.name = rule.head};
  if (!stored) return {.name = rule.embedding};
  if (!same_bytes(weights, rule.embedding, rule.head)) {
    corrupt(folder + ": " + rule.head,
            "bytes that differ from " + rule.embedding + " though the config says tied",
            "no head, or the same bytes",
            "set tie_word_embeddings to false, or remove the head from the file");
  }
  return {.name = rule.embedding,
          .warnings = {text(rule.head, " is stored although the config says tied; it equals ",
                            rule.embedding, ", which is used")}};
}

}  // namespace hethub

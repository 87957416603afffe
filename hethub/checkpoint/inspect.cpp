#include "hethub/checkpoint/inspect.h"

#include <map>
#include <vector>

#include <nlohmann/json.hpp>

#include "hethub/base/error.h"
#include "hethub/base/files.h"
#include "hethub/base/json.h"
#include "hethub/checkpoint/folder.h"
#include "hethub/checkpoint/hf_folder.h"
#include "hethub/checkpoint/reader.h"
#include "hethub/checkpoint/safetensors.h"
#include "hethub/checkpoint/stored_type.h"

namespace hethub {
namespace {

// Everything that is shown, whatever it came from.
struct Contents {
  std::string kind = {};
  std::vector<std::pair<std::string, std::string>> facts = {};  // in the order shown
  std::vector<SafetensorsEntry> tensors = {};
  std::int64_t bytes = 0;
  std::vector<std::string> warnings = {};
};

void add(Contents& contents, const SafetensorsEntry& entry) {
  contents.bytes += entry.end - entry.begin;
  contents.tensors.push_back(entry);
}

Contents contents_of_file(const std::filesystem::path& path) {
  Contents contents = {.kind = "safetensors"};
  const SafetensorsFile file = SafetensorsFile::open(path);
  for (const auto& [key, value] : file.metadata()) {
    contents.facts.emplace_back(key, value);
  }
  for (const SafetensorsEntry& entry : file.tensors()) {
    add(contents, entry);
  }
  return contents;
}

Contents contents_of_weights(const std::filesystem::path& path) {
  Contents contents = {.kind = "hugging-face"};
  const HfWeights weights = HfWeights::open(path);
  for (const std::string& name : weights.names()) {
    add(contents, *weights.find(name));
  }
  contents.warnings = weights.warnings();
  return contents;
}

Contents contents_of_checkpoint(const std::filesystem::path& path) {
  const Checkpoint checkpoint = Checkpoint::open(resolve_checkpoint(path));
  const CheckpointFacts& facts = checkpoint.facts();
  Contents contents = {.kind = "hethub-checkpoint",
                       .facts = {{"folder", checkpoint.folder().string()},
                                 {"step", std::to_string(facts.step)},
                                 {"next_sample", std::to_string(facts.next_sample)},
                                 {"plan_hash", facts.plan_hash},
                                 {"shards", std::to_string(checkpoint.manifest().files.size())}}};
  for (const StoredTensor& stored : checkpoint.manifest().tensors) {
    const LogicalTensor& tensor = stored.tensor;
    add(contents, {.name = label_of(tensor),
                   .dtype = std::string(stored_name_of(tensor.dtype)),
                   .shape = tensor.shape,
                   .end = tensor.elements() * size_of(tensor.dtype)});
  }
  if (path != checkpoint.folder()) contents.warnings = list_checkpoints(path).ignored;
  return contents;
}

Contents contents_of(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    const bool step = path.filename().string().starts_with("step-");
    return step ? contents_of_checkpoint(path) : contents_of_file(path);
  }
  const bool weights = std::filesystem::exists(path / "model.safetensors", error) ||
                       std::filesystem::exists(path / "model.safetensors.index.json", error);
  return weights ? contents_of_weights(path) : contents_of_checkpoint(path);
}

std::string as_text(const Contents& contents) {
  std::string out = contents.kind + "\n";
  for (const auto& [key, value] : contents.facts) {
    out += text("  ", key, ": ", value, "\n");
  }
  for (const SafetensorsEntry& tensor : contents.tensors) {
    std::string shape;
    for (const std::int64_t size : tensor.shape) {
      shape += text(shape.empty() ? "" : ", ", size);
    }
    out += text(tensor.name, "  ", tensor.dtype, "  [", shape, "]\n");
  }
  for (const std::string& warning : contents.warnings) {
    out += text("warning: ", warning, "\n");
  }
  return out + text(contents.tensors.size(), contents.tensors.size() == 1 ? " tensor" : " tensors",
                    ", ", bytes_text(static_cast<double>(contents.bytes)), "\n");
}

std::string as_json_text(const Contents& contents) {
  Json facts = Json::object();
  for (const auto& [key, value] : contents.facts) {
    facts[key] = value;
  }
  Json tensors = Json::array();
  for (const SafetensorsEntry& tensor : contents.tensors) {
    tensors.push_back({{"name", tensor.name},
                       {"dtype", tensor.dtype},
                       {"shape", tensor.shape},
                       {"bytes", tensor.end - tensor.begin}});
  }
  return Json({{"kind", contents.kind},
               {"facts", std::move(facts)},
               {"tensors", std::move(tensors)},
               {"bytes", contents.bytes},
               {"warnings", contents.warnings}})
             .dump(1) +
         "\n";
}

}  // namespace

std::string inspect(const std::filesystem::path& path, bool as_json) {
  const Contents contents = contents_of(path);
  return as_json ? as_json_text(contents) : as_text(contents);
}

}  // namespace hethub

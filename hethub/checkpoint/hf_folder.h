#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hethub/checkpoint/safetensors.h"

namespace hethub {

/// The weights of a Hugging Face folder: model.safetensors, or the shards that
/// model.safetensors.index.json lists. Legacy "*.rotary_emb.inv_freq" tensors are left out.
class HfWeights {
 public:
  /// Opens the folder and checks every file and the index. Throws kMissingInput if there are no
  /// weights, kCorruptData for a bad index or file. A shard's name is checked before anything of
  /// that name is opened: it must be a plain file name that does not lead out of the folder.
  static HfWeights open(const std::filesystem::path& folder);

  const std::filesystem::path& folder() const { return folder_; }

  /// Sorted.
  std::vector<std::string> names() const;

  /// The entry, or nullptr.
  const SafetensorsEntry* find(std::string_view name) const;

  /// The file that holds `name`; throws kCorruptData, naming the folder, if there is none. Reading
  /// goes through it: `weights.file_of(name).read_f32(name, ...)`.
  const SafetensorsFile& file_of(std::string_view name) const;

  /// What a user should know though it is no error, e.g. tensors that the index does not list.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  void open_single(const std::filesystem::path& file);
  void open_sharded(const std::filesystem::path& index_file);

  std::filesystem::path folder_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, std::size_t, std::less<>> where_;
  std::vector<std::string> warnings_;
};

/// How a model uses its embedding and its head.
struct HeadRule {
  bool tied = false;              ///< the config's tie_word_embeddings
  bool tie_missing_head = false;  ///< --tie-missing-head: use the embedding where no head is stored
  std::string embedding = "model.embed_tokens.weight";
  std::string head = "lm_head.weight";
};

/// The tensor that the head's weights are read from, and what the user should know.
struct HeadSource {
  std::string name = {};
  std::vector<std::string> warnings = {};
};

/// Decides where the head comes from. Throws kCorruptData if the embedding is missing; if the model
/// is not tied and no head is stored (unless tie_missing_head); or if it is tied and a head is
/// stored that differs from the embedding. A stored head that is equal gives a warning.
HeadSource head_source(const HfWeights& weights, const HeadRule& rule);

}  // namespace hethub

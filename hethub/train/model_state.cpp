#include "hethub/train/model_state.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <span>

#include "hethub/base/error.h"
#include "hethub/checkpoint/hf_folder.h"
#include "hethub/checkpoint/reader.h"
#include "hethub/model/file_parts.h"

namespace hethub {
namespace {

Deadline in_ten_minutes() { return std::chrono::steady_clock::now() + std::chrono::minutes(10); }

[[noreturn]] void corrupt(const std::string& what, std::string found, std::string expected) {
  throw Error(ErrorCode::kCorruptData, {.what = what,
                                        .found = std::move(found),
                                        .expected = std::move(expected),
                                        .fix = "use the config.json that belongs to the weights"});
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string out = "[";
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    out += text(axis == 0 ? "" : ", ", shape[axis]);
  }
  return out + "]";
}

// Every tensor of the folder must be one of the model's, or the head of a tied model.
void check_all_known(const HfWeights& weights, const ModelConfig& model) {
  std::set<std::string> known = {kHeadName};
  for (const FileTensor& tensor : file_tensors_of(model)) {
    known.insert(tensor.name);
    known.insert(other_file_name(model, tensor.name));
  }
  for (const std::string& name : weights.names()) {
    if (!known.contains(name) && !is_file_buffer(model, name)) {
      corrupt(weights.folder().string(), "the tensor " + name, "only tensors of the model");
    }
  }
}

// Under the name that this folder has it.
std::string stored_name(const HfWeights& weights, const ModelConfig& model,
                        const std::string& name) {
  const std::string other = other_file_name(model, name);
  return !other.empty() && weights.find(name) == nullptr ? other : name;
}

// One of a tensor's parts as the folder has it. Throws unless it is there in the right shape.
struct StoredPart {
  FilePart part = {};
  const SafetensorsFile* file = nullptr;
  std::int64_t row_length = 1;  // elements of a row of the model's tensor

  std::int64_t begin() const { return part.row * row_length; }
  std::int64_t end() const { return (part.row + part.rows) * row_length; }

  // Elements [first, first + values.size()) of the model's tensor, all of them this part's.
  void read(std::int64_t first, std::span<float> values) const {
    const std::int64_t at = first - begin();
    if (!part.transposed) {
      return file->read_f32(part.name, part.first * row_length + at, values);
    }
    const std::int64_t columns = part.shape[1];
    std::vector<float> whole(static_cast<std::size_t>(part.shape[0] * columns));
    file->read_f32(part.name, 0, whole);
    for (std::size_t index = 0; index < values.size(); ++index) {
      const std::int64_t element = at + static_cast<std::int64_t>(index);
      const std::int64_t column = part.first + element / row_length;
      values[index] = whole[static_cast<std::size_t>(element % row_length * columns + column)];
    }
  }
};

StoredPart stored_part(const HfWeights& weights, const ModelTensor& tensor, FilePart part) {
  const SafetensorsEntry* entry = weights.find(part.name);
  const std::string folder = weights.folder().string();
  if (entry == nullptr) corrupt(folder, "no tensor " + part.name, "all of the model's");
  if (entry->shape != part.shape) {
    corrupt(text(folder, ": ", part.name), shape_text(entry->shape), shape_text(part.shape));
  }
  const SafetensorsFile& file = weights.file_of(part.name);
  return {std::move(part), &file, tensor.elements() / tensor.shape[0]};
}

// Elements of a tensor, row by row, from the parts that hold them.
void read_elements(const std::vector<StoredPart>& parts, std::int64_t first,
                   std::span<float> values) {
  const std::int64_t end = first + std::ssize(values);
  for (const StoredPart& part : parts) {
    const std::int64_t from = std::max(first, part.begin());
    const std::int64_t to = std::min(end, part.end());
    if (from < to) part.read(from, values.subspan(from - first, to - from));
  }
}

ElementOrder order_of(const TensorShard& shard) {
  return shard.transposed ? ElementOrder::kColumns : ElementOrder::kRows;
}

// Where a piece's values of one role lie.
const ArenaRange& range_of(const OwnedPiece& piece, TensorRole role) {
  switch (role) {
    case TensorRole::kParameter:
      return piece.parameters;
    case TensorRole::kFirstMoment:
      return piece.first_moment;
    case TensorRole::kSecondMoment:
      break;
  }
  return piece.second_moment;
}

}  // namespace

// Returns when the values are on the device.
void ModelState::upload(const std::vector<float>& values, const ArenaRange& range) {
  device_.queue().upload(std::as_bytes(std::span(values)), device_.view(range));
  device_.synchronize(in_ten_minutes());
}

void ModelState::for_each_parameter(
    const std::function<void(const TensorShard&, std::span<float>)>& fill) {
  const RankPlan& plan = device_.plan();
  for (std::size_t index = 0; index < plan.programs.size(); ++index) {
    const Program& program = plan.programs[index];
    const std::vector<int> parameters = program.values_of(ValueRole::kParameter);
    for (std::size_t at = 0; at < parameters.size(); ++at) {
      const TensorShard& shard = plan.shards[index].at(at);
      std::vector<float> values(static_cast<std::size_t>(shard.count));
      fill(shard, values);
      upload(values,
             {plan.memory.offset_of(static_cast<int>(index), parameters[at], 0), shard.count * 4});
    }
  }
}

void ModelState::initialize(std::uint64_t seed) {
  for_each_parameter([&](const TensorShard& shard, std::span<float> values) {
    write_initial_values(model_, shard, seed, shard.first, values);
  });
}

std::vector<std::string> ModelState::load_hugging_face(const std::filesystem::path& folder,
                                                       bool tie_missing_head) {
  const HfWeights weights = HfWeights::open(folder);
  check_all_known(weights, model_);
  const auto stored = [&](const std::string& name) { return stored_name(weights, model_, name); };
  const ModelTensor embedding = tensors_of(model_).front();
  const HeadSource head =
      head_source(weights, {.tied = model_.tie_word_embeddings,
                            .tie_missing_head = tie_missing_head,
                            .embedding = stored(file_parts_of(model_, embedding)[0].name)});
  for_each_parameter([&](const TensorShard& shard, std::span<float> values) {
    const ModelTensor& tensor = shard.tensor;
    std::vector<StoredPart> parts;
    for (FilePart& part : file_parts_of(model_, tensor)) {
      part.name = tensor.name == kHeadName ? head.name : stored(part.name);
      parts.push_back(stored_part(weights, tensor, std::move(part)));
    }
    if (!shard.transposed) return read_elements(parts, shard.first, values);
    std::vector<float> whole(static_cast<std::size_t>(tensor.elements()));
    read_elements(parts, 0, whole);
    for (std::size_t index = 0; index < values.size(); ++index) {
      values[index] = whole[static_cast<std::size_t>(
          shard.element_of(shard.first + static_cast<std::int64_t>(index)))];
    }
  });
  std::vector<std::string> warnings = weights.warnings();
  warnings.insert(warnings.end(), head.warnings.begin(), head.warnings.end());
  return warnings;
}

std::vector<LogicalTensor> ModelState::logical_tensors() const {
  std::vector<LogicalTensor> all;
  for (const ModelTensor& tensor : tensors_of(model_)) {
    for (const TensorRole role :
         {TensorRole::kParameter, TensorRole::kFirstMoment, TensorRole::kSecondMoment}) {
      all.push_back({.name = tensor.name, .role = role, .shape = tensor.shape});
    }
  }
  return all;
}

ShardRecord ModelState::save(const ShardPlace& place, const ShardOptions& options) {
  std::vector<OwnedRange> ranges;
  std::vector<const OwnedPiece*> pieces;
  for (const OwnedPiece& piece : device_.plan().owned) {
    for (const TensorRole role :
         {TensorRole::kParameter, TensorRole::kFirstMoment, TensorRole::kSecondMoment}) {
      const TensorShard& owned = piece.slice;
      ranges.push_back({{.name = owned.tensor.name, .role = role, .shape = owned.tensor.shape},
                        order_of(owned),
                        owned.first,
                        owned.count});
      pieces.push_back(&piece);
    }
  }
  const auto fetch = [&](std::size_t index, std::int64_t first, std::int64_t count,
                         std::span<std::byte> out) {
    const ArenaRange& all = range_of(*pieces[index], ranges[index].tensor.role);
    const std::int64_t into = (first - ranges[index].first) * 4;
    device_.queue().download(device_.view(all).slice(into, count * 4), out);
    device_.synchronize(in_ten_minutes());
  };
  return write_shard(place, ranges, fetch, options);
}

CheckpointFacts ModelState::load_checkpoint(const std::filesystem::path& folder) {
  const Checkpoint checkpoint = Checkpoint::open(folder);
  checkpoint.check_tensors(logical_tensors());
  for_each_parameter([&](const TensorShard& shard, std::span<float> values) {
    checkpoint.read(shard.tensor.name, TensorRole::kParameter, shard.first, shard.count,
                    std::as_writable_bytes(values), order_of(shard));
  });
  for (const OwnedPiece& piece : device_.plan().owned) {
    for (const TensorRole role : {TensorRole::kFirstMoment, TensorRole::kSecondMoment}) {
      const TensorShard& owned = piece.slice;
      std::vector<float> values(static_cast<std::size_t>(owned.count));
      checkpoint.read(owned.tensor.name, role, owned.first, owned.count,
                      std::as_writable_bytes(std::span(values)), order_of(owned));
      upload(values, range_of(piece, role));
    }
  }
  return checkpoint.facts();
}

}  // namespace hethub

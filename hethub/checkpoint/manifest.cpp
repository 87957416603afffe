#include "hethub/checkpoint/manifest.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>

#include <nlohmann/json.hpp>

#include "hethub/base/json.h"
#include "hethub/checkpoint/file_handle.h"

namespace hethub {
namespace {

constexpr std::string_view kFormat = "hethub-checkpoint/1";
constexpr std::string_view kByColumns = "columns";
constexpr std::array<std::string_view, 3> kRoles = {"parameter", "m", "v"};

[[noreturn]] void corrupt(const std::string& where, std::string found, std::string expected) {
  throw Error(ErrorCode::kCorruptData, {.what = where,
                                        .found = std::move(found),
                                        .expected = std::move(expected),
                                        .fix = "use another checkpoint"});
}

TensorRole role_from(const std::string& name, const std::string& where) {
  const auto* const found = std::find(kRoles.begin(), kRoles.end(), name);
  if (found == kRoles.end()) corrupt(where + ": role", name, "parameter, m or v");
  return static_cast<TensorRole>(found - kRoles.begin());
}

DType dtype_from(const std::string& name, const std::string& where) {
  for (std::size_t dtype = 0; dtype < kDTypes.size(); ++dtype) {
    if (kDTypes.at(dtype).name == name) return static_cast<DType>(dtype);
  }
  corrupt(where + ": dtype", name, "f64, f32, f16, bf16, i64, i32, i8 or u8");
}

// A number of elements or bytes.
std::int64_t count_of(const Json& object, const std::string& where, std::string_view key) {
  const auto value = get<std::int64_t>(object, where, key);
  if (value < 0) corrupt(text(where, ": ", key), std::to_string(value), "0 or more");
  return value;
}

const Json& member(const Json& object, const std::string& where, const std::string& key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  if (!object.is_object() || found == object.end()) corrupt(where, "no " + key, "it");
  return *found;
}

const Json& list(const Json& object, const std::string& where, const std::string& key) {
  const Json& value = member(object, where, key);
  if (!value.is_array()) corrupt(text(where, ": ", key), "no list", "a list");
  return value;
}

Json json_of(const ShardFile& file) {
  return {{"name", file.name}, {"bytes", file.bytes}, {"xxh3_128", file.checksum}};
}

ShardFile file_from(const Json& object, const std::string& where) {
  ShardFile file = {.name = get<std::string>(object, where, "name"),
                    .bytes = count_of(object, where, "bytes"),
                    .checksum = get<std::string>(object, where, "xxh3_128")};
  if (!is_plain_file_name(file.name)) corrupt(where + ": name", file.name, "a plain file name");
  return file;
}

Json json_of(const StoredTensor& stored) {
  Json pieces = Json::array();
  for (const StoredPiece& piece : stored.pieces) {
    pieces.push_back({{"first", piece.first},
                      {"count", piece.count},
                      {"file", piece.file},
                      {"tensor", piece.stored_name}});
  }
  Json json = {{"name", stored.tensor.name},
               {"role", name_of(stored.tensor.role)},
               {"dtype", name_of(stored.tensor.dtype)},
               {"shape", stored.tensor.shape},
               {"pieces", std::move(pieces)}};
  if (stored.order == ElementOrder::kColumns) json["order"] = kByColumns;
  return json;
}

StoredTensor tensor_from(const Json& object, const std::string& where) {
  StoredTensor stored = {
      .tensor = {.name = get<std::string>(object, where, "name"),
                 .role = role_from(get<std::string>(object, where, "role"), where),
                 .dtype = dtype_from(get<std::string>(object, where, "dtype"), where),
                 .shape = get<std::vector<std::int64_t>>(object, where, "shape")}};
  std::int64_t bytes = size_of(stored.tensor.dtype);
  for (const std::int64_t size : stored.tensor.shape) {
    if (size < 0 || __builtin_mul_overflow(bytes, std::max<std::int64_t>(size, 1), &bytes)) {
      corrupt(text(where, ": shape of ", stored.tensor.name), std::to_string(size),
              "sizes from 0, with a product below 2^63 bytes");
    }
  }
  if (object.contains("order")) {
    const auto order = get<std::string>(object, where, "order");
    if (order != kByColumns) corrupt(where + ": order", order, std::string(kByColumns));
    if (stored.tensor.shape.size() != 2) corrupt(where + ": order", order, "none: it is no matrix");
    stored.order = ElementOrder::kColumns;
  }
  for (const Json& piece : list(object, where, "pieces")) {
    stored.pieces.push_back({.first = count_of(piece, where, "first"),
                             .count = count_of(piece, where, "count"),
                             .file = get<std::string>(piece, where, "file"),
                             .stored_name = get<std::string>(piece, where, "tensor")});
  }
  return stored;
}

std::vector<StoredTensor> tensors_from(const Json& object, const std::string& where) {
  std::vector<StoredTensor> tensors;
  for (const Json& tensor : list(object, where, "tensors")) {
    tensors.push_back(tensor_from(tensor, text(where, ": tensors[", tensors.size(), "]")));
  }
  return tensors;
}

Json json_of(const std::vector<StoredTensor>& tensors) {
  Json out = Json::array();
  for (const StoredTensor& tensor : tensors) {
    out.push_back(json_of(tensor));
  }
  return out;
}

template <typename T>
std::map<std::string, T> map_from(const Json& object, const std::string& where,
                                  const std::string& key) {
  std::map<std::string, T> result;
  const Json& members = member(object, where, key);
  if (!members.is_object()) corrupt(text(where, ": ", key), "no object", "an object");
  for (const auto& [name, value] : members.items()) {
    const bool fits = std::is_same_v<T, double>          ? value.is_number()
                      : std::is_same_v<T, std::uint64_t> ? value.is_number_unsigned()
                                                         : value.is_number_integer();
    if (!fits) corrupt(text(where, ": ", key, ".", name), value.dump(), "a number");
    const Json& number = value;
    result[name] = number.get<T>();
  }
  return result;
}

CheckpointFacts facts_from(const Json& document, const std::string& where) {
  CheckpointFacts facts = {.step = count_of(document, where, "step"),
                           .next_sample = count_of(document, where, "next_sample"),
                           .seeds = map_from<std::uint64_t>(document, where, "seeds"),
                           .counters = map_from<std::int64_t>(document, where, "counters"),
                           .optimizer = map_from<double>(document, where, "optimizer"),
                           .plan_hash = get<std::string>(document, where, "plan_hash")};
  if (document.contains("data")) facts.data = get<std::string>(document, where, "data");
  facts.model_config = member(document, where, "model_config").dump(2);
  return facts;
}

// Runs `read` over the parsed text; a field that is wrong is bad data here, not a bad
// configuration.
template <typename Read>
auto parsed(const std::string& json, const std::string& name, Read read) {
  if (!Json::accept(json)) corrupt(name, "a syntax error", "JSON");  // YAML will not do
  const Json document = parse_document(json, name);
  try {
    return read(document);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidConfig) throw;
    throw Error(ErrorCode::kCorruptData, error.parts());
  } catch (const Json::exception& error) {  // e.g. text that is not UTF-8
    corrupt(name, error.what(), "JSON");
  }
}

[[noreturn]] void not_covered(ErrorCode code, const std::string& what, std::string found,
                              std::string expected) {
  throw Error(code, {.what = what,
                     .found = std::move(found),
                     .expected = std::move(expected),
                     .fix = code == ErrorCode::kCorruptData ? "use another checkpoint"
                                                            : "report this as a bug of hethub"});
}

void check_pieces(const StoredTensor& stored, ErrorCode code, const std::string& what) {
  std::int64_t end = 0;
  for (const StoredPiece& piece : stored.pieces) {
    if (piece.first != end) {
      not_covered(code, what,
                  piece.first > end ? text("no piece with element ", end)
                                    : text("element ", piece.first, " in two pieces"),
                  "each element in one piece");
    }
    if (piece.count <= 0 || piece.count > stored.tensor.elements() - end) {
      not_covered(code, what, text("a piece of ", piece.count, " elements at ", piece.first),
                  text("pieces within 0 to ", stored.tensor.elements()));
    }
    end += piece.count;
  }
  if (end == stored.tensor.elements()) return;
  not_covered(code, what, text("no piece with element ", end), "each element in one piece");
}

}  // namespace

std::string_view name_of(TensorRole role) { return kRoles.at(static_cast<std::size_t>(role)); }

std::int64_t LogicalTensor::elements() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::string label_of(const LogicalTensor& tensor) {
  if (tensor.role == TensorRole::kParameter) return tensor.name;
  return text(tensor.name, " (", name_of(tensor.role), ")");
}

std::string to_text(const ShardRecord& record) {
  return Json({{"file", json_of(record.file)}, {"tensors", json_of(record.tensors)}}).dump();
}

ShardRecord record_from(const std::string& json, const std::string& name) {
  return parsed(json, name, [&](const Json& document) {
    return ShardRecord{.file = file_from(member(document, name, "file"), name + ": file"),
                       .tensors = tensors_from(document, name)};
  });
}

std::string to_text(const Manifest& manifest) {
  const CheckpointFacts& facts = manifest.facts;
  for (const auto& [name, value] : facts.optimizer) {
    require(std::isfinite(value), {.what = "checkpoint: optimizer." + name,
                                   .found = std::to_string(value),
                                   .expected = "a finite number",
                                   .fix = "save before the run diverges"});
  }
  Json files = Json::array();
  for (const ShardFile& file : manifest.files) {
    files.push_back(json_of(file));
  }
  const Json document = {{"format", kFormat},
                         {"step", facts.step},
                         {"next_sample", facts.next_sample},
                         {"plan_hash", facts.plan_hash},
                         {"data", facts.data},
                         {"seeds", facts.seeds},
                         {"counters", facts.counters},
                         {"optimizer", facts.optimizer},
                         {"model_config", parse_document(facts.model_config, "model config")},
                         {"files", std::move(files)},
                         {"tensors", json_of(manifest.tensors)}};
  return document.dump(1);
}

Manifest manifest_from(const std::string& json, const std::string& name) {
  return parsed(json, name, [&](const Json& document) {
    const auto format = get<std::string>(document, name, "format");
    if (format != kFormat) corrupt(name + ": format", format, std::string(kFormat));
    Manifest manifest = {.facts = facts_from(document, name),
                         .tensors = tensors_from(document, name)};
    for (const Json& file : list(document, name, "files")) {
      manifest.files.push_back(file_from(file, text(name, ": files[", manifest.files.size(), "]")));
    }
    return manifest;
  });
}

void check_coverage(Manifest& manifest, ErrorCode code, const std::string& name) {
  std::set<std::string_view> files;
  for (const ShardFile& file : manifest.files) {
    const bool fresh = files.insert(file.name).second;
    if (!fresh) not_covered(code, text(name, ": ", file.name), "it twice", "each shard once");
  }
  std::set<std::pair<std::string_view, TensorRole>> seen;
  for (StoredTensor& stored : manifest.tensors) {
    const std::string what = text(name, ": ", label_of(stored.tensor));
    const bool fresh = seen.emplace(stored.tensor.name, stored.tensor.role).second;
    if (!fresh) not_covered(code, what, "it twice", "each tensor once");
    std::sort(stored.pieces.begin(), stored.pieces.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    check_pieces(stored, code, what);
    for (const StoredPiece& piece : stored.pieces) {
      if (!files.contains(piece.file)) {
        not_covered(code, what, text("a piece in ", piece.file), "a shard that is listed");
      }
    }
  }
}

}  // namespace hethub

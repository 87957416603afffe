#include "hethub/checkpoint/reader.h"

#include <algorithm>
#include <set>

#include "hethub/base/error.h"
#include "hethub/base/files.h"
#include "hethub/checkpoint/checksum.h"
#include "hethub/checkpoint/stored_type.h"

namespace hethub {
namespace {

constexpr std::size_t kMostNamed = 5;

[[noreturn]] void corrupt(std::string what, std::string found, std::string expected) {
  throw Error(ErrorCode::kCorruptData, {.what = std::move(what),
                                        .found = std::move(found),
                                        .expected = std::move(expected),
                                        .fix = "use another checkpoint"});
}

// "3 (a, b, c)", of a long list only the first few.
std::string counted(const std::vector<std::string>& names) {
  std::string some;
  for (std::size_t name = 0; name < std::min(names.size(), kMostNamed); ++name) {
    some += text(name == 0 ? "" : ", ", names[name]);
  }
  return text(names.size(), " (", some, names.size() > kMostNamed ? ", ...)" : ")");
}

std::string described(const LogicalTensor& tensor) {
  std::string shape;
  for (const std::int64_t size : tensor.shape) {
    shape += text(shape.empty() ? "" : ", ", size);
  }
  return text(label_of(tensor), " ", name_of(tensor.dtype), " [", shape, "]");
}

std::string checksum_of(const FileHandle& file) {
  Checksum checksum;
  std::vector<std::byte> chunk;
  const std::int64_t size = file.size();
  constexpr std::int64_t kChunk = std::int64_t{1} << 20;
  for (std::int64_t offset = 0; offset < size; offset += kChunk) {
    chunk.resize(static_cast<std::size_t>(std::min(kChunk, size - offset)));
    file.read(offset, chunk);
    checksum.add(chunk);
  }
  return checksum.hex();
}

}  // namespace

Checkpoint Checkpoint::open(const std::filesystem::path& folder) {
  const auto manifest_file = folder / kManifestName;
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    throw Error(ErrorCode::kMissingInput, {.what = folder.string(),
                                           .found = "no such folder",
                                           .expected = "a checkpoint",
                                           .fix = "check the path"});
  }
  if (folder.extension() == ".tmp" || !std::filesystem::exists(manifest_file, error)) {
    corrupt(folder.string(), "it incomplete (no COMMIT)", "a checkpoint that was committed");
  }
  Checkpoint checkpoint;
  checkpoint.folder_ = folder;
  checkpoint.manifest_ = manifest_from(read_file(manifest_file), manifest_file.string());
  check_coverage(checkpoint.manifest_, ErrorCode::kCorruptData, manifest_file.string());
  const auto& tensors = checkpoint.manifest_.tensors;
  for (std::size_t tensor = 0; tensor < tensors.size(); ++tensor) {
    const LogicalTensor& logical = tensors[tensor].tensor;
    checkpoint.index_.emplace(std::pair(logical.name, logical.role), tensor);
  }
  for (const ShardFile& file : checkpoint.manifest_.files) {
    const auto path = folder / file.name;
    const auto size = std::filesystem::file_size(path, error);
    if (error || static_cast<std::int64_t>(size) != file.bytes) {
      corrupt(path.string(), error ? error.message() : text(size, " bytes"),
              text(file.bytes, " bytes"));
    }
    checkpoint.shards_.emplace(file.name, SafetensorsFile::open(path));
  }
  checkpoint.check_shards();
  return checkpoint;
}

void Checkpoint::check_shards() const {
  std::set<std::pair<std::string_view, std::string_view>> used;
  for (const StoredTensor& stored : manifest_.tensors) {
    for (const StoredPiece& piece : stored.pieces) {
      const SafetensorsFile& shard = shards_.find(piece.file)->second;
      const SafetensorsEntry& entry = shard.at(piece.stored_name);
      const std::string_view dtype = stored_name_of(stored.tensor.dtype);
      if (entry.dtype != dtype || entry.elements() != piece.count) {
        corrupt(text(shard.path().string(), ": ", piece.stored_name),
                text(entry.elements(), " elements of ", entry.dtype),
                text(piece.count, " of ", dtype));
      }
      const bool fresh = used.emplace(piece.file, piece.stored_name).second;
      if (!fresh) corrupt(text(piece.file, ": ", piece.stored_name), "two uses of it", "one");
    }
  }
  for (const auto& [name, shard] : shards_) {
    for (const SafetensorsEntry& entry : shard.tensors()) {
      if (used.contains({name, entry.name})) continue;
      corrupt(text(shard.path().string(), ": ", entry.name), "a tensor that no one reads",
              "those of the manifest alone");
    }
  }
}

const StoredTensor& Checkpoint::at(std::string_view name, TensorRole role) const {
  const auto found = index_.find({std::string(name), role});
  if (found != index_.end()) return manifest_.tensors[found->second];
  corrupt(text(folder_.string(), ": ", label_of({.name = std::string(name), .role = role})),
          text("no such tensor among ", index_.size()), "it");
}

const LogicalTensor* Checkpoint::find(std::string_view name, TensorRole role) const {
  const auto found = index_.find({std::string(name), role});
  return found == index_.end() ? nullptr : &manifest_.tensors[found->second].tensor;
}

void Checkpoint::check_tensors(const std::vector<LogicalTensor>& expected) const {
  std::vector<std::string> missing;
  std::vector<std::string> different;
  std::set<std::pair<std::string_view, TensorRole>> known;
  for (const LogicalTensor& tensor : expected) {
    known.emplace(tensor.name, tensor.role);
    const LogicalTensor* stored = find(tensor.name, tensor.role);
    if (stored == nullptr) missing.push_back(label_of(tensor));
    if (stored == nullptr || *stored == tensor) continue;
    different.push_back(text(described(*stored), " for ", described(tensor)));
  }
  std::vector<std::string> extra;
  for (const StoredTensor& stored : manifest_.tensors) {
    if (!known.contains({stored.tensor.name, stored.tensor.role})) {
      extra.push_back(label_of(stored.tensor));
    }
  }
  if (missing.empty() && different.empty() && extra.empty()) return;
  std::string found;
  for (const auto& [word, names] :
       {std::pair("missing: ", &missing), {"unknown: ", &extra}, {"different: ", &different}}) {
    if (!names->empty()) found += text(found.empty() ? "" : "; ", word, counted(*names));
  }
  throw Error(ErrorCode::kCorruptData,
              {.what = folder_.string() + ": tensors",
               .found = found,
               .expected = text("the ", expected.size(), " tensors of the model and its optimizer"),
               .fix = "resume with the model this checkpoint was made of"});
}

void Checkpoint::read(std::string_view name, TensorRole role, std::int64_t first,
                      std::int64_t count, std::span<std::byte> out, ElementOrder order) const {
  const StoredTensor& stored = at(name, role);
  const std::int64_t elements = stored.tensor.elements();
  const std::int64_t bytes = size_of(stored.tensor.dtype);
  require(first >= 0 && count >= 0 && first <= elements && count <= elements - first &&
              static_cast<std::int64_t>(out.size()) == count * bytes,
          {.what = text(folder_.string(), ": reading ", label_of(stored.tensor)),
           .found = text("elements ", first, " to ", first, " + ", count, " into ", out.size(),
                         " bytes"),
           .expected = text("elements within 0 to ", elements, " of ", bytes, " bytes each"),
           .fix = "pass a range of this tensor"});
  const bool as_stored = stored.tensor.shape.size() != 2 || stored.order == order;
  if (as_stored) return read_run(stored, first, out);
  read_across(stored, first, count, out);
}

// Elements in the order in which they are stored, as many as fit into `out`.
void Checkpoint::read_run(const StoredTensor& stored, std::int64_t first,
                          std::span<std::byte> out) const {
  const std::int64_t bytes = size_of(stored.tensor.dtype);
  std::int64_t count = static_cast<std::int64_t>(out.size()) / bytes;
  auto piece = std::upper_bound(stored.pieces.begin(), stored.pieces.end(), first,
                                [](std::int64_t element, const StoredPiece& candidate) {
                                  return element < candidate.first + candidate.count;
                                });
  while (count > 0) {
    const std::int64_t skip = first - piece->first;
    const std::int64_t here = std::min(count, piece->count - skip);
    const auto size = static_cast<std::size_t>(here * bytes);
    shards_.find(piece->file)->second.read_range(piece->stored_name, skip, here, out.first(size));
    out = out.subspan(size);
    first += here;
    count -= here;
    ++piece;
  }
}

// Elements counted in the other order than they are stored in. A line is what follows each other in
// that order; of each line's place a run of the lines wanted is read.
void Checkpoint::read_across(const StoredTensor& stored, std::int64_t first, std::int64_t count,
                             std::span<std::byte> out) const {
  if (count == 0) return;
  const bool by_columns = stored.order == ElementOrder::kColumns;
  const std::int64_t lines = stored.tensor.shape[by_columns ? 0 : 1];
  const std::int64_t length = stored.tensor.shape[by_columns ? 1 : 0];
  const std::int64_t bytes = size_of(stored.tensor.dtype);
  const std::int64_t begin = first / length;
  const std::int64_t end = (first + count - 1) / length + 1;
  std::vector<std::byte> run(static_cast<std::size_t>((end - begin) * bytes));
  for (std::int64_t place = 0; place < length; ++place) {
    read_run(stored, place * lines + begin, run);
    for (std::int64_t line = begin; line < end; ++line) {
      const std::int64_t into = line * length + place - first;
      if (into < 0 || into >= count) continue;
      std::copy_n(run.data() + (line - begin) * bytes, bytes, out.data() + into * bytes);
    }
  }
}

std::vector<std::string> Checkpoint::verify() const {
  std::vector<std::string> faults;
  for (const ShardFile& file : manifest_.files) {
    const std::string found = checksum_of(FileHandle::open_to_read(folder_ / file.name));
    if (found == file.checksum) continue;
    faults.push_back(
        text(file.name, ": checksum ", found, ", expected ", file.checksum, ": its bytes changed"));
  }
  return faults;
}

}  // namespace hethub

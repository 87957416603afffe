#include "hethub/checkpoint/safetensors.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <utility>

#include "hethub/base/error.h"
#include "hethub/checkpoint/convert.h"
#include "hethub/checkpoint/safetensors_header.h"
#include "hethub/checkpoint/stored_type.h"

namespace hethub {
namespace {

constexpr std::int64_t kStagingBytes = std::int64_t{1} << 20;

// The text of the header; its first bytes are looked at before memory for the rest is taken.
std::string read_header_text(const FileHandle& file, std::uint64_t length) {
  std::string header(std::min<std::uint64_t>(length, 4096), '\0');
  file.read(8, std::as_writable_bytes(std::span(header)));
  const std::size_t start = header.find_first_not_of(" \t\r\n");
  const bool blank = start == std::string::npos && header.size() == length;
  if (blank || (start != std::string::npos && header[start] == '\0')) {
    bad_safetensors(file.path().string(), "InvalidHeaderDeserialization", "no JSON object",
                    "a header that begins with {");
  }
  const std::size_t read = header.size();
  header.resize(length);
  file.read(8 + static_cast<std::int64_t>(read),
            std::as_writable_bytes(std::span(header).subspan(read)));
  return header;
}

}  // namespace

std::int64_t SafetensorsEntry::elements() const {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;  // others may be huge
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

SafetensorsFile::SafetensorsFile(FileHandle file, SafetensorsHeader header, std::int64_t data_begin)
    : file_(std::move(file)), header_(std::move(header)), data_begin_(data_begin) {
  for (std::size_t tensor = 0; tensor < header_.tensors.size(); ++tensor) {
    index_.emplace(header_.tensors[tensor].name, tensor);
  }
}

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  FileHandle file = FileHandle::open_to_read(path);
  const std::string name = path.string();
  const std::int64_t size = file.size();
  if (size < 8) {
    bad_safetensors(name, "HeaderTooSmall", text(size, " bytes"), "at least 8");
  }
  std::uint64_t length = 0;
  file.read(0, std::as_writable_bytes(std::span(&length, 1)));
  if (length > kLongestSafetensorsHeader) {
    bad_safetensors(name, "HeaderTooLarge", text("a header of ", length, " bytes"),
                    text("at most ", kLongestSafetensorsHeader));
  }
  if (length > static_cast<std::uint64_t>(size) - 8) {
    bad_safetensors(name, "InvalidHeaderLength", text("a header of ", length, " bytes"),
                    text("at most ", size - 8, ", what the file has left"));
  }
  const std::string json = read_header_text(file, length);
  const std::int64_t data_begin = 8 + static_cast<std::int64_t>(length);
  SafetensorsHeader header = parse_safetensors_header(json, size - data_begin, name);
  return {std::move(file), std::move(header), data_begin};
}

const SafetensorsEntry* SafetensorsFile::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &header_.tensors[found->second];
}

const SafetensorsEntry& SafetensorsFile::at(std::string_view name) const {
  const SafetensorsEntry* entry = find(name);
  if (entry != nullptr) return *entry;
  throw Error(ErrorCode::kCorruptData, {.what = text(path().string(), ": tensor ", name),
                                        .found = "nothing of that name",
                                        .expected = "the tensor",
                                        .fix = "use the file that belongs to this model"});
}

void SafetensorsFile::read(std::string_view name, std::span<std::byte> out) const {
  const SafetensorsEntry& entry = at(name);
  require(static_cast<std::int64_t>(out.size()) == entry.end - entry.begin,
          {.what = text(path().string(), ": reading ", name),
           .found = text("room for ", out.size(), " bytes"),
           .expected = text(entry.end - entry.begin),
           .fix = "pass a span of the tensor's size"});
  file_.read(data_begin_ + entry.begin, out);
}

void SafetensorsFile::read_range(std::string_view name, std::int64_t first, std::int64_t count,
                                 std::span<std::byte> out) const {
  const SafetensorsEntry& entry = at(name);
  const std::int64_t bits = stored_type_of(entry.dtype)->bits;
  if (bits % 8 != 0) {
    throw Error(ErrorCode::kUnsupported, {.what = text(path().string(), ": reading part of ", name),
                                          .found = entry.dtype,
                                          .expected = "elements of whole bytes",
                                          .fix = "read the whole tensor"});
  }
  const std::int64_t elements = entry.elements();
  require(first >= 0 && count >= 0 && first <= elements && count <= elements - first,
          {.what = text(path().string(), ": reading ", name),
           .found = text("elements ", first, " to ", first, " + ", count),
           .expected = text("elements within 0 to ", elements),
           .fix = "pass a range of this tensor"});
  require(static_cast<std::int64_t>(out.size()) == count * (bits / 8),
          {.what = text(path().string(), ": reading ", name),
           .found = text("room for ", out.size(), " bytes"),
           .expected = text(count * (bits / 8)),
           .fix = "pass a span of the range's size"});
  file_.read(data_begin_ + entry.begin + first * (bits / 8), out);
}

void SafetensorsFile::read_f32(std::string_view name, std::int64_t first,
                               std::span<float> out) const {
  const SafetensorsEntry& entry = at(name);
  const std::optional<DType> dtype = dtype_of_stored(entry.dtype);
  if (dtype == DType::kF32) {
    read_range(name, first, static_cast<std::int64_t>(out.size()), std::as_writable_bytes(out));
    return;
  }
  if (dtype != DType::kF64 && dtype != DType::kF16 && dtype != DType::kBf16) {
    throw Error(ErrorCode::kUnsupported, {.what = text(path().string(), ": tensor ", name),
                                          .found = entry.dtype,
                                          .expected = "F64, F32, F16 or BF16",
                                          .fix = "convert the file to one of these"});
  }
  const std::int64_t bytes = size_of(*dtype);
  std::vector<std::byte> staging;
  while (!out.empty()) {
    const std::int64_t count =
        std::min(kStagingBytes / bytes, static_cast<std::int64_t>(out.size()));
    staging.resize(static_cast<std::size_t>(count * bytes));
    read_range(name, first, count, staging);
    convert_to_f32(*dtype, staging, out.first(static_cast<std::size_t>(count)));
    first += count;
    out = out.subspan(static_cast<std::size_t>(count));
  }
}

}  // namespace hethub

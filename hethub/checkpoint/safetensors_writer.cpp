#include "hethub/checkpoint/safetensors_writer.h"

#include <algorithm>
#include <set>

#include <nlohmann/json.hpp>

#include "hethub/base/error.h"
#include "hethub/base/json.h"
#include "hethub/checkpoint/safetensors_header.h"
#include "hethub/checkpoint/stored_type.h"

namespace hethub {
namespace {

void check_names(const std::vector<SafetensorsTensor>& tensors, const std::string& file) {
  std::set<std::string_view> seen;
  for (const SafetensorsTensor& tensor : tensors) {
    const bool fresh = seen.insert(tensor.name).second;
    require(fresh && tensor.name != "__metadata__", {.what = file + ": writing",
                                                     .found = text("the name ", tensor.name),
                                                     .expected = "each name once, no __metadata__",
                                                     .fix = "rename the tensor"});
  }
}

// The tensors in file order, with their places.
std::vector<SafetensorsEntry> placed(std::vector<SafetensorsTensor> tensors) {
  const auto order_of = [](const SafetensorsTensor& tensor) {
    return stored_type_of(stored_name_of(tensor.dtype))->order;
  };
  std::sort(tensors.begin(), tensors.end(), [&](const auto& a, const auto& b) {
    if (a.dtype != b.dtype) return order_of(a) > order_of(b);
    return a.name < b.name;
  });
  std::vector<SafetensorsEntry> entries;
  std::int64_t end = 0;
  for (const SafetensorsTensor& tensor : tensors) {
    entries.push_back({.name = tensor.name,
                       .dtype = std::string(stored_name_of(tensor.dtype)),
                       .shape = tensor.shape,
                       .begin = end});
    end += entries.back().elements() * size_of(tensor.dtype);
    entries.back().end = end;
  }
  return entries;
}

std::string header_text(const std::vector<SafetensorsEntry>& entries,
                        const std::map<std::string, std::string>& metadata,
                        const std::string& file) {
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::string out;
  try {
    // Entry by entry: looking a key up in ordered JSON takes time in proportion to its size.
    out = header.dump();
    out.pop_back();
    for (const SafetensorsEntry& entry : entries) {
      const Json facts = {{"dtype", entry.dtype},
                          {"shape", entry.shape},
                          {"data_offsets", {entry.begin, entry.end}}};
      out += text(out.size() > 1 ? "," : "", Json(entry.name).dump(), ":", facts.dump());
    }
  } catch (const Json::type_error&) {
    throw Error(ErrorCode::kInvalidArgument, {.what = file + ": writing",
                                              .found = "a name that is not UTF-8",
                                              .expected = "UTF-8",
                                              .fix = "rename the tensor"});
  }
  out += "}";
  out.append((8 - out.size() % 8) % 8, ' ');
  return out;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& file,
                                     const std::vector<SafetensorsTensor>& tensors,
                                     const std::map<std::string, std::string>& metadata)
    : file_(FileHandle::create(file)), entries_(placed(tensors)) {
  check_names(tensors, file.string());
  const std::string header = header_text(entries_, metadata, file.string());
  const std::uint64_t length = header.size();
  require(length <= kLongestSafetensorsHeader,
          {.what = file.string() + ": writing",
           .found = text("a header of ", length, " bytes"),
           .expected = text("at most ", kLongestSafetensorsHeader),
           .fix = "write fewer tensors into one file"});
  put(std::as_bytes(std::span(&length, 1)));
  put(std::as_bytes(std::span(header)));
}

void SafetensorsWriter::put(std::span<const std::byte> bytes) {
  file_.append(bytes);
  checksum_.add(bytes);
  file_bytes_ += static_cast<std::int64_t>(bytes.size());
}

void SafetensorsWriter::append(std::string_view name, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  while (current_ < entries_.size() && data_bytes_ == entries_[current_].end) {
    ++current_;
  }
  const auto size = static_cast<std::int64_t>(bytes.size());
  const bool fits = current_ < entries_.size() && entries_[current_].name == name &&
                    size <= entries_[current_].end - data_bytes_;
  require(fits, {.what = text(file_.path().string(), ": writing ", name),
                 .found = text(size, " bytes after ", data_bytes_),
                 .expected = current_ < entries_.size()
                                 ? text("at most ", entries_[current_].end - data_bytes_,
                                        " bytes of ", entries_[current_].name)
                                 : std::string("no more bytes"),
                 .fix = "write the tensors in the order of entries()"});
  put(bytes);
  data_bytes_ += size;
}

WrittenFile SafetensorsWriter::finish() {
  const std::int64_t expected = entries_.empty() ? 0 : entries_.back().end;
  require(data_bytes_ == expected, {.what = file_.path().string() + ": finishing",
                                    .found = text(data_bytes_, " bytes"),
                                    .expected = text(expected),
                                    .fix = "write every tensor before finishing"});
  file_.sync();
  return {.bytes = file_bytes_, .checksum = checksum_.hex()};
}

}  // namespace hethub

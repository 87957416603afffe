#include "hethub/checkpoint/safetensors_writer.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include "tests/checkpoint/files.h"

namespace hethub {
namespace {

std::span<const std::byte> bytes_of(std::string_view content) {
  return std::as_bytes(std::span(content));
}

TEST(SafetensorsWriter, no_tensor_and_no_metadata_gives_the_official_sixteen_bytes) {
  const TemporaryFolder folder;
  SafetensorsWriter(folder / "f", {}, {}).finish();
  EXPECT_EQ(read_file(folder / "f"), std::string("\x08\0\0\0\0\0\0\0{}      ", 16));
}

TEST(SafetensorsWriter, metadata_alone_gives_a_header_alone) {
  const TemporaryFolder folder;
  SafetensorsWriter(folder / "f", {}, {{"key", "value"}}).finish();  // 32 bytes: no padding
  EXPECT_EQ(read_file(folder / "f"), safetensors_bytes(R"({"__metadata__":{"key":"value"}})"));
  EXPECT_TRUE(SafetensorsFile::open(folder / "f").tensors().empty());
}

TEST(SafetensorsWriter, wide_types_come_first_then_names) {
  const TemporaryFolder folder;
  SafetensorsWriter writer(folder / "f", {{.name = "b", .dtype = DType::kU8, .shape = {3}},
                                          {.name = "z", .dtype = DType::kF32, .shape = {}},
                                          {.name = "y", .dtype = DType::kI64, .shape = {1}},
                                          {.name = "a", .dtype = DType::kF32, .shape = {1, 1}}});
  std::string order;
  for (const SafetensorsEntry& entry : writer.entries()) {
    order += entry.name;
    for (std::int64_t byte = entry.begin; byte < entry.end; ++byte) {
      writer.append(entry.name, bytes_of(entry.name));  // byte by byte
    }
  }
  const WrittenFile written = writer.finish();
  EXPECT_EQ(order, "yazb");
  const std::string content = read_file(folder / "f");
  EXPECT_EQ(
      content.substr(8, content.find("}}") - 6),
      R"({"__metadata__":{"format":"pt"},"y":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},)"
      R"("a":{"dtype":"F32","shape":[1,1],"data_offsets":[8,12]},)"
      R"("z":{"dtype":"F32","shape":[],"data_offsets":[12,16]},)"
      R"("b":{"dtype":"U8","shape":[3],"data_offsets":[16,19]}})");
  EXPECT_EQ(content.substr(content.size() - 19), "yyyyyyyyaaaazzzzbbb");
  EXPECT_EQ((content.size() - 19) % 8, 0U);
  EXPECT_EQ(written.bytes, static_cast<std::int64_t>(content.size()));
  const XXH128_hash_t hash = XXH3_128bits(content.data(), content.size());
  std::array<char, 33> hex = {};
  std::snprintf(hex.data(), hex.size(), "%016llx%016llx",
                static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  EXPECT_EQ(written.checksum, hex.data());
  EXPECT_EQ(SafetensorsFile::open(folder / "f").at("a").begin, 8);
}

TEST(SafetensorsWriter, names_that_json_must_escape_survive) {
  const TemporaryFolder folder;
  const std::string name = "a \"quoted\"\n\\name \xc3\xa9";
  SafetensorsWriter(folder / "f", {{.name = name, .dtype = DType::kF32, .shape = {0}}}).finish();
  EXPECT_EQ(SafetensorsFile::open(folder / "f").tensors().at(0).name, name);
}

TEST(SafetensorsWriter, misuse_is_refused) {
  const TemporaryFolder folder;
  const SafetensorsTensor tensor = {.name = "a", .dtype = DType::kU8, .shape = {2}};
  const auto refused = [](const std::function<void()>& body) {
    error_of(ErrorCode::kInvalidArgument, body);
  };
  refused([&] { SafetensorsWriter(folder / "f", {tensor, tensor}); });
  refused([&] { SafetensorsWriter(folder / "f", {{.name = "__metadata__", .shape = {}}}); });
  refused([&] { SafetensorsWriter(folder / "f", {{.name = "\xff", .shape = {}}}); });
  SafetensorsWriter writer(folder / "f", {tensor});
  refused([&] { writer.append("b", bytes_of("x")); });
  refused([&] { writer.append("a", bytes_of("xyz")); });
  refused([&] { writer.finish(); });
  writer.append("a", bytes_of("xy"));
  refused([&] { writer.append("a", bytes_of("z")); });
  writer.finish();
  error_of(ErrorCode::kCannotWrite,
           [&] { SafetensorsWriter(folder / "none" / "f", {tensor}).finish(); });
}

}  // namespace
}  // namespace hethub

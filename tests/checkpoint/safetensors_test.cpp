#include "hethub/checkpoint/safetensors.h"

#include <chrono>
#include <cmath>
#include <fstream>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "hethub/checkpoint/convert.h"
#include "tests/checkpoint/files.h"

namespace hethub {
namespace {

const std::string kGood = R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})";

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"a":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets +
         "}}";
}

std::string refusal_of(const std::string& bytes) {
  const TemporaryFolder folder;
  put_file(folder / "f.safetensors", bytes);
  return error_of(ErrorCode::kCorruptData,
                  [&] { SafetensorsFile::open(folder / "f.safetensors"); });
}

SafetensorsFile opened(const TemporaryFolder& folder, const std::string& bytes) {
  put_file(folder / "f.safetensors", bytes);
  return SafetensorsFile::open(folder / "f.safetensors");
}

struct BadFile {
  std::string because;
  std::string bytes;
  std::string official_error;
};

std::string length_only(std::uint64_t length, std::size_t padding) {
  std::string out = safetensors_bytes("", std::string(padding, ' '));
  std::memcpy(out.data(), &length, sizeof(length));
  return out;
}

BadFile bad(const std::string& because, const std::string& header, const std::string& error) {
  return {because, safetensors_bytes(header, "xy"), error};
}

std::vector<BadFile> files_with_a_bad_header() {
  const std::string deserialization = "InvalidHeaderDeserialization";
  return {
      {"empty", "", "HeaderTooSmall"},
      {"seven bytes", "1234567", "HeaderTooSmall"},
      {"100000001", length_only(100'000'001, 64), "HeaderTooLarge"},
      {"2^63", length_only(std::uint64_t{1} << 63, 64), "HeaderTooLarge"},
      {"all ones", length_only(~std::uint64_t{0}, 64), "HeaderTooLarge"},
      {"longer than the file", length_only(65, 64), "InvalidHeaderLength"},
      {"no header", length_only(0, 0), deserialization},
      bad("not UTF-8", "{\"a\xff\":1}", "InvalidHeader,"),
      bad("surrogate in UTF-8", "{\"\xed\xa0\x80\":1}", "InvalidHeader,"),
      bad("overlong UTF-8", "{\"\xc0\x80\":1}", "InvalidHeader,"),
      bad("not JSON", "hello", deserialization),
      bad("only spaces", "        ", deserialization),
      bad("an array", "[]", deserialization),
      bad("a number", "17", deserialization),
      bad("trailing text", kGood + "x", deserialization),
      bad("trailing text behind a NUL", kGood + std::string("\0x", 2), deserialization),
      bad("a byte order mark", "\xEF\xBB\xBF" + kGood, deserialization),
      bad("a lone surrogate", R"({"\ud800":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
          deserialization),
      bad("the malformed old writer", R"({},"__metadata__":{"key":"value"}})", deserialization),
      bad("no dtype", R"({"a":{"shape":[2],"data_offsets":[0,2]}})", deserialization),
      bad("no shape", R"({"a":{"dtype":"U8","data_offsets":[0,2]}})", deserialization),
      bad("no offsets", R"({"a":{"dtype":"U8","shape":[2]}})", deserialization),
      bad("unknown dtype", entry("\"F33\"", "[2]", "[0,2]"), deserialization),
      bad("dtype is a number", entry("8", "[2]", "[0,2]"), deserialization),
      bad("negative shape", entry("\"U8\"", "[-2]", "[0,2]"), deserialization),
      bad("float shape", entry("\"U8\"", "[2.0]", "[0,2]"), deserialization),
      bad("2^64 in a shape", entry("\"U8\"", "[18446744073709551616]", "[0,2]"), deserialization),
      bad("nested shape", entry("\"U8\"", "[[2]]", "[0,2]"), deserialization),
      bad("shape of strings", entry("\"U8\"", "[\"2\"]", "[0,2]"), deserialization),
      bad("shape is null", entry("\"U8\"", "null", "[0,2]"), deserialization),
      bad("shape is an object", entry("\"U8\"", "{}", "[0,2]"), deserialization),
      bad("three offsets", entry("\"U8\"", "[2]", "[0,2,2]"), deserialization),
      bad("one offset", entry("\"U8\"", "[2]", "[2]"), deserialization),
      bad("a tensor that is a list", R"({"a":["U8",[2],[0,2]]})", deserialization),
      bad("a list behind an unknown field",
          R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2],"x":1},"b":[1]})",
          deserialization),
      bad("the same field twice",
          R"({"a":{"dtype":"U8","dtype":"U8","shape":[2],"data_offsets":[0,2]}})", deserialization),
      bad("the same tensor twice",
          R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
          R"("a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
          deserialization),
      bad("metadata twice", R"({"__metadata__":{},"__metadata__":{}})", deserialization),
      bad("metadata is a list", R"({"__metadata__":[]})", deserialization),
      bad("nesting", "{\"a\":" + std::string(200, '[') + std::string(200, ']') + "}",
          deserialization),
      bad("deep nesting in a field nobody reads",
          "{\"a\":{\"x\":" + std::string(100'000, '[') + std::string(100'000, ']') + "}}",
          deserialization),
  };
}

std::vector<BadFile> files_with_bad_places() {
  return {
      bad("first tensor not at 0", entry("\"U8\"", "[1]", "[1,2]"), "InvalidOffset(a)"),
      bad("end before begin", entry("\"U8\"", "[2]", "[2,0]"), "InvalidOffset(a)"),
      bad("a hole",
          R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
          R"("b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
          "InvalidOffset(b)"),
      bad("an overlap",
          R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
          R"("b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
          "InvalidOffset(b)"),
      bad("product overflows", entry("\"F32\"", "[4294967296,4294967296,2]", "[0,2]"),
          "ValidationOverflow"),
      bad("bits overflow", entry("\"F64\"", "[1152921504606846976]", "[0,2]"),
          "ValidationOverflow"),
      bad("a size that no file has", entry("\"U8\"", "[18446744073709551615,0]", "[0,0]"),
          "ValidationOverflow"),
      bad("half a byte", entry("\"F4\"", "[3]", "[0,2]"), "MisalignedSlice"),
      bad("too few bytes", entry("\"F32\"", "[1]", "[0,2]"), "TensorInvalidInfo"),
      {"truncated", safetensors_bytes(kGood, "x"), "MetadataIncompleteBuffer"},
      {"over-long", safetensors_bytes(kGood, "xyz"), "MetadataIncompleteBuffer"},
      bad("data without a tensor", "{}", "MetadataIncompleteBuffer"),
  };
}

TEST(Safetensors, every_malformed_file_is_refused_with_the_official_error) {
  for (const auto& files : {files_with_a_bad_header(), files_with_bad_places()}) {
    for (const BadFile& file : files) {
      EXPECT_TRUE(contains(refusal_of(file.bytes), file.official_error)) << file.because;
    }
  }
}

TEST(Safetensors, what_the_official_library_accepts_is_accepted) {
  const std::vector<std::string> good = {
      safetensors_bytes("  \n" + kGood, "xy"),
      safetensors_bytes(kGood + "   ", "xy"),
      safetensors_bytes("{}"),
      safetensors_bytes(R"({"__metadata__":null})"),
      safetensors_bytes(R"({"__metadata__":{"unquoted_int":"0"}})"),
      safetensors_bytes(entry("\"F32\"", "[]", "[0,4]"), "abcd"),  // a scalar
      safetensors_bytes(entry("\"F32\"", "[7,0]", "[0,0]")),       // nothing
      safetensors_bytes(entry("\"F4\"", "[4]", "[0,2]"), "xy"),    // two to a byte
      safetensors_bytes(R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2],"extra":[{"x":1}]},)"
                        R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                        "xy"),  // any order, unknown fields
  };
  for (const std::string& bytes : good) {
    const TemporaryFolder folder;
    EXPECT_NO_THROW(opened(folder, bytes)) << bytes;
  }
}

TEST(Safetensors, a_number_in_the_metadata_is_named) {
  const std::string header =
      R"({"__metadata__":{"unquoted_int":0},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  const std::string message = refusal_of(safetensors_bytes(header, "x"));
  EXPECT_TRUE(contains(message, "InvalidHeaderDeserialization"));
  EXPECT_TRUE(contains(message, "__metadata__.unquoted_int"));
  EXPECT_TRUE(contains(message, "must be a string"));
}

TEST(Safetensors, a_truncated_file_is_told_from_its_sizes) {
  const std::string whole = safetensors_bytes(kGood, "xy");
  const std::string size = std::to_string(whole.size());
  const std::string cut = refusal_of(whole.substr(0, whole.size() - 1));
  EXPECT_TRUE(
      contains(cut, "expected " + size + " bytes, file has " + std::to_string(whole.size() - 1)));
  EXPECT_TRUE(contains(cut, "the download was probably interrupted"));
  EXPECT_TRUE(contains(refusal_of(whole + "z"), "expected " + size + " bytes, file has " +
                                                    std::to_string(whole.size() + 1)));
}

TEST(Safetensors, a_file_cut_while_it_is_open_is_an_error_and_no_signal) {
  const TemporaryFolder folder;
  const SafetensorsFile file = opened(folder, safetensors_bytes(kGood, "xy"));
  std::filesystem::resize_file(file.path(), 20);
  std::vector<std::byte> out(2);
  error_of(ErrorCode::kCorruptData, [&] { file.read("a", out); });
}

// Peak resident memory of this process in bytes, reset by the first call of each test.
std::int64_t peak_memory() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    if (word != "VmHWM:") continue;
    std::int64_t kib = 0;
    status >> kib;
    return kib * 1024;
  }
  return 0;
}

TEST(Safetensors, header_attacks_take_neither_memory_nor_time) {
  std::ofstream("/proc/self/clear_refs") << "5";
  const TemporaryFolder folder;
  std::vector<std::string> attacks = {
      length_only(100'000'001, 0), length_only(std::uint64_t{1} << 63, 0), length_only(1, 0),
      "1234567", safetensors_bytes(entry("\"F32\"", "[4294967296,4294967296,2]", "[0,4]"), "abcd")};
  put_file(folder / "zeros", length_only(99'999'999, 0));
  std::filesystem::resize_file(folder / "zeros", 200'000'000);  // a hole, no disk
  for (std::size_t attack = 0; attack < attacks.size(); ++attack) {
    put_file(folder / std::to_string(attack), attacks[attack]);
  }
  attacks.emplace_back();
  std::filesystem::rename(folder / "zeros", folder / std::to_string(attacks.size() - 1));
  const std::int64_t before = peak_memory();
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t attack = 0; attack < attacks.size(); ++attack) {
    error_of(ErrorCode::kCorruptData,
             [&] { SafetensorsFile::open(folder / std::to_string(attack)); });
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  EXPECT_LT(peak_memory() - before, std::int64_t{16} << 20);
  EXPECT_LT(elapsed.count(), 0.05 * static_cast<double>(attacks.size()));
}

TEST(Safetensors, a_missing_file_or_a_folder_is_missing_input) {
  const TemporaryFolder folder;
  error_of(ErrorCode::kMissingInput, [&] { SafetensorsFile::open(folder / "none"); });
  error_of(ErrorCode::kMissingInput, [&] { SafetensorsFile::open(folder.path()); });
}

TEST(Safetensors, a_range_holds_the_elements_asked_for) {
  const TemporaryFolder folder;
  std::vector<std::int32_t> values(100);
  for (int element = 0; element < 100; ++element) {
    values[static_cast<std::size_t>(element)] = 7 * element;
  }
  // A header of odd length leaves the data misaligned.
  std::string header = entry("\"I32\"", "[10,10]", "[0,400]");
  if (header.size() % 2 == 0) header += " ";
  const SafetensorsFile file = opened(
      folder, safetensors_bytes(header, {reinterpret_cast<const char*>(values.data()), 400}));
  for (std::int64_t first = 0; first <= 100; ++first) {
    for (const std::int64_t count : {std::int64_t{0}, std::int64_t{1}, 100 - first}) {
      if (first + count > 100) continue;
      std::vector<std::int32_t> out(static_cast<std::size_t>(count));
      file.read_range("a", first, count, std::as_writable_bytes(std::span(out)));
      EXPECT_TRUE(std::equal(out.begin(), out.end(), values.begin() + first));
    }
  }
  std::vector<std::byte> out(8);
  error_of(ErrorCode::kInvalidArgument, [&] { file.read_range("a", 99, 2, out); });
  error_of(ErrorCode::kInvalidArgument, [&] { file.read_range("a", -1, 2, out); });
  error_of(ErrorCode::kInvalidArgument,
           [&] { file.read_range("a", 1, std::numeric_limits<std::int64_t>::max(), out); });
  error_of(ErrorCode::kInvalidArgument, [&] { file.read_range("a", 0, 1, out); });
  error_of(ErrorCode::kCorruptData, [&] { file.read("b", out); });
}

TEST(Safetensors, f64_f16_and_bf16_are_read_as_f32) {
  const std::vector<double> f64 = {1.0, -0.1, 1e300};
  const std::vector<std::uint16_t> f16 = {0x3C00, 0xC000, 0x0001, 0x7BFF, 0x8000, 0x7C00, 0x7E00};
  const std::vector<std::uint16_t> bf16 = {0x3F80, 0xC049};
  std::string data;
  data.append(reinterpret_cast<const char*>(f64.data()), 24);
  data.append(reinterpret_cast<const char*>(f16.data()), 14);
  data.append(reinterpret_cast<const char*>(bf16.data()), 4);
  const TemporaryFolder folder;
  const SafetensorsFile file = opened(
      folder, safetensors_bytes(R"({"d":{"dtype":"F64","shape":[3],"data_offsets":[0,24]},)"
                                R"("h":{"dtype":"F16","shape":[7],"data_offsets":[24,38]},)"
                                R"("b":{"dtype":"BF16","shape":[2],"data_offsets":[38,42]}})",
                                data));
  std::vector<float> out(3);
  file.read_f32("d", 0, out);
  EXPECT_EQ(out, (std::vector<float>{1.0F, -0.1F, std::numeric_limits<float>::infinity()}));
  out.resize(7);
  file.read_f32("h", 0, out);
  EXPECT_TRUE(std::isnan(out.back()));
  out.pop_back();
  EXPECT_EQ(out, (std::vector<float>{1.0F, -2.0F, 0x1p-24F, 65504.0F, -0.0F,
                                     std::numeric_limits<float>::infinity()}));
  EXPECT_TRUE(std::signbit(out[4]));
  out.resize(1);
  file.read_f32("b", 1, out);
  EXPECT_EQ(out[0], -3.140625F);
}

TEST(Safetensors, integers_are_not_read_as_f32) {
  const TemporaryFolder folder;
  const SafetensorsFile file = opened(folder, safetensors_bytes(kGood, "xy"));
  std::vector<float> out(2);
  error_of(ErrorCode::kUnsupported, [&] { file.read_f32("a", 0, out); });
}

TEST(Safetensors, a_file_of_another_writer_is_read) {
  const SafetensorsFile file = SafetensorsFile::open(std::filesystem::path(HETHUB_TEST_DATA) /
                                                     "golden" / "qwen2" / "model.safetensors");
  EXPECT_EQ(file.metadata().at("format"), "pt");
  const SafetensorsEntry& embedding = file.at("model.embed_tokens.weight");
  EXPECT_EQ(embedding.shape, (std::vector<std::int64_t>{256, 64}));
  std::vector<float> whole(static_cast<std::size_t>(embedding.elements()));
  file.read_f32("model.embed_tokens.weight", 0, whole);
  std::vector<float> row(64);
  file.read_f32("model.embed_tokens.weight", 17 * 64, row);
  EXPECT_TRUE(std::equal(row.begin(), row.end(), whole.begin() + 17 * 64));
  EXPECT_GT(std::abs(row[0]), 0.0F);
}

TEST(Safetensors, a_file_with_random_changes_is_read_or_refused_and_never_crashes) {
  const TemporaryFolder folder;
  const std::string good = safetensors_bytes(
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
      R"("b":{"dtype":"BF16","shape":[4],"data_offsets":[16,24]}})",
      std::string(24, 'd'));
  std::mt19937 random(7);
  int refused = 0;
  for (int round = 0; round < 400; ++round) {
    std::string bytes = good;
    for (std::uint32_t change = 0; change <= random() % 3; ++change) {
      const std::size_t place = random() % bytes.size();
      switch (random() % 3) {
        case 0:
          bytes[place] = static_cast<char>(random());
          break;
        case 1:
          bytes.erase(place, 1 + random() % 4);
          break;
        case 2:
          bytes.insert(place, 1, "0123456789[]{},:\""[random() % 17]);
          break;
      }
    }
    put_file(folder / "f", bytes);
    try {
      const SafetensorsFile file = SafetensorsFile::open(folder / "f");
      for (const SafetensorsEntry& tensor : file.tensors()) {
        std::vector<std::byte> out(static_cast<std::size_t>(tensor.end - tensor.begin));
        file.read(tensor.name, out);
      }
    } catch (const Error& error) {
      EXPECT_EQ(name_of(error.code()), "corrupt_data") << error.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 200);
  EXPECT_LT(refused, 400);
}

}  // namespace
}  // namespace hethub

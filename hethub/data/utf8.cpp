#include "hethub/data/utf8.h"

#include <cstring>

namespace hethub {
namespace {

struct Character {
  std::size_t bytes = 1;  // of the character, or of the maximal part that could begin one
  bool valid = false;
};

unsigned byte_at(std::string_view bytes, std::size_t at) {
  return static_cast<unsigned char>(bytes[at]);
}

// How many bytes follow this first byte; 0 if none can.
std::size_t followers_of(unsigned first) {
  if (first >= 0xC2 && first <= 0xDF) return 1;
  if (first >= 0xE0 && first <= 0xEF) return 2;
  return first >= 0xF0 && first <= 0xF4 ? 3 : 0;
}

// The second byte has a narrower range after some first bytes.
bool second_fits(unsigned first, unsigned second) {
  const unsigned low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  return second >= low && second <= high;
}

Character character_at(std::string_view bytes, std::size_t at) {
  const unsigned first = byte_at(bytes, at);
  if (first < 0x80) return {.bytes = 1, .valid = true};
  const std::size_t followers = followers_of(first);
  std::size_t count = 1;
  while (count <= followers && at + count < bytes.size()) {
    const unsigned next = byte_at(bytes, at + count);
    const bool fits = count == 1 ? second_fits(first, next) : (next & 0xC0U) == 0x80;
    if (!fits) break;
    ++count;
  }
  return {.bytes = count, .valid = followers > 0 && count == followers + 1};
}

// Whether eight bytes from `at` on are all ASCII, which most text is.
bool eight_ascii(std::string_view bytes, std::size_t at) {
  if (at + 8 > bytes.size()) return false;
  std::uint64_t word = 0;
  std::memcpy(&word, bytes.data() + at, 8);
  return (word & 0x8080808080808080ULL) == 0;
}

}  // namespace

std::size_t first_invalid_utf8(std::string_view bytes) {
  for (std::size_t at = 0; at < bytes.size();) {
    if (eight_ascii(bytes, at)) {
      at += 8;
      continue;
    }
    const Character character = character_at(bytes, at);
    if (!character.valid) return at;
    at += character.bytes;
  }
  return std::string_view::npos;
}

std::string replaced_utf8(std::string_view bytes) {
  std::string out;
  for (std::size_t at = 0; at < bytes.size();) {
    const Character character = character_at(bytes, at);
    out += character.valid ? bytes.substr(at, character.bytes) : kReplacementCharacter;
    at += character.bytes;
  }
  return out;
}

void append_utf8(std::uint32_t code_point, std::string& out) {
  const auto add = [&](std::uint32_t byte) { out += static_cast<char>(byte); };
  const auto follower = [&](int shift) { add(0x80 | ((code_point >> shift) & 0x3F)); };
  if (code_point < 0x80) {
    add(code_point);
  } else if (code_point < 0x800) {
    add(0xC0 | code_point >> 6);
    follower(0);
  } else if (code_point < 0x10000) {
    add(0xE0 | code_point >> 12);
    follower(6);
    follower(0);
  } else {
    add(0xF0 | code_point >> 18);
    follower(12);
    follower(6);
    follower(0);
  }
}

}  // namespace hethub

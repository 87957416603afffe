#include "hethub/checkpoint/checksum.h"

#include <string_view>

#include <xxhash.h>

#include "hethub/base/error.h"

namespace hethub {

struct Checksum::State {
  XXH3_state_t* hash = XXH3_createState();

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { XXH3_freeState(hash); }
};

Checksum::Checksum() : state_(std::make_unique<State>()) {
  if (state_->hash == nullptr || XXH3_128bits_reset(state_->hash) != XXH_OK) {
    throw Error(ErrorCode::kInternal, {.what = "checksum",
                                       .found = "no memory for its state",
                                       .expected = "some hundred bytes",
                                       .fix = "free memory on this host"});
  }
}

Checksum::Checksum(Checksum&&) noexcept = default;
Checksum& Checksum::operator=(Checksum&&) noexcept = default;
Checksum::~Checksum() = default;

void Checksum::add(std::span<const std::byte> bytes) {
  if (!bytes.empty()) XXH3_128bits_update(state_->hash, bytes.data(), bytes.size());
}

std::string Checksum::hex() const {
  XXH128_canonical_t canonical = {};
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state_->hash));
  std::string out;
  for (const unsigned char byte : canonical.digest) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

}  // namespace hethub

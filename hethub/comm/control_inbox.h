#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace hethub {

enum class ControlKind : std::uint32_t {
  kHeartbeat = 1,
  kSuspect,  ///< rank 0 to all: `rank` has been silent for `number` ms; 0: it is heard again
  kReport,   ///< to rank 0: what this rank takes for the failure
  kVerdict,  ///< rank 0 to all: what the job's failure is
  kArrive,   ///< to rank 0: has come to barrier `number`
  kRelease,  ///< rank 0 to all: all have
  kGoodbye,
};

/// What is said on a control connection; `bytes` of text follow.
struct ControlFrame {
  std::uint32_t magic = 0x43485448;  // "HTHC"
  ControlKind kind = ControlKind::kHeartbeat;
  std::int32_t rank = -1;
  std::uint32_t bytes = 0;
  std::uint64_t number = 0;
};

/// Makes frames of the bytes that a peer sends on a control connection, whatever they are. Holds at
/// most one frame and its text, in memory that is taken when the first bytes come.
class ControlInbox {
 public:
  static constexpr std::size_t kMostText = 2048;
  enum class Found : std::uint8_t { kNothing, kFrame, kMalformed };

  /// Where the next bytes go; never empty after next() has found nothing.
  std::span<std::byte> room();

  /// So many have come there.
  void add(std::size_t bytes) { got_ += bytes; }

  /// The next whole frame and its text. Once malformed, always malformed.
  Found next(ControlFrame& frame, std::string& text);

 private:
  static constexpr std::size_t kSize = sizeof(ControlFrame) + kMostText;

  std::unique_ptr<std::byte[]> bytes_ = {};
  std::size_t got_ = 0;
};

}  // namespace hethub

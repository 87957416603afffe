#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <type_traits>

#include "hethub/comm/handshake.h"

namespace hethub {

// What two ranks say before anything else: who answers sends a Challenge, who calls a Hello, who
// answers an Answer. Their sizes never change with the version. Nothing here touches a socket.

using Digest = std::array<std::byte, 32>;
using Magic = std::array<char, 8>;
inline constexpr Magic kMagic = {'H', 'E', 'T', 'H', 'U', 'B', '\r', '\n'};
inline constexpr std::uint32_t kByteOrder = 0x01020304;

struct Challenge {
  Magic magic = kMagic;
  std::uint32_t version = 0;
  std::uint32_t byte_order = kByteOrder;
  Digest nonce = {};
};

struct Hello {
  Magic magic = kMagic;
  std::uint32_t version = 0;
  std::uint32_t byte_order = kByteOrder;
  Digest nonce = {};
  Introduction introduction = {};
  Digest proof = {};  ///< of everything before it, and of the challenge
};

enum class Verdict : std::uint32_t { kWelcome, kWrongSecret, kWrongVersion, kWrongPlan, kRefused };

struct Answer {
  Magic magic = kMagic;
  Verdict verdict = Verdict::kWelcome;
  std::uint32_t version = 0;
  std::array<char, 496> why = {};
  Digest proof = {};  ///< of everything before it, and of the hello
};
static_assert(std::is_trivially_copyable_v<Hello> && std::is_trivially_copyable_v<Answer>);

/// Proofs of the two sides start with different words, so that neither can be sent back as the
/// other: HMAC-SHA256 under the secret.
Digest proof_of_hello(const Credentials& credentials, const Challenge& challenge,
                      const Hello& hello);
Digest proof_of_answer(const Credentials& credentials, const Hello& hello, const Answer& answer);

/// What becomes of a caller, and why.
struct Judgement {
  Verdict verdict = Verdict::kWelcome;
  std::string why = {};
};

/// Judges a hello, whatever bytes it has: version first, then the secret, then the plan, which must
/// be that of `mine`, then the rank, which must be one of `awaited`.
Judgement judge(const Credentials& credentials, const Introduction& mine,
                const std::set<int>& awaited, const Challenge& challenge, const Hello& hello);

/// The caller's side. Throws kInvalidConfig if what was read is no challenge of a rank. `whom`
/// names the other end in messages, here and below.
void check_challenge(const Challenge& challenge, const std::string& whom);

/// Throws as `introduce` does if the answer, whatever bytes it has, is no welcome or not by one who
/// knows the secret.
void check_answer(const Credentials& credentials, const Hello& hello, const Answer& answer,
                  const std::string& whom);

}  // namespace hethub

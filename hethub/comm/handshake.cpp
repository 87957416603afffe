#include "hethub/comm/handshake.h"

#include <cerrno>
#include <cstring>
#include <list>
#include <span>
#include <type_traits>
#include <vector>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "hethub/base/error.h"
#include "hethub/comm/tcp/socket.h"

namespace hethub {
namespace {

using Digest = std::array<std::byte, 32>;
using Magic = std::array<char, 8>;
constexpr Magic kMagic = {'H', 'E', 'T', 'H', 'U', 'B', '\r', '\n'};
constexpr std::uint32_t kByteOrder = 0x01020304;
constexpr double kUndecidedSeconds = 5;
constexpr std::size_t kMostUndecided = 1024;

// The three things said, in this order. Their sizes never change with the version.
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
  Digest proof = {};  // of everything before it, and of the challenge
};

enum class Verdict : std::uint32_t { kWelcome, kWrongSecret, kWrongVersion, kWrongPlan, kRefused };

struct Answer {
  Magic magic = kMagic;
  Verdict verdict = Verdict::kWelcome;
  std::uint32_t version = 0;
  std::array<char, 496> why = {};
  Digest proof = {};  // of everything before it, and of the hello
};
static_assert(std::is_trivially_copyable_v<Hello> && std::is_trivially_copyable_v<Answer>);

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

template <typename T>
std::span<const std::byte> without_proof(const T& message) {
  return bytes_of(message).first(sizeof(T) - sizeof(Digest));
}

Digest random_digest() {
  Digest digest = {};
  if (::getrandom(digest.data(), digest.size(), 0) != std::ssize(digest)) {
    throw Error(ErrorCode::kInternal, {.what = "random bytes for a challenge",
                                       .found = std::strerror(errno),
                                       .expected = "32 bytes from the system",
                                       .fix = "see whether getrandom is allowed here"});
  }
  return digest;
}

// Proofs of the two sides start with different words, so that neither can be sent back as the
// other.
Digest proof_of(const std::string& secret, std::string_view side, std::span<const std::byte> asked,
                std::span<const std::byte> said) {
  std::vector<std::byte> message;
  const auto word = std::as_bytes(std::span(side));
  message.insert(message.end(), word.begin(), word.end());
  message.insert(message.end(), asked.begin(), asked.end());
  message.insert(message.end(), said.begin(), said.end());
  Digest digest = {};
  unsigned size = 0;
  ::HMAC(::EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
         reinterpret_cast<const unsigned char*>(message.data()), message.size(),
         reinterpret_cast<unsigned char*>(digest.data()), &size);
  return digest;
}

bool equal(const Digest& a, const Digest& b) {
  return ::CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

Digest proof_of_hello(const Credentials& credentials, const Challenge& challenge,
                      const Hello& hello) {
  return proof_of(credentials.secret, "hello", bytes_of(challenge), without_proof(hello));
}

Digest proof_of_answer(const Credentials& credentials, const Hello& hello, const Answer& answer) {
  return proof_of(credentials.secret, "answer", bytes_of(hello), without_proof(answer));
}

// A connection that has not shown yet that it knows the secret.
struct Undecided {
  Descriptor socket = {};
  std::string from = {};
  Deadline deadline = {};
  Challenge challenge = {};
  Hello hello = {};
  std::size_t received = 0;
};

class Answering {
 public:
  Answering(int listener, const Credentials& credentials, const Introduction& mine, int first,
            std::map<int, MetPeer>& met)
      : listener_(listener), credentials_(credentials), mine_(mine), first_(first), met_(met) {}

  void run(Deadline deadline) {
    while (!complete()) {
      if (std::chrono::steady_clock::now() >= deadline) throw_missing();
      wait(deadline);
      take_new();
      for (auto at = undecided_.begin(); at != undecided_.end();) {
        at = decided(*at) ? undecided_.erase(at) : std::next(at);
      }
    }
  }

 private:
  bool complete() const { return static_cast<int>(met_.size()) == mine_.world_size - first_; }

  void wait(Deadline deadline) const {
    std::vector<int> sockets = {listener_};
    for (const Undecided& one : undecided_) {
      sockets.push_back(one.socket.get());
      deadline = std::min(deadline, one.deadline);
    }
    wait_readable(sockets, deadline);
  }

  void take_new() {
    for (Descriptor socket = accept_from(listener_); socket.valid();
         socket = accept_from(listener_)) {
      Undecided one{.socket = std::move(socket), .deadline = after_seconds(kUndecidedSeconds)};
      one.from = peer_address(one.socket.get()).host;
      one.challenge = {.version = credentials_.version, .nonce = random_digest()};
      // A new connection has room for so little; if not, it is not answered.
      const auto bytes = bytes_of(one.challenge);
      if (::send(one.socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) != std::ssize(bytes)) {
        continue;
      }
      if (undecided_.size() == kMostUndecided) undecided_.pop_front();
      undecided_.push_back(std::move(one));
    }
  }

  // True if the connection is met or refused, and need not be kept here.
  bool decided(Undecided& one) {
    const auto rest = std::as_writable_bytes(std::span(&one.hello, 1)).subspan(one.received);
    const ssize_t given = ::recv(one.socket.get(), rest.data(), rest.size(), MSG_DONTWAIT);
    if (given == 0) return refuse(one, "closed the connection before it had said who it is");
    if (given < 0) {
      if (errno != EAGAIN && errno != EINTR) return refuse(one, std::strerror(errno));
      if (std::chrono::steady_clock::now() < one.deadline) return false;
      return refuse(one, "did not say in time who it is");
    }
    one.received += static_cast<std::size_t>(given);
    const std::size_t begun = std::min(one.received, kMagic.size());
    if (std::memcmp(one.hello.magic.data(), kMagic.data(), begun) != 0) {
      return refuse(one, "does not speak this protocol");
    }
    if (one.received < sizeof(Hello)) return false;
    return judge(one);
  }

  bool judge(Undecided& one) {
    const Introduction& said = one.hello.introduction;
    if (one.hello.version != credentials_.version || one.hello.byte_order != kByteOrder) {
      return answer(
          one, Verdict::kWrongVersion,
          text("protocol version ", credentials_.version, " here, ", one.hello.version, " there"));
    }
    if (!equal(one.hello.proof, proof_of_hello(credentials_, one.challenge, one.hello))) {
      return answer(one, Verdict::kWrongSecret, "it does not know the secret");
    }
    if (said.world_size != mine_.world_size ||
        text_in(said.plan_hash) != text_in(mine_.plan_hash)) {
      const std::string why =
          text("rank ", said.rank, " (host ", text_in(said.host), ") has plan '",
               text_in(said.plan_hash), "' of ", said.world_size, " ranks, rank ", mine_.rank,
               " has plan '", text_in(mine_.plan_hash), "' of ", mine_.world_size, " ranks");
      answer(one, Verdict::kWrongPlan, why);
      throw Error(ErrorCode::kInvalidPlan, {.what = "ranks of one job",
                                            .found = why,
                                            .expected = "the same plan on all",
                                            .fix = "start all ranks with the same plan file"});
    }
    if (said.rank < first_ || said.rank >= mine_.world_size || met_.count(said.rank) > 0) {
      return answer(one, Verdict::kRefused,
                    text("rank ", said.rank, " is not awaited here, or has come before"));
    }
    answer(one, Verdict::kWelcome, {});
    met_[said.rank] = {.socket = std::move(one.socket), .introduction = said};
    return true;
  }

  bool answer(Undecided& one, Verdict verdict, const std::string& why) {
    Answer answer{.verdict = verdict, .version = credentials_.version};
    set_field(answer.why, why);
    answer.proof = proof_of_answer(credentials_, one.hello, answer);
    const auto bytes = bytes_of(answer);
    // If there is no room for it, the peer sees the end of the connection.
    static_cast<void>(::send(one.socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
    return verdict == Verdict::kWelcome || refuse(one, why);
  }

  bool refuse(const Undecided& one, std::string_view why) {
    ++refused_;
    last_refusal_ = text(one.from, " ", why);
    return true;
  }

  [[noreturn]] void throw_missing() const {
    std::string missing;
    for (int rank = first_; rank < mine_.world_size; ++rank) {
      if (met_.count(rank) == 0) missing += text(missing.empty() ? "" : ", ", rank);
    }
    const std::string refusals =
        refused_ == 0 ? ""
                      : text(" (", refused_, " connections refused; last: ", last_refusal_, ")");
    throw Error(ErrorCode::kTimeout,
                {.what = text("rendezvous at rank ", mine_.rank),
                 .found = text("no rank ", missing, " at the deadline", refusals),
                 .expected = text("all of ranks ", first_, " to ", mine_.world_size - 1),
                 .fix = "see why these ranks did not start, or raise the timeout"});
  }

  int listener_;
  const Credentials& credentials_;
  const Introduction& mine_;
  int first_;
  std::map<int, MetPeer>& met_;
  std::list<Undecided> undecided_;
  int refused_ = 0;
  std::string last_refusal_;
};

[[noreturn]] void throw_refused(const std::string& whom, const Answer& answer) {
  const std::string why = text_in(answer.why);
  switch (answer.verdict) {
    case Verdict::kWelcome:
    case Verdict::kRefused:
      break;
    case Verdict::kWrongSecret:
      throw Error(ErrorCode::kInvalidConfig,
                  {.what = text("secret shown to ", whom),
                   .found = "another than its own",
                   .expected = "the same on all ranks",
                   .fix = "set HETHUB_SECRET or HETHUB_SECRET_FILE alike on all ranks"});
    case Verdict::kWrongVersion:
      throw Error(ErrorCode::kInvalidConfig, {.what = text("hethub of ", whom),
                                              .found = why,
                                              .expected = "the same on all ranks",
                                              .fix = "run the same hethub on all nodes"});
    case Verdict::kWrongPlan:
      throw Error(ErrorCode::kInvalidPlan, {.what = "ranks of one job",
                                            .found = why,
                                            .expected = "the same plan on all",
                                            .fix = "start all ranks with the same plan file"});
  }
  throw Error(ErrorCode::kInvalidConfig, {.what = whom,
                                          .found = text("it refused: ", why),
                                          .expected = "a welcome",
                                          .fix = "see whether this rank was started twice"});
}

}  // namespace

void answer_peers(int listener, const Credentials& credentials, const Introduction& mine, int first,
                  Deadline deadline, std::map<int, MetPeer>& met) {
  Answering(listener, credentials, mine, first, met).run(deadline);
}

void introduce(int socket, const Credentials& credentials, const Introduction& mine,
               const std::string& whom, Deadline deadline) {
  Challenge challenge;
  recv_all(socket, std::as_writable_bytes(std::span(&challenge, 1)), deadline, whom);
  if (challenge.magic != kMagic) {
    throw Error(ErrorCode::kInvalidConfig, {.what = whom,
                                            .found = "something else that listens there",
                                            .expected = "a rank of hethub",
                                            .fix = "check MASTER_ADDR and MASTER_PORT"});
  }
  Hello hello{.version = credentials.version, .nonce = random_digest(), .introduction = mine};
  hello.proof = proof_of_hello(credentials, challenge, hello);
  send_all(socket, bytes_of(hello), deadline, whom);
  Answer answer;
  recv_all(socket, std::as_writable_bytes(std::span(&answer, 1)), deadline, whom);
  if (answer.verdict != Verdict::kWelcome) throw_refused(whom, answer);
  if (!equal(answer.proof, proof_of_answer(credentials, hello, answer))) {
    throw Error(ErrorCode::kInvalidConfig, {.what = whom,
                                            .found = "it does not know the secret",
                                            .expected = "the rank that this job's master is",
                                            .fix = "check MASTER_ADDR and MASTER_PORT"});
  }
}

}  // namespace hethub

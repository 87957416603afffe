#include "hethub/comm/handshake.h"

#include <cerrno>
#include <cstring>
#include <list>
#include <span>
#include <vector>

#include <sys/random.h>
#include <sys/socket.h>

#include "hethub/base/error.h"
#include "hethub/comm/greeting.h"
#include "hethub/comm/tcp/socket.h"

namespace hethub {
namespace {

constexpr double kUndecidedSeconds = 5;
constexpr std::size_t kMostUndecided = 1024;

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
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
  Answering(int listener, const Credentials& credentials, const Introduction& mine,
            const std::set<int>& awaited, std::map<int, MetPeer>& met)
      : listener_(listener),
        credentials_(credentials),
        mine_(mine),
        awaited_(awaited),
        met_(met),
        most_undecided_(std::max(kMostUndecided, 2 * static_cast<std::size_t>(mine.world_size))) {}

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
  bool complete() const { return std::ssize(met_) == std::ssize(awaited_); }

  void wait(Deadline deadline) const {
    std::vector<int> sockets = {listener_};
    for (const Undecided& one : undecided_) {
      sockets.push_back(one.socket.get());
      deadline = std::min(deadline, one.deadline);
    }
    wait_readable(sockets, deadline);
  }

  void take_new() {
    for (Descriptor socket = accept_next(); socket.valid(); socket = accept_next()) {
      Undecided one{.socket = std::move(socket), .deadline = after_seconds(kUndecidedSeconds)};
      one.from = peer_address(one.socket.get()).host;
      one.challenge = {.version = credentials_.version, .nonce = random_digest()};
      // A new connection has room for so little; if not, it is not answered.
      const auto bytes = bytes_of(one.challenge);
      if (::send(one.socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) != std::ssize(bytes)) {
        continue;
      }
      if (undecided_.size() >= most_undecided_) undecided_.pop_front();
      undecided_.push_back(std::move(one));
    }
  }

  // Strangers must not hold all the descriptors that this process may have.
  Descriptor accept_next() {
    Descriptor socket = accept_from(listener_);
    while (!socket.valid() && (errno == EMFILE || errno == ENFILE) && !undecided_.empty()) {
      undecided_.pop_front();
      socket = accept_from(listener_);
    }
    return socket;
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
    Judgement judged = hethub::judge(credentials_, mine_, awaited_, one.challenge, one.hello);
    if (judged.verdict == Verdict::kWelcome && met_.count(said.rank) > 0) {
      judged = {Verdict::kRefused, text("rank ", said.rank, " has come before")};
    }
    answer(one, judged.verdict, judged.why);
    if (judged.verdict == Verdict::kWrongPlan) {
      throw Error(ErrorCode::kInvalidPlan, {.what = "ranks of one job",
                                            .found = judged.why,
                                            .expected = "the same plan on all",
                                            .fix = "start all ranks with the same plan file"});
    }
    if (judged.verdict != Verdict::kWelcome) return refuse(one, judged.why);
    met_[said.rank] = {.socket = std::move(one.socket), .introduction = said};
    return true;
  }

  void answer(const Undecided& one, Verdict verdict, const std::string& why) const {
    Answer answer{.verdict = verdict, .version = credentials_.version};
    set_field(answer.why, why);
    answer.proof = proof_of_answer(credentials_, one.hello, answer);
    const auto bytes = bytes_of(answer);
    // If there is no room for it, the peer sees the end of the connection.
    static_cast<void>(::send(one.socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
  }

  bool refuse(const Undecided& one, std::string_view why) {
    ++refused_;
    last_refusal_ = text(one.from, " ", why);
    return true;
  }

  [[noreturn]] void throw_missing() const {
    std::string missing;
    for (const int rank : awaited_) {
      if (met_.count(rank) == 0) missing += text(missing.empty() ? "" : ", ", rank);
    }
    const std::string refusals =
        refused_ == 0 ? ""
                      : text(" (", refused_, " connections refused; last: ", last_refusal_, ")");
    throw Error(ErrorCode::kTimeout,
                {.what = text("rendezvous at rank ", mine_.rank),
                 .found = text("no rank ", missing, " at the deadline", refusals),
                 .expected = text("all of ranks ", *awaited_.begin(), " to ", *awaited_.rbegin()),
                 .fix = "see why these ranks did not start, or raise the timeout"});
  }

  int listener_;
  const Credentials& credentials_;
  const Introduction& mine_;
  const std::set<int>& awaited_;
  std::map<int, MetPeer>& met_;
  std::size_t most_undecided_;
  std::list<Undecided> undecided_;
  int refused_ = 0;
  std::string last_refusal_;
};

}  // namespace

void answer_peers(int listener, const Credentials& credentials, const Introduction& mine,
                  const std::set<int>& awaited, Deadline deadline, std::map<int, MetPeer>& met) {
  Answering(listener, credentials, mine, awaited, met).run(deadline);
}

void introduce(int socket, const Credentials& credentials, const Introduction& mine,
               const std::string& whom, Deadline deadline) {
  Challenge challenge;
  recv_all(socket, std::as_writable_bytes(std::span(&challenge, 1)), deadline, whom);
  check_challenge(challenge, whom);
  Hello hello{.version = credentials.version, .nonce = random_digest(), .introduction = mine};
  hello.proof = proof_of_hello(credentials, challenge, hello);
  send_all(socket, bytes_of(hello), deadline, whom);
  Answer answer;
  recv_all(socket, std::as_writable_bytes(std::span(&answer, 1)), deadline, whom);
  check_answer(credentials, hello, answer, whom);
}

}  // namespace hethub

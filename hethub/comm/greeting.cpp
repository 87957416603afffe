#include "hethub/comm/greeting.h"

#include <span>
#include <string_view>
#include <vector>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "hethub/base/error.h"

namespace hethub {
namespace {

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

template <typename T>
std::span<const std::byte> without_proof(const T& message) {
  return bytes_of(message).first(sizeof(T) - sizeof(Digest));
}

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

Digest proof_of_hello(const Credentials& credentials, const Challenge& challenge,
                      const Hello& hello) {
  return proof_of(credentials.secret, "hello", bytes_of(challenge), without_proof(hello));
}

Digest proof_of_answer(const Credentials& credentials, const Hello& hello, const Answer& answer) {
  return proof_of(credentials.secret, "answer", bytes_of(hello), without_proof(answer));
}

Judgement judge(const Credentials& credentials, const Introduction& mine,
                const std::set<int>& awaited, const Challenge& challenge, const Hello& hello) {
  const Introduction& said = hello.introduction;
  if (hello.version != credentials.version || hello.byte_order != kByteOrder) {
    return {Verdict::kWrongVersion,
            text("protocol version ", credentials.version, " here, ", hello.version, " there")};
  }
  if (hello.magic != kMagic || !equal(hello.proof, proof_of_hello(credentials, challenge, hello))) {
    return {Verdict::kWrongSecret, "it does not know the secret"};
  }
  if (said.world_size != mine.world_size || text_in(said.plan_hash) != text_in(mine.plan_hash)) {
    return {Verdict::kWrongPlan,
            text("rank ", said.rank, " (host ", text_in(said.host), ") has plan '",
                 text_in(said.plan_hash), "' of ", said.world_size, " ranks, rank ", mine.rank,
                 " has plan '", text_in(mine.plan_hash), "' of ", mine.world_size, " ranks")};
  }
  if (awaited.count(said.rank) == 0) {
    return {Verdict::kRefused, text("rank ", said.rank, " is not awaited here")};
  }
  return {};
}

void check_challenge(const Challenge& challenge, const std::string& whom) {
  if (challenge.magic == kMagic) return;
  throw Error(ErrorCode::kInvalidConfig, {.what = whom,
                                          .found = "something else that listens there",
                                          .expected = "a rank of hethub",
                                          .fix = "check MASTER_ADDR and MASTER_PORT"});
}

void check_answer(const Credentials& credentials, const Hello& hello, const Answer& answer,
                  const std::string& whom) {
  if (answer.verdict != Verdict::kWelcome) throw_refused(whom, answer);
  if (equal(answer.proof, proof_of_answer(credentials, hello, answer))) return;
  throw Error(ErrorCode::kInvalidConfig, {.what = whom,
                                          .found = "it does not know the secret",
                                          .expected = "the rank that this job's master is",
                                          .fix = "check MASTER_ADDR and MASTER_PORT"});
}

}  // namespace hethub

// What a stranger may say while ranks meet: hellos to who answers, challenges and answers to who
// calls. The input says which parts are made right, so that those behind a proof are reached too.

#include "hethub/comm/greeting.h"

#include <algorithm>

#include "hethub/base/error.h"
#include "tests/fuzz/target.h"

namespace hethub {
namespace {

const Credentials kCredentials = {.secret = "secret"};

bool fit_to_show(const std::string& text) {
  return std::none_of(text.begin(), text.end(), [](char letter) {
    const auto code = static_cast<unsigned char>(letter);
    return (code < 0x20 && letter != '\n') || code == 0x7f;
  });
}

Introduction own() {
  Introduction mine{.rank = 0, .world_size = 4};
  set_field(mine.plan_hash, "abc");
  return mine;
}

void say_hello(FuzzInput& input, unsigned right) {
  const auto challenge = input.take<Challenge>();
  auto hello = input.take<Hello>();
  if ((right & 1U) != 0) {
    hello.version = kCredentials.version;
    hello.byte_order = kByteOrder;
    hello.magic = kMagic;
  }
  if ((right & 2U) != 0) {
    hello.introduction.world_size = own().world_size;
    hello.introduction.plan_hash = own().plan_hash;
  }
  const bool proves = (right & 4U) != 0;
  if (proves) hello.proof = proof_of_hello(kCredentials, challenge, hello);
  const Judgement judged = judge(kCredentials, own(), {1, 2, 3}, challenge, hello);
  must(fit_to_show(judged.why));
  must(judged.why.size() < 2048);
  if (judged.verdict != Verdict::kWelcome) return;
  must(proves);
  must(hello.introduction.rank >= 1 && hello.introduction.rank < own().world_size);
}

void answer(FuzzInput& input, unsigned right) {
  const auto hello = input.take<Hello>();
  auto answer = input.take<Answer>();
  if ((right & 1U) != 0) answer.verdict = Verdict::kWelcome;
  const bool proves = (right & 4U) != 0;
  if (proves) answer.proof = proof_of_answer(kCredentials, hello, answer);
  try {
    check_answer(kCredentials, hello, answer, "rank 0");
  } catch (const Error& error) {
    must(fit_to_show(error.what()));
    return;
  }
  must(proves);
}

}  // namespace
}  // namespace hethub

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  hethub::FuzzInput input(data, size);
  const unsigned right = input.take<std::uint8_t>();
  if ((right & 8U) != 0) {
    hethub::answer(input, right);
  } else {
    hethub::say_hello(input, right);
  }
  try {
    hethub::check_challenge(input.take<hethub::Challenge>(), "rank 0");
  } catch (const hethub::Error&) {
    return 0;
  }
  return 0;
}

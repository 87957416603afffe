#include "hethub/accel/backend_tools.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include <sched.h>

#include "hethub/base/error.h"

namespace hethub {

void refuse_op(std::string_view backend, const Op& op, std::string found, std::string expected,
               std::string fix) {
  throw Error(ErrorCode::kUnsupported,
              {.what = text(backend, ": op '", op.name, "' (", facts_of(op).kind, ")"),
               .found = std::move(found),
               .expected = std::move(expected),
               .fix = std::move(fix)});
}

void bind_to_cores(std::string_view backend, const std::vector<int>& cores) {
  if (cores.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) {
    require(core >= 0 && core < CPU_SETSIZE, {.what = text(backend, ": core"),
                                              .found = text(core),
                                              .expected = text("0 to ", CPU_SETSIZE - 1),
                                              .fix = "name cores as lscpu numbers them"});
    CPU_SET(core, &set);
  }
  require(sched_setaffinity(0, sizeof(set), &set) == 0,
          {.what = text(backend, ": binding to the cores asked for"),
           .found = "the system refuses",
           .expected = "cores this process may use",
           .fix = "see `taskset -p $$` and choose among them"});
}

void wait_until_done(std::string_view backend, Event& event, Deadline deadline, std::string fix) {
  constexpr int kAtOnce = 50;
  constexpr int kYields = 100;
  constexpr auto kShortest = std::chrono::nanoseconds(20'000);
  constexpr auto kLongest = std::chrono::nanoseconds(1'000'000);
  std::chrono::nanoseconds waited = {};
  for (int round = 0; !event.done(); ++round) {
    if (round < kAtOnce) continue;
    if (std::chrono::steady_clock::now() >= deadline) {
      throw Error(ErrorCode::kTimeout, {.what = text(backend, ": waiting for queued work"),
                                        .found = "it is not done at the deadline",
                                        .expected = "work that ends before it",
                                        .fix = std::move(fix)});
    }
    if (round < kAtOnce + kYields) {
      std::this_thread::yield();
    } else {
      const auto pause = std::clamp(waited / 32, kShortest, kLongest);
      std::this_thread::sleep_for(pause);
      waited += pause;
    }
  }
}

}  // namespace hethub

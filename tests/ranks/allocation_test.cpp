#include <array>

#include <gtest/gtest.h>

#include "hethub/accel/registry.h"
#include "hethub/collective/generators.h"
#include "hethub/comm/communicator.h"
#include "tests/accel/count_allocations.h"
#include "tests/comm/local_world.h"

namespace hethub {
namespace {

constexpr int kRanks = 3;
constexpr std::int64_t kFloats = 30'000;

View whole(Buffer& buffer) { return {&buffer, 0, buffer.bytes()}; }

struct Memories {
  std::unique_ptr<Buffer> data = {};
  std::unique_ptr<Buffer> scratch = {};
};

// What a training step asks of the communicator.
void step(Communicator& group, PreparedCollective& sum, const Memories& memories) {
  const Deadline deadline = after_seconds(60);
  group.run(sum, whole(*memories.data), whole(*memories.scratch), deadline);
  const int next = (group.rank() + 1) % kRanks;
  const int previous = (group.rank() + kRanks - 1) % kRanks;
  const View first{memories.data.get(), 0, kFloats};
  const View second{memories.data.get(), kFloats, kFloats};
  Request received = group.recv(previous, 1, second);
  Request sent = group.send(next, 1, first);
  received.wait(deadline);
  sent.wait(deadline);
  std::array<double, 3> losses = {1, 2, 3};
  group.all_reduce_host(losses, deadline);
  group.barrier(deadline);
}

class Steady : public ::testing::TestWithParam<std::tuple<Transport, bool>> {};

TEST_P(Steady, a_step_allocates_nothing) {
  const auto [transport, staged] = GetParam();
  const auto world = local_world(kRanks, transport, 65536);
  on_all_ranks(kRanks, [&, staged = staged](int rank) {
    const auto backend = open_backend("cpu", {});
    const auto queue = backend->make_queue();
    DevicePort port({.messenger = world[rank].get(),
                     .backend = backend.get(),
                     .queue = queue.get(),
                     .staging_bytes = 4 * kFloats,
                     .force_host_staged = staged});
    Communicator group({.port = &port, .ranks = {0, 1, 2}, .id = 1});
    const auto sum =
        group.prepare(ring_all_reduce(kRanks), even_chunks(kFloats, kRanks), DType::kF32);
    const Memories memories{.data = backend->allocate(sum->data_bytes()),
                            .scratch = backend->allocate(sum->scratch_bytes())};
    for (int round = 0; round < 3; ++round) {
      step(group, *sum, memories);
    }
    // Nobody prepares or leaves between the two barriers.
    group.barrier(after_seconds(60));
    const std::int64_t before = allocations();
    for (int round = 0; round < 10; ++round) {
      step(group, *sum, memories);
    }
    const std::int64_t made = allocations() - before;
    group.barrier(after_seconds(60));
    EXPECT_EQ(made, 0);
  });
}

INSTANTIATE_TEST_SUITE_P(All, Steady,
                         ::testing::Combine(::testing::Values(Transport::kShm, Transport::kTcp),
                                            ::testing::Bool()),
                         [](const auto& info) {
                           return name_of(std::get<0>(info.param)) +
                                  (std::get<1>(info.param) ? "_staged" : "_direct");
                         });

}  // namespace
}  // namespace hethub

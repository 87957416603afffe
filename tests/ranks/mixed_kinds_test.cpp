#include <numeric>

#include <gtest/gtest.h>

#include "hethub/accel/registry.h"
#include "hethub/collective/generators.h"
#include "hethub/comm/communicator.h"
#include "tests/comm/local_world.h"

namespace hethub {
namespace {

constexpr double kSeconds = 120;

bool usable(const std::string& name) {
  for (const FoundDevice& found : find_devices()) {
    if (found.backend == name && found.problem.empty()) return true;
  }
  return false;
}

View whole(Buffer& buffer) { return {&buffer, 0, buffer.bytes()}; }

std::vector<float> values_of(int rank, std::int64_t count) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) {
    values.push_back(1.0F / static_cast<float>(rank + 3) + 1e-3F * static_cast<float>(i % 977));
  }
  return values;
}

// What the ring documents: x[c] + (x[c-1] + ... + x[c+1]).
float sum_at(int world_size, int chunk, std::int64_t i) {
  const auto value = [i](int rank) {
    return 1.0F / static_cast<float>(rank + 3) + 1e-3F * static_cast<float>(i % 977);
  };
  float sum = value((chunk + 1) % world_size);
  for (int further = 2; further <= world_size; ++further) {
    sum = value((chunk + further) % world_size) + sum;
  }
  return sum;
}

struct Mix {
  std::vector<std::string> backends = {};  ///< of each rank
  Transport transport = Transport::kShm;
};

class MixedKinds : public ::testing::TestWithParam<Mix> {};

TEST_P(MixedKinds, all_reduce_over_device_memory_gives_the_same_bits_on_every_kind_each_time) {
  const Mix& mix = GetParam();
  for (const std::string& backend : mix.backends) {
    if (!usable(backend)) GTEST_SKIP() << "no " << backend << " device here";
  }
  const int ranks = static_cast<int>(mix.backends.size());
  ChunkTable table(ranks, 0);
  table.front() = 70'001;
  table.back() = 33;
  const auto world = local_world(ranks, mix.transport, 65536);
  on_all_ranks(ranks, [&](int rank) {
    const auto backend = open_backend(mix.backends[rank], {});
    const auto queue = backend->make_queue();
    DevicePort port(
        {.messenger = world[rank].get(), .backend = backend.get(), .queue = queue.get()});
    std::vector<int> members(ranks);
    std::iota(members.begin(), members.end(), 0);
    Communicator group({.port = &port, .ranks = members, .id = 1});
    const auto sum = group.prepare(ring_all_reduce(ranks), table, DType::kF32);
    const auto data = backend->allocate(sum->data_bytes());
    const auto scratch = backend->allocate(sum->scratch_bytes());
    std::vector<float> values(static_cast<std::size_t>(sum->data_bytes() / 4));
    for (int round = 0; round < 3; ++round) {
      values = values_of(rank, std::ssize(values));
      queue->upload(std::as_bytes(std::span(values)), whole(*data));
      group.run(*sum, whole(*data), whole(*scratch), after_seconds(kSeconds));
      queue->download(whole(*data), std::as_writable_bytes(std::span(values)));
      queue->synchronize(after_seconds(kSeconds));
      for (std::int64_t i = 0; i < std::ssize(values); ++i) {
        ASSERT_EQ(values[i], sum_at(ranks, i < 70'001 ? 0 : ranks - 1, i)) << i;
      }
    }
  });
}

TEST_P(MixedKinds, a_pipeline_of_stages_passes_activations_on) {
  const Mix& mix = GetParam();
  for (const std::string& backend : mix.backends) {
    if (!usable(backend)) GTEST_SKIP() << "no " << backend << " device here";
  }
  const int ranks = static_cast<int>(mix.backends.size());
  constexpr std::int64_t kFloats = 40'000;
  const auto world = local_world(ranks, mix.transport, 65536);
  on_all_ranks(ranks, [&](int rank) {
    const auto backend = open_backend(mix.backends[rank], {});
    const auto queue = backend->make_queue();
    DevicePort port({.messenger = world[rank].get(),
                     .backend = backend.get(),
                     .queue = queue.get(),
                     .staging_bytes = 4 * kFloats});
    std::vector<int> members(ranks);
    std::iota(members.begin(), members.end(), 0);
    Communicator group({.port = &port, .ranks = members, .id = 2});
    const auto add = backend->prepare({"add", DType::kF32, Accumulate{kFloats}});
    const auto activation = backend->allocate(4 * kFloats);
    const auto weight = backend->allocate(4 * kFloats);
    std::vector<float> values = values_of(rank, kFloats);
    queue->upload(std::as_bytes(std::span(values)), whole(*weight));
    for (int batch = 0; batch < 5; ++batch) {
      if (rank > 0) group.recv(rank - 1, 3, whole(*activation)).wait(after_seconds(kSeconds));
      const View all = whole(*activation);
      if (rank == 0) queue->copy(whole(*weight), all);
      if (rank > 0) queue->run(*add, std::array{all, whole(*weight)}, std::array{all}, {});
      if (rank + 1 < ranks) group.send(rank + 1, 3, all).wait(after_seconds(kSeconds));
      queue->download(all, std::as_writable_bytes(std::span(values)));
      queue->synchronize(after_seconds(kSeconds));
      float expected = values_of(0, 1)[0];
      for (int before = 1; before <= rank; ++before) {
        expected += values_of(before, 1)[0];
      }
      EXPECT_EQ(values[0], expected);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(
    Mixes, MixedKinds,
    ::testing::Values(Mix{.backends = {"cpu", "cpu"}}, Mix{.backends = {"cpu", "opencl"}},
                      Mix{.backends = {"opencl", "cpu", "opencl"}, .transport = Transport::kTcp}),
    [](const auto& info) {
      std::string name = name_of(info.param.transport);
      for (const std::string& backend : info.param.backends) {
        name += '_' + backend;
      }
      return name;
    });

}  // namespace
}  // namespace hethub

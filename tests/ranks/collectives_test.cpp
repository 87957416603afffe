#include <cmath>
#include <mutex>
#include <numeric>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "hethub/accel/registry.h"
#include "hethub/base/error.h"
#include "hethub/comm/communicator.h"
#include "tests/accel/numbers.h"
#include "tests/collective/who_gives.h"
#include "tests/comm/local_world.h"

namespace hethub {
namespace {

constexpr double kSeconds = 120;

using Bytes = std::vector<std::byte>;

bool usable(const std::string& name) {
  for (const FoundDevice& found : find_devices()) {
    if (found.backend == name && found.problem.empty()) return true;
  }
  return false;
}

// Every collective by every dtype and, where ranks add, by every reduction.
std::vector<Collective> all_collectives() {
  std::vector<Collective> all;
  for (int op = 0; op < kCollectiveOps; ++op) {
    const auto kind = static_cast<CollectiveOp>(op);
    for (std::size_t dtype = 0; dtype < kDTypes.size(); ++dtype) {
      for (std::size_t how = 0; how < (adds(kind) ? kReductionNames.size() : 1); ++how) {
        all.push_back({.op = kind,
                       .dtype = static_cast<DType>(dtype),
                       .reduction = static_cast<Reduction>(how)});
      }
    }
  }
  return all;
}

// What each rank of one call gives and must get, chunk by chunk.
class Expected {
 public:
  Expected(const Collective& collective, int ranks) : call_(collective), ranks_(ranks) {}

  bool gives(int rank, int chunk) const {
    return gives_chunk(call_.op, ranks_, call_.root, rank, chunk);
  }
  bool gets(int rank, int chunk) const {
    return gets_chunk(call_.op, ranks_, call_.root, rank, chunk);
  }

  // Whether the rank's data have room for the chunk.
  bool holds(int rank, int chunk) const {
    switch (call_.op) {
      case CollectiveOp::kAllReduce:
      case CollectiveOp::kReduce:
      case CollectiveOp::kReduceScatter:
      case CollectiveOp::kAllGather:
      case CollectiveOp::kBroadcast:
        return true;
      case CollectiveOp::kGather:
      case CollectiveOp::kScatter:
        return rank == call_.root || chunk == rank;
      case CollectiveOp::kAllToAll:
        return gets(rank, chunk);
      case CollectiveOp::kBarrier:
        return false;
    }
    return false;
  }

  // What rank `rank` must hold of a chunk whose first element is number `first`.
  void check(int rank, int chunk, std::int64_t first, std::span<const std::byte> found) const {
    const std::int64_t size = size_of(call_.dtype);
    for (std::int64_t i = 0; i < std::ssize(found) / size; ++i) {
      std::vector<double> values;
      double sizes = 0;
      for (int giver = 0; giver < ranks_; ++giver) {
        if (!gives(giver, chunk)) continue;
        Bytes stored(static_cast<std::size_t>(size));
        put(call_.dtype, raw_value(call_.dtype, call_.reduction, giver, first + i), stored.data());
        values.push_back(taken(call_.dtype, stored.data()));
        sizes += std::fabs(values.back());
      }
      const double wanted = wrapped(call_.dtype, reduced(call_.reduction, values));
      const double near = values.size() == 1 ? 0
                                             : tolerance(call_.dtype, values.size()) *
                                                   std::max(sizes, std::fabs(wanted));
      ASSERT_NEAR(taken(call_.dtype, found.data() + i * size), wanted, near)
          << name_of(call_.op) << ' ' << name_of(call_.dtype) << ' ' << name_of(call_.reduction)
          << " on rank " << rank << " of " << ranks_ << ", chunk " << chunk << " element " << i;
    }
  }

 private:
  const Collective& call_;
  int ranks_;
};

// One rank of a world, with its device.
class Member {
 public:
  Member(const std::string& backend, Messenger& messenger)
      : backend_(open_backend(backend, {})),
        queue_(backend_->make_queue()),
        port_({.messenger = &messenger, .backend = backend_.get(), .queue = queue_.get()}) {
    std::vector<int> members(static_cast<std::size_t>(messenger.world_size()));
    std::iota(members.begin(), members.end(), 0);
    group_.emplace(CommunicatorOptions{.port = &port_, .ranks = members, .id = 1});
  }

  // Makes one call and checks it. Returns what this rank has got.
  Bytes make(const Collective& call, const ChunkTable& table) {
    const Expected expected(call, group_->size());
    const int rank = group_->rank();
    Bytes data;
    Bytes input;
    std::int64_t first = 0;
    for (int chunk = 0; chunk < std::ssize(table); ++chunk) {
      Bytes values;
      for (std::int64_t i = 0; i < table[chunk]; ++i) {
        values.resize(values.size() + size_of(call.dtype));
        put(call.dtype, raw_value(call.dtype, call.reduction, rank, first + i),
            values.data() + i * size_of(call.dtype));
      }
      const bool gives = expected.gives(rank, chunk);
      if (gives && call.op == CollectiveOp::kAllToAll) {
        input.insert(input.end(), values.begin(), values.end());
      }
      if (!gives || call.op == CollectiveOp::kAllToAll) {
        std::fill(values.begin(), values.end(), std::byte{0x55});
      }
      if (expected.holds(rank, chunk)) data.insert(data.end(), values.begin(), values.end());
      first += table[chunk];
    }
    const Bytes found = run(call, data, input);
    return checked(call, table, expected, found);
  }

  Communicator& group() { return *group_; }

 private:
  Bytes run(const Collective& call, Bytes data, const Bytes& input) {
    const auto of_data = backend_->allocate(std::ssize(data));
    const auto of_input = backend_->allocate(std::ssize(input));
    const View data_view{of_data.get(), 0, std::ssize(data)};
    const View input_view{of_input.get(), 0, std::ssize(input)};
    queue_->upload(data, data_view);
    queue_->upload(input, input_view);
    if (call.op == CollectiveOp::kBarrier) {
      group_->barrier(after_seconds(kSeconds));
    } else {
      group_->start(call, data_view, input_view).wait(after_seconds(kSeconds));
    }
    queue_->download(data_view, data);
    queue_->synchronize(after_seconds(kSeconds));
    return data;
  }

  Bytes checked(const Collective& call, const ChunkTable& table, const Expected& expected,
                const Bytes& found) const {
    const int rank = group_->rank();
    Bytes got;
    std::int64_t first = 0;
    std::size_t at = 0;
    for (int chunk = 0; chunk < std::ssize(table); ++chunk) {
      if (expected.holds(rank, chunk)) {
        const auto bytes = static_cast<std::size_t>(table[chunk] * size_of(call.dtype));
        const auto values = std::span(found).subspan(at, bytes);
        at += bytes;
        if (expected.gets(rank, chunk)) {
          expected.check(rank, chunk, first, values);
          got.insert(got.end(), values.begin(), values.end());
        }
      }
      first += table[chunk];
    }
    return got;
  }

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Queue> queue_;
  DevicePort port_;
  std::optional<Communicator> group_;
};

struct World {
  std::string kinds = {};
  Transport transport = Transport::kShm;
  int ranks = 1;
};

class EveryCollective : public ::testing::TestWithParam<World> {
 protected:
  std::string backend_of(int rank) const {
    if (GetParam().kinds != "mixed") return GetParam().kinds;
    return rank % 2 == 0 ? "cpu" : "opencl";
  }
};

ChunkTable table_of(const Collective& call, int ranks, std::int64_t count, bool uneven) {
  const int chunks = call.op == CollectiveOp::kAllToAll ? ranks * ranks : ranks;
  ChunkTable table = even_chunks(count, chunks);
  for (int chunk = 0; uneven && chunk + 1 < chunks; chunk += 2) {
    std::swap(table[chunk], table[chunk + 1]);
    table[chunk + 1] += std::exchange(table[chunk], 0);
  }
  return table;
}

// Each world takes every kStride-th of the collectives, beginning at another, so that together they
// make each one several times.
constexpr std::size_t kStride = 11;

TEST_P(EveryCollective, gives_what_a_serial_loop_gives_with_the_same_bits_each_time) {
  const World& world = GetParam();
  for (int rank = 0; rank < world.ranks; ++rank) {
    if (!usable(backend_of(rank))) GTEST_SKIP() << "no " << backend_of(rank) << " device here";
  }
  const std::vector<Collective> all = all_collectives();
  const auto messengers = local_world(world.ranks, world.transport, 65536);
  const std::size_t start = static_cast<std::size_t>(world.ranks) * 3 +
                            (world.transport == Transport::kTcp ? 1 : 0) + world.kinds.size();
  on_all_ranks(world.ranks, [&](int rank) {
    Member member(backend_of(rank), *messengers[rank]);
    for (std::size_t at = start % kStride; at < all.size(); at += kStride) {
      Collective call = all[at];
      // Nothing, less than one for each rank, odd, and more than one message's worth.
      const std::int64_t count = std::array{0, 1, 1023, 20'011}[(at / kStride) % 4];
      call.root = static_cast<int>(at) % world.ranks;
      call.table = table_of(call, world.ranks, count, at % 2 == 0);
      const ChunkTable table = call.table;
      const Bytes first = member.make(call, table);
      if (::testing::Test::HasFatalFailure()) return;
      EXPECT_EQ(member.make(call, table), first) << name_of(call.op) << ' ' << name_of(call.dtype);
      if (call.op != CollectiveOp::kAllReduce) continue;
      // All ranks hold the same bits, whatever their kind.
      Bytes everyones(first.size() * static_cast<std::size_t>(world.ranks));
      member.group().all_gather_host(first, everyones, after_seconds(kSeconds));
      for (int other = 0; other < world.ranks; ++other) {
        EXPECT_TRUE(
            std::equal(first.begin(), first.end(), everyones.begin() + other * std::ssize(first)))
            << "ranks " << rank << " and " << other << ": " << name_of(call.dtype) << ' '
            << name_of(call.reduction);
      }
    }
  });
}

// One thread a rank, and a pair of sockets for each two.
TEST(ManyRanks, sixty_four_threads_run_every_collective) {
  constexpr int kRanks = 64;
  rlimit files = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  constexpr rlim_t kWanted = 6000;
  files.rlim_cur = std::min(std::max(files.rlim_cur, kWanted), files.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_cur < kWanted) GTEST_SKIP() << "only " << files.rlim_cur << " files may be open";
  const auto messengers = local_world(kRanks, Transport::kTcp);
  on_all_ranks(kRanks, [&](int rank) {
    Member member("cpu", *messengers[rank]);
    for (int op = 0; op < kCollectiveOps; ++op) {
      for (const std::int64_t count : {std::int64_t{1}, std::int64_t{40'011}}) {
        Collective call = {.op = static_cast<CollectiveOp>(op), .root = 5 * op};
        call.table = table_of(call, kRanks, count, op % 2 == 0);
        const ChunkTable table = call.table;
        const Bytes first = member.make(call, table);
        if (::testing::Test::HasFatalFailure()) return;
        EXPECT_EQ(member.make(call, table), first) << name_of(call.op);
      }
    }
  });
}

std::vector<World> all_worlds() {
  std::vector<World> worlds;
  for (const char* kinds : {"cpu", "opencl", "mixed"}) {
    for (const Transport transport : {Transport::kShm, Transport::kTcp}) {
      for (const int ranks : {1, 2, 3, 4, 7, 8}) {
        worlds.push_back({.kinds = kinds, .transport = transport, .ranks = ranks});
      }
    }
  }
  return worlds;
}

INSTANTIATE_TEST_SUITE_P(Worlds, EveryCollective, ::testing::ValuesIn(all_worlds()),
                         [](const auto& info) {
                           return text(info.param.kinds, '_', name_of(info.param.transport), '_',
                                       info.param.ranks, "_ranks");
                         });

}  // namespace
}  // namespace hethub

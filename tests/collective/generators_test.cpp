#include "hethub/collective/generators.h"

#include <set>

#include <gtest/gtest.h>

#include "hethub/base/error.h"
#include "hethub/collective/choice.h"
#include "tests/collective/in_memory_ranks.h"
#include "tests/collective/who_gives.h"

namespace hethub {
namespace {

constexpr int kMostRanks = 17;

// Small whole numbers: their sums are exact in any order, so a serial sum is the one right answer.
float whole_at(int rank, std::int64_t element) {
  return static_cast<float>((rank * 31 + element * 7) % 64 + 1);
}

// No two sums of these in different orders are likely to round alike.
float fraction_at(int rank, std::int64_t element) {
  return 1.0F / static_cast<float>(rank + 3) + 1e-3F * static_cast<float>(element + rank * rank);
}

using ValueAt = float (*)(int rank, std::int64_t element);

// The position of a chunk's first element among all.
std::int64_t first_of(const ChunkTable& table, int chunk) {
  return std::accumulate(table.begin(), table.begin() + chunk, std::int64_t{0});
}

// Uneven parts of 1, 2, 3, ... ranks, which do not lie side by side.
std::vector<std::vector<int>> uneven_parts(int world_size) {
  std::vector<std::vector<int>> parts;
  int next = 0;
  for (int size = 1; next < world_size; ++size) {
    parts.emplace_back();
    for (int member = 0; member < size && next < world_size; ++member) {
      parts.back().push_back(next++);
    }
  }
  // Swapping first ranks between neighbours interleaves them.
  for (std::size_t part = 1; part < parts.size(); ++part) {
    std::swap(parts[part - 1].front(), parts[part].back());
  }
  return parts;
}

std::vector<ChunkTable> tables_of(int chunks) {
  ChunkTable odd;
  ChunkTable one(static_cast<std::size_t>(chunks), 0);
  for (int chunk = 0; chunk < chunks; ++chunk) {
    odd.push_back(chunk % 3 == 1 ? 0 : (2 * chunk + 1) % 23);
  }
  one.back() = 5;
  return {even_chunks(0, chunks), even_chunks(7, chunks), even_chunks(65, chunks), odd, one};
}

bool reduces(CollectiveOp op) {
  return op == CollectiveOp::kAllReduce || op == CollectiveOp::kReduce ||
         op == CollectiveOp::kReduceScatter;
}

// A call of one algorithm: what goes in, and what must come out.
class Trial {
 public:
  Trial(const CollectiveCall& call, const CollectiveAlgorithm& algorithm, const ChunkTable& table,
        ValueAt value)
      : call_(call), algorithm_(algorithm), table_(table), value_(value) {}

  InMemoryRanks ranks(Weather weather) const {
    std::vector<Values> data;
    std::vector<Values> inputs;
    for (int rank = 0; rank < call_.world_size; ++rank) {
      const SlotLayout layout(algorithm_, table_, rank);
      data.emplace_back(layout.data_elements(), std::nanf(""));
      inputs.emplace_back(layout.input_elements(), std::nanf(""));
      for (int chunk = 0; chunk < algorithm_.chunks; ++chunk) {
        if (!gives(rank, chunk)) continue;
        const bool from_input = call_.op == CollectiveOp::kAllToAll;
        const Slot slot = {.memory = from_input ? Memory::kInput : Memory::kData, .chunk = chunk};
        float* to = (from_input ? inputs : data)[rank].data() + layout.offset(slot);
        for (std::int64_t i = 0; i < table_[chunk]; ++i) {
          to[i] = value_(rank, first_of(table_, chunk) + i);
        }
      }
    }
    return {algorithm_, table_, data, weather, inputs};
  }

  // Whether what the ranks hold is what a serial loop over them makes.
  void check(InMemoryRanks& ranks) const {
    for (int rank = 0; rank < call_.world_size; ++rank) {
      for (int chunk = 0; chunk < algorithm_.chunks; ++chunk) {
        if (!gets(rank, chunk)) continue;
        const Values found = ranks.read(rank, {.chunk = chunk});
        for (std::int64_t i = 0; i < table_[chunk]; ++i) {
          ASSERT_EQ(found[i], expected(chunk, first_of(table_, chunk) + i))
              << "rank " << rank << " chunk " << chunk << " element " << i;
        }
      }
    }
  }

  // The bits that ranks are promised, in one row.
  Values results(InMemoryRanks& ranks) const {
    Values all;
    for (int rank = 0; rank < call_.world_size; ++rank) {
      for (int chunk = 0; chunk < algorithm_.chunks; ++chunk) {
        if (!gets(rank, chunk)) continue;
        const Values found = ranks.read(rank, {.chunk = chunk});
        all.insert(all.end(), found.begin(), found.end());
      }
    }
    return all;
  }

 private:
  bool gives(int rank, int chunk) const {
    return gives_chunk(call_.op, call_.world_size, call_.root, rank, chunk);
  }
  bool gets(int rank, int chunk) const {
    return gets_chunk(call_.op, call_.world_size, call_.root, rank, chunk);
  }

  float expected(int chunk, std::int64_t element) const {
    float sum = 0;
    for (int rank = 0; rank < call_.world_size; ++rank) {
      if (gives(rank, chunk)) sum += value_(rank, element);
    }
    return sum;
  }

  const CollectiveCall& call_;
  const CollectiveAlgorithm& algorithm_;
  const ChunkTable& table_;
  ValueAt value_;
};

struct Case {
  CollectiveOp op = CollectiveOp::kAllReduce;
  std::string algorithm = {};

  friend std::ostream& operator<<(std::ostream& out, const Case& one) {
    return out << name_of(one.op) << ' ' << one.algorithm;
  }
};

std::vector<Case> every_algorithm() {
  std::vector<Case> cases;
  for (int op = 0; op < kCollectiveOps; ++op) {
    for (const std::string& name : algorithms_for(static_cast<CollectiveOp>(op))) {
      cases.push_back({static_cast<CollectiveOp>(op), name});
    }
  }
  return cases;
}

std::string name_of_case(const ::testing::TestParamInfo<Case>& info) {
  return text(name_of(info.param.op), "_by_", info.param.algorithm);
}

class EveryAlgorithm : public ::testing::TestWithParam<Case> {
 protected:
  using Body = std::function<void(const CollectiveCall&, const CollectiveAlgorithm&)>;

  // Every group, with two roots where there is one.
  void for_groups(const Body& body) {
    for (int world_size = 1; world_size <= kMostRanks; ++world_size) {
      for (const int root : std::set<int>{0, (2 * world_size) / 3}) {
        const CollectiveCall call{.op = GetParam().op,
                                  .world_size = world_size,
                                  .root = root,
                                  .parts = uneven_parts(world_size)};
        body(call, make_algorithm(GetParam().algorithm, call));
        if (HasFatalFailure()) return;
      }
    }
  }
};

TEST_P(EveryAlgorithm, leaves_what_a_serial_loop_makes_for_any_number_of_ranks_and_length) {
  for_groups([](const CollectiveCall& call, const CollectiveAlgorithm& algorithm) {
    for (const ChunkTable& table : tables_of(algorithm.chunks)) {
      const Trial trial(call, algorithm, table, whole_at);
      InMemoryRanks ranks = trial.ranks({});
      ASSERT_TRUE(ranks.run()) << algorithm.name << " of " << call.world_size << " ranks ends";
      trial.check(ranks);
    }
  });
}

TEST_P(EveryAlgorithm, leaves_the_same_bits_in_whatever_order_messages_and_devices_move) {
  for_groups([](const CollectiveCall& call, const CollectiveAlgorithm& algorithm) {
    const ChunkTable table = tables_of(algorithm.chunks)[3];
    const Trial trial(call, algorithm, table, fraction_at);
    InMemoryRanks first = trial.ranks({.seed = 1});
    ASSERT_TRUE(first.run());
    const Values bits = trial.results(first);
    for (const unsigned seed : {2U, 3U, 4U}) {
      InMemoryRanks again = trial.ranks({.seed = seed});
      ASSERT_TRUE(again.run());
      ASSERT_EQ(trial.results(again), bits) << call.world_size << " ranks, seed " << seed;
    }
  });
}

TEST_P(EveryAlgorithm, ends_even_where_one_message_each_way_holds_up_the_next) {
  for_groups([](const CollectiveCall& call, const CollectiveAlgorithm& algorithm) {
    const ChunkTable table = tables_of(algorithm.chunks)[3];
    const Trial trial(call, algorithm, table, whole_at);
    for (const unsigned seed : {1U, 2U}) {
      InMemoryRanks ranks = trial.ranks({.seed = seed, .narrow = true});
      ASSERT_TRUE(ranks.run()) << algorithm.name << " of " << call.world_size << " ranks ends";
      trial.check(ranks);
    }
  });
}

TEST_P(EveryAlgorithm, marks_each_chunk_complete_once_where_ranks_add) {
  for_groups([](const CollectiveCall& call, const CollectiveAlgorithm& algorithm) {
    std::vector<int> completed(static_cast<std::size_t>(algorithm.chunks), 0);
    bool one_term_each = true;
    for (const std::vector<Step>& steps : algorithm.steps) {
      for (const Step& step : steps) {
        if (step.kind != StepKind::kReduce) continue;
        one_term_each = one_term_each && step.completes;
        for (int chunk = step.to.chunk; chunk < step.to.chunk + step.to.chunks; ++chunk) {
          completed[chunk] += step.completes ? 1 : 0;
        }
      }
    }
    // Each rank adds for itself in the direct all-reduce; nobody does in a group of one.
    const bool everywhere = algorithm.name == "direct_all_reduce";
    const int times = call.world_size == 1 || !reduces(call.op) ? 0
                      : everywhere                              ? call.world_size
                                                                : 1;
    for (const int count : completed) {
      ASSERT_EQ(count, times) << call.world_size << " ranks";
    }
    ASSERT_TRUE(one_term_each || !algorithm.rounds_once) << "all are added in one step";
  });
}

INSTANTIATE_TEST_SUITE_P(Generators, EveryAlgorithm, ::testing::ValuesIn(every_algorithm()),
                         name_of_case);

// ---- what is promised of some
// --------------------------------------------------------------------

std::int64_t most_sent(const CollectiveAlgorithm& algorithm, const ChunkTable& table) {
  std::int64_t most = 0;
  for (int rank = 0; rank < algorithm.world_size(); ++rank) {
    most = std::max(most, elements_sent(algorithm, table, rank));
  }
  return most;
}

TEST(Generators, the_large_all_reduces_send_2_times_n_minus_1_nths_of_the_buffer) {
  for (int world_size = 1; world_size <= kMostRanks; ++world_size) {
    const ChunkTable table = even_chunks(60 * world_size, world_size);
    const std::int64_t least = 2 * (world_size - 1) * 60;
    EXPECT_EQ(most_sent(ring_all_reduce(world_size), table), least);
    EXPECT_EQ(most_sent(pairwise_all_reduce(world_size), table), least);
    const bool power_of_two = (world_size & (world_size - 1)) == 0;
    if (power_of_two) {
      EXPECT_EQ(most_sent(halving_doubling_all_reduce(world_size), table), least);
    }
  }
}

TEST(Generators, halving_and_doubling_take_two_messages_a_doubling_of_the_group) {
  for (const int power : {1, 2, 3, 4}) {
    const CollectiveAlgorithm both = halving_doubling_all_reduce(1 << power);
    for (const std::vector<Step>& steps : both.steps) {
      const auto sends = std::count_if(steps.begin(), steps.end(), [](const Step& step) {
        return step.kind == StepKind::kSend;
      });
      EXPECT_EQ(sends, 2 * power);
    }
  }
}

TEST(Generators, a_pairwise_sum_is_the_owners_then_the_others_in_the_order_of_ranks) {
  constexpr int kRanks = 5;
  const ChunkTable table(kRanks, 3);
  const CollectiveCall call{.op = CollectiveOp::kReduceScatter, .world_size = kRanks};
  const CollectiveAlgorithm pairwise = pairwise_reduce_scatter(kRanks);
  InMemoryRanks ranks = Trial(call, pairwise, table, fraction_at).ranks({});
  ASSERT_TRUE(ranks.run());
  for (int rank = 0; rank < kRanks; ++rank) {
    float sum = fraction_at(rank, 3 * rank);
    for (int other = 0; other < kRanks; ++other) {
      if (other != rank) sum += fraction_at(other, 3 * rank);
    }
    EXPECT_EQ(ranks.read(rank, {.chunk = rank})[0], sum);
  }
}

// Elements that cross from one part to another.
std::int64_t crossing(const CollectiveAlgorithm& algorithm, const ChunkTable& table,
                      const std::vector<int>& part_of_rank, int rank) {
  std::int64_t elements = 0;
  for (const Step& step : algorithm.steps[rank]) {
    if (step.kind != StepKind::kSend || part_of_rank[step.peer] == part_of_rank[rank]) continue;
    elements += elements_of(step.from, table);
  }
  return elements;
}

TEST(Generators, parts_exchange_one_buffers_worth_over_the_links_of_all_their_ranks) {
  const ChunkTable table = even_chunks(600, 6);
  const std::vector<int> part_of_rank = {0, 0, 0, 0, 1, 1};
  const CollectiveAlgorithm all = hierarchical_all_reduce({{0, 1, 2, 3}, {4, 5}});
  std::int64_t from_first = 0;
  std::int64_t from_second = 0;
  for (int rank = 0; rank < 6; ++rank) {
    const std::int64_t sent = crossing(all, table, part_of_rank, rank);
    EXPECT_GT(sent, 0) << "rank " << rank << " takes part in the exchange";
    (rank < 4 ? from_first : from_second) += sent;
  }
  // Half the buffer to be added there, and the sums of the other half back.
  EXPECT_EQ(from_first, 600);
  EXPECT_EQ(from_second, 600);
}

TEST(Generators, rings_inside_parts_cross_between_them_once_and_send_no_more_than_one_ring) {
  const ChunkTable table = even_chunks(70, 7);
  const std::vector<std::vector<int>> parts = {{0, 2, 4, 5}, {1, 3, 6}};
  const std::vector<int> part_of_rank = {0, 1, 0, 1, 0, 0, 1};
  const CollectiveAlgorithm sum = hierarchical_reduce_scatter(parts);
  const CollectiveAlgorithm back = hierarchical_all_gather(parts);
  std::int64_t all = 0;
  std::int64_t crossed = 0;
  std::int64_t crossed_back = 0;
  for (int rank = 0; rank < 7; ++rank) {
    all += elements_sent(sum, table, rank);
    crossed += crossing(sum, table, part_of_rank, rank);
    crossed_back += crossing(back, table, part_of_rank, rank);
    EXPECT_LE(crossing(sum, table, part_of_rank, rank), 20) << "rank " << rank;
  }
  EXPECT_EQ(all, 6 * 70) << "as much as one ring over all";
  EXPECT_EQ(crossed, 70) << "each chunk's sum goes to its owner's part once";
  EXPECT_EQ(crossed_back, 70) << "and its result to the other";
}

TEST(Generators, a_rank_in_no_part_or_in_two_is_refused) {
  EXPECT_THROW(hierarchical_reduce_scatter({{0, 1}, {1, 2}}), Error);
  EXPECT_THROW(hierarchical_all_reduce({{0, 1}, {3}}), Error);
  EXPECT_THROW(hierarchical_all_reduce({{0, 1}, {1, 2}}), Error);
  EXPECT_THROW(hierarchical_all_reduce({}), Error);
  EXPECT_THROW(hierarchical_broadcast({{0, 1}}, 2), Error);
}

TEST(Generators, every_step_can_be_read) {
  const std::string text = steps_text(pairwise_all_reduce(3));
  EXPECT_NE(text.find("rank 1: recv chunk 1 in place 0 from rank 0"), std::string::npos) << text;
  EXPECT_NE(
      text.find("rank 1: reduce chunk 1 in place 0 and the 1 after it into chunk 1 (complete)"),
      std::string::npos)
      << text;
}

}  // namespace
}  // namespace hethub

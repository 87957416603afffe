#include "hethub/collective/algorithm.h"

#include <functional>
#include <set>

#include <gtest/gtest.h>

#include "hethub/base/error.h"
#include "hethub/collective/generators.h"
#include "tests/collective/in_memory_ranks.h"

namespace hethub {
namespace {

constexpr int kMostRanks = 17;

// Tables with nothing, one element, odd sizes, empty chunks and one chunk that has it all.
std::vector<ChunkTable> tables_of(int chunks) {
  std::vector<ChunkTable> tables = {even_chunks(0, chunks), even_chunks(1, chunks),
                                    even_chunks(7, chunks), even_chunks(64, chunks)};
  ChunkTable odd;
  ChunkTable one(static_cast<std::size_t>(chunks), 0);
  for (int chunk = 0; chunk < chunks; ++chunk) {
    odd.push_back(chunk % 3 == 1 ? 0 : 2 * chunk + 1);
  }
  one.back() = 5;
  tables.push_back(odd);
  tables.push_back(one);
  return tables;
}

// No two sums of these in different orders are likely to round alike.
float value_at(int rank, std::int64_t i) {
  return 1.0F / static_cast<float>(rank + 3) + 1e-3F * static_cast<float>(i + rank * rank);
}

std::vector<Values> inputs(int world_size, std::int64_t elements) {
  std::vector<Values> data(static_cast<std::size_t>(world_size));
  for (int rank = 0; rank < world_size; ++rank) {
    for (std::int64_t i = 0; i < elements; ++i) {
      data[rank].push_back(value_at(rank, i));
    }
  }
  return data;
}

// The documented order: x[c] + (x[c-1] + (... + (x[c+2] + x[c+1]))).
float documented_sum(int world_size, int chunk, std::int64_t i) {
  float sum = value_at((chunk + 1) % world_size, i);
  for (int further = 2; further <= world_size; ++further) {
    sum = value_at((chunk + further) % world_size, i) + sum;
  }
  return sum;
}

using Check = std::function<void(InMemoryRanks&, const ChunkTable&, int world_size)>;

void for_all(CollectiveAlgorithm (*generator)(int), const Check& check) {
  for (int world_size = 1; world_size <= kMostRanks; ++world_size) {
    const CollectiveAlgorithm algorithm = generator(world_size);
    for (const ChunkTable& table : tables_of(algorithm.chunks)) {
      const auto elements = std::accumulate(table.begin(), table.end(), std::int64_t{0});
      InMemoryRanks ranks(algorithm, table, inputs(world_size, elements));
      ASSERT_TRUE(ranks.run()) << algorithm.name << " of " << world_size << " ranks finishes";
      check(ranks, table, world_size);
    }
  }
}

TEST(Collective, ring_reduce_scatter_leaves_the_sum_of_chunk_c_on_rank_c_in_the_stated_order) {
  for_all(ring_reduce_scatter, [](InMemoryRanks& ranks, const ChunkTable& table, int world_size) {
    std::int64_t i = 0;
    for (int chunk = 0; chunk < world_size; ++chunk) {
      for (const std::int64_t end = i + table[chunk]; i < end; ++i) {
        ASSERT_EQ(ranks.data(chunk)[i], documented_sum(world_size, chunk, i));
      }
    }
  });
}

TEST(Collective, ring_all_gather_copies_chunk_c_from_rank_c_to_all) {
  for_all(ring_all_gather, [](InMemoryRanks& ranks, const ChunkTable& table, int world_size) {
    for (int rank = 0; rank < world_size; ++rank) {
      std::int64_t i = 0;
      for (int chunk = 0; chunk < world_size; ++chunk) {
        for (const std::int64_t end = i + table[chunk]; i < end; ++i) {
          ASSERT_EQ(ranks.data(rank)[i], value_at(chunk, i));
        }
      }
    }
  });
}

TEST(Collective, ring_all_reduce_leaves_the_same_bits_on_every_rank_and_they_are_the_sum) {
  for_all(ring_all_reduce, [](InMemoryRanks& ranks, const ChunkTable&, int world_size) {
    for (int rank = 0; rank < world_size; ++rank) {
      ASSERT_EQ(ranks.data(rank), ranks.data(0));
    }
    for (std::size_t i = 0; i < ranks.data(0).size(); ++i) {
      double sum = 0;
      for (int rank = 0; rank < world_size; ++rank) {
        sum += value_at(rank, static_cast<std::int64_t>(i));
      }
      ASSERT_NEAR(ranks.data(0)[i], sum, 1e-6 * world_size * sum);
    }
  });
}

TEST(Collective, root_all_gather_copies_chunk_c_from_rank_c_to_all) {
  for_all(root_all_gather, [](InMemoryRanks& ranks, const ChunkTable& table, int world_size) {
    for (int rank = 0; rank < world_size; ++rank) {
      std::int64_t i = 0;
      for (int chunk = 0; chunk < world_size; ++chunk) {
        for (const std::int64_t end = i + table[chunk]; i < end; ++i) {
          ASSERT_EQ(ranks.data(rank)[i], value_at(chunk, i));
        }
      }
    }
  });
}

TEST(Collective, ring_all_reduce_sends_the_textbooks_share_of_the_buffer) {
  for (int world_size = 1; world_size <= kMostRanks; ++world_size) {
    const CollectiveAlgorithm ring = ring_all_reduce(world_size);
    const ChunkTable table = even_chunks(60 * world_size, world_size);
    for (int rank = 0; rank < world_size; ++rank) {
      EXPECT_EQ(elements_sent(ring, table, rank), 2 * (world_size - 1) * 60);
    }
  }
}

TEST(Collective, traffic_counts_the_messages_and_the_share_of_the_data_that_a_rank_sends) {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    const double parts = ranks;
    const Traffic both = traffic_of(ring_all_reduce(ranks));
    EXPECT_EQ(both.messages, 2 * (ranks - 1));
    EXPECT_NEAR(both.share, 2 * (parts - 1) / parts, 1e-12);
    EXPECT_NEAR(traffic_of(ring_all_gather(ranks)).share, (parts - 1) / parts, 1e-12);
  }
  EXPECT_EQ(traffic_of(tree_broadcast(8, 0)).messages, 3);
  EXPECT_EQ(traffic_of(tree_broadcast(8, 0)).share, 3);
}

TEST(Collective, uneven_chunks_send_each_chunk_once_over_each_link_but_one) {
  const ChunkTable table = {7, 0, 30};
  // Reduce-scatter passes on every chunk but the rank's own; all-gather all but the next rank's.
  EXPECT_EQ(elements_sent(ring_reduce_scatter(3), table, 0), 0 + 30);
  EXPECT_EQ(elements_sent(ring_all_gather(3), table, 0), 7 + 30);
  EXPECT_EQ(elements_sent(ring_all_reduce(3), table, 2), (7 + 0) + (0 + 30));
}

TEST(Collective, ring_scratch_is_two_of_the_largest_chunk) {
  EXPECT_EQ(scratch_elements(ring_all_reduce(3), ChunkTable{7, 0, 30}), 60);
  EXPECT_EQ(scratch_elements(ring_all_reduce(1), ChunkTable{9}), 0);
  EXPECT_EQ(scratch_elements(ring_all_gather(3), ChunkTable{7, 0, 30}), 0);
}

TEST(Collective, tree_broadcast_takes_a_send_and_a_receive_a_rank_in_logarithmic_rounds) {
  for (int world_size = 1; world_size <= kMostRanks; ++world_size) {
    for (int root = 0; root < world_size; ++root) {
      const CollectiveAlgorithm tree = tree_broadcast(world_size, root);
      std::size_t messages = 0;
      for (const std::vector<Step>& steps : tree.steps) {
        messages += steps.size();
        EXPECT_LE(steps.size(), 5U);  // ⌈log2 17⌉
      }
      EXPECT_EQ(messages, 2U * (world_size - 1));
    }
  }
}

// Who has heard of whom after the steps, were each message to carry all its sender knows.
bool all_hear_of_all(const CollectiveAlgorithm& barrier) {
  const auto size = static_cast<std::size_t>(barrier.world_size());
  std::vector<std::set<std::size_t>> known(size);
  for (std::size_t rank = 0; rank < size; ++rank) {
    known[rank].insert(rank);
  }
  for (std::size_t step = 0; step < barrier.steps[0].size(); step += 2) {
    const auto before = known;
    for (std::size_t rank = 0; rank < size; ++rank) {
      const auto& heard = before[static_cast<std::size_t>(barrier.steps[rank][step + 1].peer)];
      known[rank].insert(heard.begin(), heard.end());
    }
  }
  for (const auto& set : known) {
    if (set.size() != size) return false;
  }
  return true;
}

TEST(Collective, no_rank_leaves_the_barrier_before_it_has_heard_of_all) {
  for (int world_size = 1; world_size <= kMostRanks; ++world_size) {
    const CollectiveAlgorithm barrier = dissemination_barrier(world_size);
    InMemoryRanks ranks(barrier, {0}, inputs(world_size, 0));
    EXPECT_TRUE(ranks.run());
    EXPECT_TRUE(all_hear_of_all(barrier)) << world_size;
  }
}

TEST(Collective, a_group_of_no_ranks_or_a_wrong_table_is_refused) {
  EXPECT_THROW(ring_all_reduce(0), Error);
  EXPECT_THROW(tree_broadcast(2, 2), Error);
  EXPECT_THROW(scratch_elements(ring_all_reduce(3), ChunkTable{1, 2}), Error);
}

}  // namespace
}  // namespace hethub

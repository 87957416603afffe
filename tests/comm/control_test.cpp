#include "hethub/comm/control.h"

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>

#include <gtest/gtest.h>

#include "tests/comm/errors.h"
#include "tests/comm/local_world.h"

namespace hethub {
namespace {

// What one rank is told.
struct Told {
  std::mutex mutex = {};
  std::condition_variable changed = {};
  std::vector<std::string> verdicts = {};
  std::vector<std::string> notices = {};

  void add(std::vector<std::string>& list, const std::string& what) {
    const std::lock_guard lock(mutex);
    list.push_back(what);
    changed.notify_all();
  }

  // The first of a list, once there is one.
  std::string first(const std::vector<std::string>& list) {
    std::unique_lock lock(mutex);
    changed.wait_until(lock, after_seconds(20), [&] { return !list.empty(); });
    return list.empty() ? "nothing" : list.front();
  }
};

// All ranks of a job in this process. `ends[rank]` is rank 0's end of its connection to `rank`.
struct Star {
  std::vector<std::unique_ptr<Told>> told = {};
  std::vector<std::unique_ptr<Control>> ranks = {};

  // `mute`: a rank that connects and then says nothing.
  explicit Star(int world_size, int mute = -1, double peer_timeout_s = 30) {
    ControlOptions options{.heartbeat_s = 0.02, .suspect_s = 0.2, .peer_timeout_s = peer_timeout_s};
    std::vector<std::vector<Descriptor>> links(world_size);
    for (auto& own : links) {
      own.resize(world_size);
    }
    for (int rank = 0; rank < world_size; ++rank) {
      options.hosts.push_back("node" + std::to_string(rank));
      if (rank == 0) continue;
      SocketPair pair = tcp_pair();
      links[0][rank] = std::move(pair.first);
      links[rank][0] = std::move(pair.second);
    }
    for (int rank = 0; rank < world_size; ++rank) {
      told.push_back(std::make_unique<Told>());
      Told& mine = *told.back();
      if (rank == mute) {
        mute_end = std::move(links[rank][0]);
        ranks.emplace_back();
        continue;
      }
      options.rank = rank;
      options.on_notice = [&mine](const std::string& what) { mine.add(mine.notices, what); };
      ranks.push_back(std::make_unique<Control>(options, std::move(links[rank])));
      ranks.back()->start([&mine](const Error& what) { mine.add(mine.verdicts, what.what()); });
    }
  }

  Descriptor mute_end = {};
};

Error failure_of(int rank) {
  return {ErrorCode::kNumerical,
          {.what = text("loss of rank ", rank),
           .found = "nan",
           .expected = "a number",
           .fix = "lower the rate"}};
}

TEST(Control, all_ranks_leave_a_barrier_together_again_and_again) {
  Star star(5);
  std::atomic<int> inside = 0;
  on_all_ranks(5, [&](int rank) {
    for (int round = 0; round < 50; ++round) {
      ++inside;
      star.ranks[rank]->barrier(after_seconds(20));
      EXPECT_GE(inside, 5 * (round + 1));
    }
  });
}

TEST(Control, a_rank_that_does_not_come_to_a_barrier_is_named) {
  Star star(3);
  on_all_ranks(2, [&](int rank) {
    try {
      star.ranks[rank]->barrier(after_seconds(0.2));
      ADD_FAILURE() << "released";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kTimeout);
      if (rank == 0) expect_contains(error.what(), "barrier #1 of all ranks, found no rank 2 at");
    }
  });
}

TEST(Control, all_ranks_hear_one_verdict_though_several_fail_at_once) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    Star star(5);
    std::vector<std::optional<Error>> at_once(5);
    on_all_ranks(4, [&](int rank) {
      at_once[rank + 1] = star.ranks[rank + 1]->report(failure_of(rank + 1)).verdict;
    });
    const std::string verdict = star.told[0]->first(star.told[0]->verdicts);
    expect_contains(verdict, "loss of rank ");
    for (int rank = 1; rank < 5; ++rank) {
      const std::string heard =
          at_once[rank] ? at_once[rank]->what() : star.told[rank]->first(star.told[rank]->verdicts);
      EXPECT_EQ(heard, verdict) << rank;
    }
  }
}

TEST(Control, a_silent_rank_is_suspect_to_all_and_then_given_up) {
  Star star(4, 2, 1.0);
  for (const int rank : {0, 1, 3}) {
    expect_contains(star.told[rank]->first(star.told[rank]->notices),
                    "rank 2 (host node2) is suspect: no sign of life for 0.");
  }
  expect_contains(star.ranks[3]->suspects(), "rank 2 (host node2) silent for ");
  for (const int rank : {0, 1, 3}) {
    expect_contains(star.told[rank]->first(star.told[rank]->verdicts),
                    "rank 2 (host node2), found no sign of life for 1.0 s");
  }
}

TEST(Control, a_deadline_that_passes_while_a_rank_is_silent_names_it) {
  Star star(3, 2);
  star.told[1]->first(star.told[1]->notices);
  star.ranks[1]->report(Error(ErrorCode::kTimeout, {.what = "all_reduce #7: message from rank 0",
                                                    .found = "0 of 8 bytes at the deadline",
                                                    .expected = "all of them",
                                                    .fix = "see"}));
  expect_contains(star.told[0]->first(star.told[0]->verdicts),
                  "0 of 8 bytes at the deadline; rank 2 (host node2) has been silent for ");
}

TEST(Control, the_end_of_a_connection_is_a_death_and_a_goodbye_is_none) {
  Star star(3, 2);
  star.mute_end.reset();
  expect_contains(star.told[1]->first(star.told[1]->verdicts),
                  "rank 2 (host node2), found it is gone: connection closed");
  Star others(3);
  others.ranks[2].reset();
  others.ranks[1]->report(failure_of(1));
  expect_contains(others.told[0]->first(others.told[0]->verdicts), "loss of rank 1");
}

TEST(Control, without_rank_0_each_rank_says_that_it_is_gone) {
  SocketPair pair = tcp_pair();
  std::vector<Descriptor> links(2);
  links[0] = std::move(pair.first);
  Told told;
  Control control({.rank = 1, .hosts = {"node0", "node1"}}, std::move(links));
  control.start([&](const Error& what) { told.add(told.verdicts, what.what()); });
  pair.second.reset();
  expect_contains(told.first(told.verdicts), "rank 0 (host node0), found it is gone");
  EXPECT_FALSE(control.verdict_to_come());
}

TEST(Control, garbage_ends_the_connection_and_names_the_sender) {
  Star star(3, 2);
  const std::string garbage(5000, 'x');
  ::send(star.mute_end.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL);
  expect_contains(star.told[0]->first(star.told[0]->verdicts),
                  "rank 2 (host node2), found it is gone: it sent what is no control frame");
}

}  // namespace
}  // namespace hethub

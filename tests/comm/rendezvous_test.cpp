#include "hethub/comm/rendezvous.h"

#include <atomic>
#include <map>
#include <random>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "hethub/comm/handshake.h"
#include "tests/comm/errors.h"
#include "tests/comm/local_world.h"

namespace hethub {
namespace {

constexpr Operation kTest = {.name = "test"};

RendezvousOptions options_of(int rank, int world_size, int port) {
  return {.rank = rank,
          .world_size = world_size,
          .local_rank = rank,
          .master_address = "127.0.0.1",
          .master_port = port,
          .secret = "only the ranks know",
          .plan_hash = "abc",
          .timeout_s = 20,
          .ring_bytes = 65536};
}

// Each rank tells each other its number.
void greet_all(Messenger& world) {
  std::vector<int> heard(world.world_size(), -1);
  std::vector<Handle> handles;
  const int mine = world.rank();
  for (int peer = 0; peer < world.world_size(); ++peer) {
    if (peer == mine) continue;
    handles.push_back(world.post_send(peer, {.match = 1}, std::as_bytes(std::span(&mine, 1))));
    handles.push_back(
        world.post_recv(peer, {.match = 1}, std::as_writable_bytes(std::span(&heard[peer], 1))));
  }
  for (const Handle handle : handles) {
    world.wait(handle, after_seconds(20), kTest);
  }
  for (int peer = 0; peer < world.world_size(); ++peer) {
    if (peer == mine) continue;
    EXPECT_EQ(heard[peer], peer);
  }
}

TEST(Rendezvous, all_ranks_meet_and_reach_each_other_over_every_transport) {
  for (const Transport way : present({Transport::kShm, Transport::kTcp, Transport::kUcx})) {
    const std::string transport = name_of(way);
    for (const int world_size : {1, 2, 5}) {
      const int port = free_port();
      on_all_ranks(world_size, [&](int rank) {
        RendezvousOptions options = options_of(rank, world_size, port);
        options.transports = transports_of(transport);
        const auto world = join_world(options);
        greet_all(*world);
        const int peer = rank == 0 ? world_size - 1 : 0;
        if (peer == rank) return;
        EXPECT_EQ(world->transport_to(peer), transport);
      });
    }
  }
}

TEST(Rendezvous, ranks_that_choose_different_transports_are_told_of_both) {
  const int port = free_port();
  on_all_ranks(2, [&](int rank) {
    RendezvousOptions options = options_of(rank, 2, port);
    options.transports = transports_of(rank == 0 ? "tcp" : "ucx");
    const std::string error =
        error_text([&] { (void)join_world(options); }, ErrorCode::kInvalidArgument);
    expect_contains(error, rank == 0 ? "tcp here, ucx there" : "ucx here, tcp there");
  });
}

TEST(Rendezvous, a_peer_that_never_arrives_is_named_at_the_deadline_on_all_ranks) {
  const int port = free_port();
  on_all_ranks(3, [&](int rank) {
    if (rank == 2) return;
    RendezvousOptions options = options_of(rank, 3, port);
    options.timeout_s = 1;
    const std::string said = error_text([&] { join_world(options); }, ErrorCode::kTimeout);
    expect_contains(said, "no rank 2 at the deadline");
  });
}

TEST(Rendezvous, a_wrong_secret_is_refused_and_both_sides_say_so) {
  const int port = free_port();
  on_all_ranks(2, [&](int rank) {
    RendezvousOptions options = options_of(rank, 2, port);
    options.timeout_s = 1;
    if (rank == 1) options.secret = "a guess";
    const std::string said = error_text(
        [&] { join_world(options); }, rank == 0 ? ErrorCode::kTimeout : ErrorCode::kInvalidConfig);
    expect_contains(said, rank == 0 ? "does not know the secret" : "HETHUB_SECRET");
  });
}

TEST(Rendezvous, a_member_does_not_trust_a_master_without_the_secret) {
  const Descriptor listener = listen_at("127.0.0.1", 0);
  Introduction member{.rank = 1, .world_size = 2};
  const Credentials honest{.secret = "the secret"};
  const int port = local_address(listener.get()).port;
  std::thread impostor([&] {
    Descriptor socket;
    while (!(socket = accept_from(listener.get())).valid()) {
    }
    // A copy of a real challenge, then a welcome that proves nothing.
    std::vector<std::byte> challenge(48);
    const char magic[] = "HETHUB\r\n\2\0\0\0\4\3\2\1";
    std::copy_n(reinterpret_cast<const std::byte*>(magic), 16, challenge.begin());
    send_all(socket.get(), challenge, after_seconds(5), "member");
    std::vector<std::byte> answer(544);
    std::copy_n(reinterpret_cast<const std::byte*>(magic), 8, answer.begin());
    send_all(socket.get(), answer, after_seconds(5), "member");
    std::byte last{};
    const auto read_to_the_end = [&] {
      while (true) {
        recv_all(socket.get(), std::span(&last, 1), after_seconds(5), "member");
      }
    };
    EXPECT_THROW(read_to_the_end(), Error);
  });
  {
    const Descriptor socket = connect_to("127.0.0.1", port, after_seconds(5));
    const std::string said =
        error_text([&] { introduce(socket.get(), honest, member, "rank 0", after_seconds(5)); },
                   ErrorCode::kInvalidConfig);
    expect_contains(said, "it does not know the secret");
  }
  impostor.join();
}

TEST(Rendezvous, a_wrong_version_is_refused_by_both_numbers) {
  const Descriptor listener = listen_at("127.0.0.1", 0);
  const Introduction mine{.world_size = 2};
  std::thread master([&] {
    std::map<int, MetPeer> met;
    const std::string said = error_text(
        [&] { answer_peers(listener.get(), {.secret = "s"}, mine, {1}, after_seconds(1), met); },
        ErrorCode::kTimeout);
    expect_contains(said, "protocol version 3 here, 9 there");
  });
  const int port = local_address(listener.get()).port;
  const Descriptor socket = connect_to("127.0.0.1", port, after_seconds(5));
  const std::string said = error_text(
      [&] {
        introduce(socket.get(), {.secret = "s", .version = 9}, mine, "rank 0", after_seconds(5));
      },
      ErrorCode::kInvalidConfig);
  expect_contains(said, "protocol version 3 here, 9 there");
  master.join();
}

TEST(Rendezvous, ranks_with_different_plans_do_not_start) {
  const int port = free_port();
  on_all_ranks(3, [&](int rank) {
    RendezvousOptions options = options_of(rank, 3, port);
    options.timeout_s = 5;
    if (rank == 2) options.plan_hash = "other";
    // Rank 1 may not have been let in when the master gave up.
    try {
      join_world(options);
      ADD_FAILURE() << "rank " << rank << " started";
    } catch (const Error& error) {
      if (rank == 1) return;
      EXPECT_EQ(error.code(), ErrorCode::kInvalidPlan) << error.what();
      expect_contains(error.what(), "'other'");
    }
  });
}

TEST(Rendezvous, garbage_and_silent_connections_do_not_hold_up_the_ranks) {
  const int port = free_port();
  std::atomic<bool> done = false;
  std::thread scanner([&] {
    std::mt19937 random(1);
    std::vector<Descriptor> open;
    while (!done) {
      try {
        open.push_back(connect_to("127.0.0.1", port, after_seconds(0.2)));
      } catch (const Error&) {
        continue;  // nobody listens yet, or any more
      }
      std::vector<std::byte> garbage(random() % 2000);
      for (std::byte& byte : garbage) {
        byte = static_cast<std::byte>(random());
      }
      const char magic[] = "HETHUB\r\n";
      if (random() % 2 == 0 && garbage.size() > 8) {
        std::copy_n(reinterpret_cast<const std::byte*>(magic), 8, garbage.begin());
      }
      if (random() % 3 != 0) {
        ::send(open.back().get(), garbage.data(), garbage.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      }
      if (open.size() > 200) open.erase(open.begin());
    }
  });
  const auto begin = std::chrono::steady_clock::now();
  on_all_ranks(3, [&](int rank) {
    if (rank == 2) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    const auto world = join_world(options_of(rank, 3, port));
    greet_all(*world);
  });
  done = true;
  scanner.join();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

TEST(Rendezvous, a_connection_that_is_pushed_out_is_dialled_again) {
  Descriptor crowd = listen_at("127.0.0.1", 0);
  const int port = local_address(crowd.get()).port;
  on_all_ranks(2, [&](int rank) {
    if (rank == 0) {
      const int listener = crowd.get();
      wait_readable(std::span(&listener, 1), after_seconds(20));
      const Descriptor pushed_out = accept_from(listener);
      const linger reset = {.l_onoff = 1, .l_linger = 0};
      ::setsockopt(pushed_out.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
      crowd.reset();
    }
    const auto world = join_world(options_of(rank, 2, port));
    greet_all(*world);
  });
}

TEST(Rendezvous, a_port_in_use_is_refused_at_once_and_its_owner_named) {
  const Descriptor owner = listen_at("127.0.0.1", 0);
  const int port = local_address(owner.get()).port;
  const auto begin = std::chrono::steady_clock::now();
  const std::string said =
      error_text([&] { join_world(options_of(0, 2, port)); }, ErrorCode::kUnavailable);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
  expect_contains(said, text("port ", port, " on 127.0.0.1, found in use by pid ", ::getpid()));
}

TEST(Rendezvous, ranks_meet_over_ipv6) {
  const int port = free_port();
  on_all_ranks(3, [&](int rank) {
    RendezvousOptions options = options_of(rank, 3, port);
    options.master_address = "::1";
    options.transports.shm = false;
    greet_all(*join_world(options));
  });
}

}  // namespace
}  // namespace hethub

#include "hethub/comm/rendezvous.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <sys/resource.h>
#include <unistd.h>

#include "hethub/base/error.h"
#include "hethub/comm/control.h"
#include "hethub/comm/handshake.h"
#include "hethub/comm/meeting.h"
#include "hethub/comm/tags.h"
#include "hethub/comm/tcp/interfaces.h"
#include "hethub/comm/tcp/socket.h"

namespace hethub {
namespace {

// ---- meeting ------------------------------------------------------------------------------------

std::string first_line_of(const char* file) {
  std::string line;
  std::getline(std::ifstream(file), line);
  return line;
}

// Ranks can share memory if one kernel runs them and each can find the other's process.
std::string memory_space() {
  std::error_code failed;
  return text(first_line_of("/proc/sys/kernel/random/boot_id"), ' ',
              std::filesystem::read_symlink("/proc/self/ns/pid", failed).string(), ' ', ::getuid());
}

bool several_hosts(const RendezvousOptions& options) {
  const std::string& name = options.master_address;
  return options.several_hosts.value_or(name != "localhost" && !is_loopback(name));
}

// A host's own name often stands for 127.0.1.1 in its /etc/hosts, where no other host reaches it.
bool resolves_to_loopback(const std::string& host) {
  const std::vector<std::string> addresses = addresses_of(host);
  return std::all_of(addresses.begin(), addresses.end(), is_loopback);
}

// Where rank 0 listens: at the master's address, unless other hosts could not reach that.
std::string listening_address(const RendezvousOptions& options, Deadline deadline) {
  if (!several_hosts(options)) return options.master_address;
  if (resolves_to_loopback(options.master_address)) {
    return awaited_address(options.interfaces, deadline).address;
  }
  if (options.interfaces.empty()) return options.master_address;
  awaited_address(options.interfaces, deadline);
  const std::vector<InterfaceAddress> all = interface_addresses();
  const std::vector<InterfaceAddress> admitted = reachable_addresses(all, options.interfaces);
  for (const std::string& address : addresses_of(options.master_address)) {
    for (const InterfaceAddress& one : admitted) {
      if (one.address == address) return address;
    }
  }
  return chosen_address(all, options.interfaces).address;
}

// How a rank reaches rank 0. A name that stands for loopback here is this host's own or nobody's:
// then rank 0, if it is here, listens at one of the host's other addresses.
Dialling way_to_master(const RendezvousOptions& options) {
  Dialling way{.hosts = {options.master_address}, .port = options.master_port};
  if (!several_hosts(options)) return way;
  const std::vector<InterfaceAddress> all = interface_addresses();
  const std::vector<InterfaceAddress> mine = reachable_addresses(all, options.interfaces);
  if (!options.interfaces.empty()) {
    if (mine.empty()) chosen_address(all, options.interfaces);  // says why there is none
    for (const InterfaceAddress& one : mine) {
      way.from.push_back(one.address);
    }
  }
  if (!resolves_to_loopback(options.master_address)) return way;
  way.note = text(" (", options.master_address, " is ", addresses_of(options.master_address)[0],
                  " in this host's /etc/hosts, which other hosts cannot reach; this host has ",
                  describe(all), ")");
  for (const InterfaceAddress& one : mine) {
    way.hosts.push_back(one.address);
  }
  return way;
}

// A card that is not up by then is taken for one that stays down.
Deadline card_deadline(const Meeting& meeting) {
  return std::min(meeting.deadline, after_seconds(5));
}

// What the others may dial: the interface that leads to the master.
std::string advertised_address(const RendezvousOptions& options, int master) {
  const std::string address = local_address(master).host;
  const bool reachable = !is_loopback(address) && address.find('%') == std::string::npos;
  if (reachable || !several_hosts(options)) return address;
  return chosen_address(interface_addresses(), options.interfaces).address;
}

// What rank 0 tells the others when it has met all, or has given up.
struct Outcome {
  std::int32_t code = -1;  // of the Error, or -1
  std::array<char, 400> what = {};
  std::array<char, 400> found = {};
  std::array<char, 200> expected = {};
  std::array<char, 200> fix = {};
};

// Lower ranks are dialled, higher ones answered: the kernel keeps the calls of the latter.
void answer_higher(Meeting& meeting, int listener) {
  std::map<int, MetPeer> met;
  std::set<int> higher;
  for (int rank = meeting.options.rank + 1; rank < meeting.options.world_size; ++rank) {
    if (meeting.connects(rank)) higher.insert(rank);
  }
  answer_peers(listener, meeting.credentials, meeting.mine, higher, meeting.deadline, met);
  for (auto& [rank, peer] : met) {
    meeting.sockets[static_cast<std::size_t>(rank)] = std::move(peer.socket);
  }
}

void meet_as_master(Meeting& meeting) {
  const RendezvousOptions& options = meeting.options;
  wait_for_name(options.master_address, meeting.deadline, options.on_notice);
  const Descriptor listener =
      listen_at(listening_address(options, card_deadline(meeting)), options.master_port);
  std::map<int, MetPeer> met;
  try {
    std::set<int> others;
    for (int rank = 1; rank < options.world_size; ++rank) {
      others.insert(rank);
    }
    answer_peers(listener.get(), meeting.credentials, meeting.mine, others, meeting.deadline, met);
  } catch (const Error& error) {
    Outcome outcome{.code = static_cast<std::int32_t>(error.code())};
    set_field(outcome.what, error.parts().what);
    set_field(outcome.found, error.parts().found);
    set_field(outcome.expected, error.parts().expected);
    set_field(outcome.fix, error.parts().fix);
    for (const auto& [rank, peer] : met) {
      try {
        send_all(peer.socket.get(), bytes_of(outcome), after_seconds(1), "a rank that has come");
      } catch (const Error&) {
        // It has gone meanwhile; the first error is what matters.
        continue;
      }
    }
    throw;
  }
  meeting.table[0] = meeting.mine;
  for (auto& [rank, peer] : met) {
    meeting.table[static_cast<std::size_t>(rank)] = peer.introduction;
    meeting.control[static_cast<std::size_t>(rank)] = std::move(peer.socket);
  }
  for (int rank = 1; rank < options.world_size; ++rank) {
    const int socket = meeting.control[static_cast<std::size_t>(rank)].get();
    send_all(socket, bytes_of(Outcome{}), meeting.deadline, name_of_rank(meeting, rank));
    send_all(socket, std::as_bytes(std::span(meeting.table)), meeting.deadline,
             name_of_rank(meeting, rank));
  }
  answer_higher(meeting, listener.get());
}

void receive_table(Meeting& meeting, int socket) {
  const std::string whom = text("rank 0 at ", meeting.options.master_address);
  Outcome outcome;
  // Rank 0 gives up at the same deadline, and then has something to say.
  const Deadline deadline = meeting.deadline + std::chrono::seconds(2);
  recv_all(socket, std::as_writable_bytes(std::span(&outcome, 1)), deadline,
           text("the list of ranks from ", whom));
  if (outcome.code >= 0) {
    const bool known = outcome.code <= static_cast<std::int32_t>(ErrorCode::kInternal);
    throw Error(known ? static_cast<ErrorCode>(outcome.code) : ErrorCode::kInternal,
                {.what = text("told by ", whom, ": ", text_in(outcome.what)),
                 .found = text_in(outcome.found),
                 .expected = text_in(outcome.expected),
                 .fix = text_in(outcome.fix)});
  }
  recv_all(socket, std::as_writable_bytes(std::span(meeting.table)), deadline, whom);
}

// Introduces this rank on `socket`. A flood of strangers can push a connection out before it is
// answered: then it is dialled again, until the deadline or until nobody listens there any more.
Descriptor introduced(Descriptor socket, const Meeting& meeting, const Dialling& way,
                      const std::string& whom) {
  for (;;) {
    try {
      introduce(socket.get(), meeting.credentials, meeting.mine, whom, meeting.deadline);
      return socket;
    } catch (const Error& pushed_out) {
      if (pushed_out.code() != ErrorCode::kUnavailable) throw;
      // What is no rank may end each connection at once: it is not called without pause.
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      try {
        socket = connect_to(way, std::min(meeting.deadline, after_seconds(1)));
      } catch (const Error&) {
        throw pushed_out;  // what ended the connection says more than that nobody listens now
      }
    }
  }
}

void meet_as_member(Meeting& meeting) {
  const RendezvousOptions& options = meeting.options;
  wait_for_name(options.master_address, meeting.deadline, options.on_notice);
  const Dialling to_master = way_to_master(options);
  Descriptor master = connect_to(to_master, meeting.deadline);
  const std::string address = advertised_address(options, master.get());
  const Descriptor listener = listen_at(address, 0);
  meeting.mine.port = local_address(listener.get()).port;
  set_field(meeting.mine.address, address);
  master = introduced(std::move(master), meeting, to_master,
                      text("rank 0 at ", options.master_address, " port ", options.master_port));
  receive_table(meeting, master.get());
  meeting.control[0] = std::move(master);
  for (int rank = 0; rank < options.rank; ++rank) {
    if (!meeting.connects(rank)) continue;
    const Introduction& peer = meeting.table[static_cast<std::size_t>(rank)];
    const Dialling way =
        rank == 0
            ? to_master
            : Dialling{.hosts = {text_in(peer.address)}, .port = peer.port, .from = to_master.from};
    meeting.sockets[static_cast<std::size_t>(rank)] =
        introduced(connect_to(way, meeting.deadline), meeting, way, name_of_rank(meeting, rank));
  }
  answer_higher(meeting, listener.get());
}

// ---- the world
// -----------------------------------------------------------------------------------

std::unique_ptr<Control> make_control(Meeting& meeting, const std::vector<std::string>& hosts) {
  const RendezvousOptions& options = meeting.options;
  if (options.world_size == 1) return nullptr;
  for (const Descriptor& link : meeting.control) {
    if (link.valid()) tune_socket(link.get(), options.peer_timeout_s);
  }
  return std::make_unique<Control>(ControlOptions{.rank = options.rank,
                                                  .hosts = hosts,
                                                  .peer_timeout_s = options.peer_timeout_s,
                                                  .on_notice = options.on_notice},
                                   std::move(meeting.control));
}

Introduction introduction_of(const RendezvousOptions& options) {
  std::array<char, 256> host = {};
  ::gethostname(host.data(), host.size() - 1);
  Introduction mine{.rank = options.rank,
                    .world_size = options.world_size,
                    .pid = ::getpid(),
                    .takes_shared_memory = options.transports.shm ? 1 : 0,
                    .uses_ucx = options.transports.ucx ? 1 : 0};
  set_field(mine.plan_hash, options.plan_hash);
  set_field(mine.address, options.master_address);
  set_field(mine.host, host.data());
  set_field(mine.memory_space, memory_space());
  return mine;
}

void check_options(const RendezvousOptions& options) {
  require(options.world_size >= 1 && options.rank >= 0 && options.rank < options.world_size,
          {.what = "rendezvous: rank",
           .found = text(options.rank, " of ", options.world_size),
           .expected = "0 to the number of ranks less 1",
           .fix = "pass each rank its number"});
  require(options.world_size == 1 || !options.secret.empty(),
          {.what = "rendezvous: secret",
           .found = "none",
           .expected = "one that all ranks share",
           .fix = "set HETHUB_SECRET or HETHUB_SECRET_FILE"});
}

// A connection to each rank, one more for control, and what strangers may hold.
void raise_open_files(int world_size) {
  const auto wanted = static_cast<rlim_t>(4 * world_size + 2048);
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  // Where the system says no, strangers are thrown out sooner.
  static_cast<void>(::setrlimit(RLIMIT_NOFILE, &limit));
}

}  // namespace

std::unique_ptr<Messenger> join_world(const RendezvousOptions& options) {
  check_options(options);
  raise_open_files(options.world_size);
  Meeting meeting{.options = options, .mine = introduction_of(options)};
  meeting.credentials.secret = options.secret;
  meeting.deadline = after_seconds(options.timeout_s);
  meeting.table.resize(static_cast<std::size_t>(options.world_size));
  meeting.sockets.resize(meeting.table.size());
  meeting.control.resize(meeting.table.size());
  if (options.world_size == 1) {
    meeting.table[0] = meeting.mine;
  } else if (options.rank == 0) {
    meet_as_master(meeting);
  } else {
    meet_as_member(meeting);
  }
  MessengerOptions messages{
      .rank = options.rank, .messages = options.messages, .describe = describe_tag};
  for (const Introduction& rank : meeting.table) {
    messages.hosts.push_back(text_in(rank.host));
  }
  std::vector<std::unique_ptr<Wire>> wires = make_wires(meeting);
  std::unique_ptr<Control> control = make_control(meeting, messages.hosts);
  return std::make_unique<Messenger>(std::move(messages), std::move(wires), std::move(control));
}

}  // namespace hethub

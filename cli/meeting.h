#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/flight.h"
#include "hethub/comm/launch_environment.h"
#include "hethub/comm/rendezvous.h"

namespace hethub {

/// Options of a verb whose process is a rank: where it stands, how long it waits for others.
struct MeetingOptions {
  RankFlags flags = {};
  std::string transport = "shm,tcp";  ///< see comm/transports.h
  double rendezvous_timeout_s = 120;
  double peer_timeout_s = 30;
  FlightOptions flight = {};
};

/// Adds --rank, --world-size, --local-rank, --master-addr, --master-port, --iface,
/// --transport, --rendezvous-timeout, --peer-timeout and --flight-folder.
void add_meeting(CLI::App& command, MeetingOptions& options);

/// How this rank meets the others, from options and environment. Rank 0 of several says on standard
/// error what was used, unless it is `quiet`: a rank that another process of ours has started.
RendezvousOptions meeting_of(const MeetingOptions& options, bool quiet = false);

/// The options as words of a command line, for the ranks that a verb starts itself.
std::vector<std::string> words_of(const MeetingOptions& options);

}  // namespace hethub

#include "cli/meeting.h"

#include <iostream>

namespace hethub {

void add_meeting(CLI::App& command, MeetingOptions& options) {
  const auto add = [&](const char* name, auto& value, const char* what) {
    return command.add_option(name, value, what)->group("Meeting the other ranks");
  };
  add("--rank", options.flags.rank, "this process's; default: as the launcher says");
  add("--world-size", options.flags.world_size, "how many ranks there are");
  add("--local-rank", options.flags.local_rank, "its number on this host; default: --rank");
  add("--master-addr", options.flags.master_address, "the host of rank 0");
  add("--master-port", options.flags.master_port, "where rank 0 listens")
      ->check(CLI::Range(1, 65535));
  add("--iface", options.flags.interfaces, "network interfaces: eth0,ib0 or all but ^docker0,lo");
  add("--transport", options.transport,
      "how data travel: shm,tcp (shared memory inside a host, tcp between hosts), tcp, shm,ucx or "
      "ucx; alike on all ranks")
      ->capture_default_str();
  add("--rendezvous-timeout", options.rendezvous_timeout_s, "seconds until all must have met")
      ->check(CLI::Range(0.1, 1e6))
      ->capture_default_str();
  add("--peer-timeout", options.peer_timeout_s, "seconds until a silent rank is given up")
      ->check(CLI::Range(0.5, 1e6))
      ->capture_default_str();
  add("--flight-folder", options.flight.folder,
      "where each rank writes its flight recorder, at a failure and at SIGUSR1; default: standard "
      "error");
}

std::vector<std::string> words_of(const MeetingOptions& options) {
  std::vector<std::string> words = {"--transport",          options.transport,
                                    "--rendezvous-timeout", text(options.rendezvous_timeout_s),
                                    "--peer-timeout",       text(options.peer_timeout_s)};
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {name, value});
  };
  add("--iface", options.flags.interfaces);
  add("--flight-folder", options.flight.folder);
  return words;
}

RendezvousOptions meeting_of(const MeetingOptions& options, bool quiet) {
  RendezvousOptions meeting = rendezvous_from_environment(process_environment(), options.flags);
  meeting.transports = transports_of(options.transport);
  meeting.timeout_s = options.rendezvous_timeout_s;
  meeting.peer_timeout_s = options.peer_timeout_s;
  meeting.on_notice = [](const std::string& sentence) {
    std::cerr << text("hethub: ", sentence, '\n') << std::flush;
  };
  if (!quiet && meeting.rank == 0 && meeting.world_size > 1) {
    std::cerr << "hethub: found by " << meeting.source << '\n';
  }
  return meeting;
}

}  // namespace hethub

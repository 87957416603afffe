#pragma once

#include <functional>
#include <string>

#include "hethub/comm/rendezvous.h"

namespace hethub {

/// Where a rank writes its flight recorder.
struct FlightOptions {
  std::string folder = {};  ///< as flight-rank-N.txt; empty: standard error
  bool at_end = false;      ///< also when all went well
};

/// SIGUSR1 ends no thread of this process: a rank reads it from a descriptor. Called before there
/// is a second thread.
void hold_flight_signal();

/// Meets the other ranks and runs `body` as one of them. An error of it is told to all ranks and
/// thrown on. The flight recorder is written then, and whenever this process gets SIGUSR1.
void run_in_world(const RendezvousOptions& meeting, const FlightOptions& flight,
                  const std::function<void(Messenger&)>& body);

}  // namespace hethub

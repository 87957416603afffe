#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "hethub/accel/backend.h"
#include "hethub/accel/registry.h"

namespace hethub {

/// How an emulated device has kept its pace so far.
struct Pacing {
  std::int64_t ops = 0;
  std::int64_t overran = 0;  ///< those that the processor computed later than the kind would have

  /// The share of ops that a run may overrun before its times say nothing of the kind.
  static constexpr double kMostOverran = 0.01;
  bool holds() const {
    return static_cast<double>(overran) <= kMostOverran * static_cast<double>(ops);
  }
};

/// Opens a device that computes on the processor as cpu does, to the same bits, and takes the time
/// of the kind that `options.device_type` names: see EmulatedKind.
///
/// Its clock runs as a device's does: work begins when the one before it ends, and whoever waits
/// for it sleeps until then, off the core, so that many ranks share few cores. Its memory is not
/// the host's: a message is copied to and from the host at the rate of the kind's link.
/// Each rank has a device of its own, whatever its number. Throws what parse_emulation,
/// EmulatedKind and open_cpu throw.
std::unique_ptr<Backend> open_emulated(const BackendOptions& options);

/// One row that says how to name an emulated kind: no device of this machine is one.
std::vector<FoundDevice> find_emulated();

/// The pacing of an emulated device; none for any other backend.
std::optional<Pacing> pacing_of(const Backend& backend);

}  // namespace hethub

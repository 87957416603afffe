#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "hethub/accel/backend.h"

namespace hethub {

/// What the runs of one op took while they were metered.
struct MeteredOp {
  Op op = {};             ///< the first of those that do the same
  std::int64_t runs = 0;  ///< since the last clear()
  double seconds = 0;     ///< of all of them
  double least = 0;       ///< of the fastest
};

/// A backend that passes everything on to another and, where asked to, times each op: it then waits
/// for the device after every run, so a step takes longer than without. Threads: one.
class MeteredBackend : public Backend {
 public:
  /// Keeps a reference to `inner`, which outlives it.
  explicit MeteredBackend(Backend& inner) : inner_(inner) {}

  DeviceInfo info() const override { return inner_.info(); }
  std::unique_ptr<Buffer> allocate(std::int64_t bytes) override { return inner_.allocate(bytes); }
  std::unique_ptr<Event> make_event() override { return inner_.make_event(); }
  std::unique_ptr<Queue> make_queue() override;
  std::unique_ptr<PreparedOp> prepare(const Op& op) override;

  /// Turns the timing of ops on or off; off at first.
  void meter(bool on) { meters_ = on; }

  /// Forgets what was timed.
  void clear();

  /// Every op that was prepared, in that order; runs 0 where none was metered.
  std::vector<MeteredOp> ops() const;

 private:
  Backend& inner_;
  bool meters_ = false;
  std::vector<std::shared_ptr<MeteredOp>> ops_ = {};  // shared with the prepared op
};

}  // namespace hethub

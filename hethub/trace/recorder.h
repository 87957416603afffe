#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "hethub/trace/timeline.h"

namespace hethub {

/// What every span of one label has in common.
struct TraceLabel {
  std::string lane = {};
  std::string name = {};
  std::string category = {};
  std::array<std::string, 2> value_names = {};  ///< of record()'s values; "" where there is none
};

/// The last spans of one rank, in memory that is taken once. When it is full, the oldest go.
///
/// record() may be called from any number of threads at once, and beside take(): it takes no lock
/// and allocates nothing, so it may stand inside a step. Labels are added before that, by one
/// thread.
class TraceRecorder {
 public:
  /// Keeps at most `capacity` >= 1 spans, 48 bytes each.
  TraceRecorder(int rank, std::string rank_name, std::int64_t capacity);

  /// The number by which record() knows a label. Every call adds one. Not beside record().
  int add_label(TraceLabel label);

  /// Keeps a span that began and ended at these times of seconds_now(). `label` is from add_label.
  void record(int label, double begin_s, double end_s, std::array<double, 2> values = {}) noexcept;

  /// The spans kept since the last call, oldest first, and how many were dropped since then.
  Timeline take(std::string name);

 private:
  struct Slot {
    std::atomic<bool> busy = false;
    int label = 0;
    std::int64_t number = -1;  // how many were recorded before it; -1: empty
    double begin_s = 0;
    double end_s = 0;
    std::array<double, 2> values = {};
  };

  bool enter(Slot& slot) noexcept { return !slot.busy.exchange(true, std::memory_order_acquire); }
  void leave(Slot& slot) noexcept { slot.busy.store(false, std::memory_order_release); }
  Span span_of(const Slot& slot) const;

  int rank_;
  std::string rank_name_;
  std::vector<TraceLabel> labels_ = {};
  std::vector<Slot> slots_;
  std::atomic<std::int64_t> recorded_ = 0;
  std::int64_t taken_ = 0;  // recorded_ at the last take
};

}  // namespace hethub

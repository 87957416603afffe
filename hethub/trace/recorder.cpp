#include "hethub/trace/recorder.h"

#include <algorithm>
#include <utility>

#include "hethub/base/error.h"

namespace hethub {

TraceRecorder::TraceRecorder(int rank, std::string rank_name, std::int64_t capacity)
    : rank_(rank), rank_name_(std::move(rank_name)), slots_(std::max<std::int64_t>(capacity, 1)) {
  require(capacity >= 1, {.what = "trace: capacity",
                          .found = std::to_string(capacity),
                          .expected = "at least 1",
                          .fix = "record with room for one span or not at all"});
}

int TraceRecorder::add_label(TraceLabel label) {
  labels_.push_back(std::move(label));
  return static_cast<int>(labels_.size()) - 1;
}

// A slot that another thread is in is left alone, as is one that already holds a newer span: that
// can only happen to a thread that slept while all the others filled the ring.
void TraceRecorder::record(int label, double begin_s, double end_s,
                           std::array<double, 2> values) noexcept {
  const std::int64_t number = recorded_.fetch_add(1, std::memory_order_relaxed);
  Slot& slot = slots_[static_cast<std::size_t>(number) % slots_.size()];
  if (!enter(slot)) return;
  if (number > slot.number) {
    slot.label = label;
    slot.number = number;
    slot.begin_s = begin_s;
    slot.end_s = end_s;
    slot.values = values;
  }
  leave(slot);
}

Span TraceRecorder::span_of(const Slot& slot) const {
  const TraceLabel& label = labels_.at(static_cast<std::size_t>(slot.label));
  Span span = {.rank = rank_,
               .lane = label.lane,
               .name = label.name,
               .category = label.category,
               .begin_s = slot.begin_s,
               .end_s = slot.end_s};
  for (std::size_t which = 0; which < label.value_names.size(); ++which) {
    const std::string& name = label.value_names.at(which);
    if (!name.empty()) span.args.push_back({name, slot.values.at(which)});
  }
  return span;
}

Timeline TraceRecorder::take(std::string name) {
  const std::int64_t recorded = recorded_.load(std::memory_order_relaxed);
  std::vector<std::pair<std::int64_t, Span>> found;
  for (Slot& slot : slots_) {
    if (!enter(slot)) continue;
    if (slot.number >= 0) found.emplace_back(slot.number, span_of(slot));
    slot.number = -1;
    leave(slot);
  }
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  Timeline timeline = {.name = std::move(name), .rank_names = {{rank_, rank_name_}}};
  for (auto& [number, span] : found) {
    timeline.spans.push_back(std::move(span));
  }
  const auto kept = static_cast<std::int64_t>(found.size());
  timeline.dropped = std::max<std::int64_t>(0, recorded - taken_ - kept);
  taken_ = recorded;
  return timeline;
}

}  // namespace hethub

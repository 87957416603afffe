#include "hethub/profile/metered_backend.h"

#include <algorithm>

#include "hethub/base/clock.h"
#include "hethub/base/deadline.h"

namespace hethub {
namespace {

constexpr double kDeviceTimeout = 300;

struct PreparedMetered : PreparedOp {
  std::unique_ptr<PreparedOp> inner = {};
  std::shared_ptr<MeteredOp> times = {};
};

class MeteredQueue : public Queue {
 public:
  MeteredQueue(std::unique_ptr<Queue> inner, const bool& meters)
      : inner_(std::move(inner)), meters_(meters) {}

  void run(PreparedOp& op, std::span<const View> inputs, std::span<const View> outputs,
           View workspace) override {
    auto& metered = static_cast<PreparedMetered&>(op);
    if (!meters_) return inner_->run(*metered.inner, inputs, outputs, workspace);
    inner_->synchronize(after_seconds(kDeviceTimeout));
    const double begin = seconds_now();
    inner_->run(*metered.inner, inputs, outputs, workspace);
    inner_->synchronize(after_seconds(kDeviceTimeout));
    const double seconds = seconds_now() - begin;
    MeteredOp& times = *metered.times;
    times.least = times.runs == 0 ? seconds : std::min(times.least, seconds);
    times.seconds += seconds;
    ++times.runs;
  }
  void copy(View from, View to) override { inner_->copy(from, to); }
  void upload(std::span<const std::byte> from, View to) override { inner_->upload(from, to); }
  void download(View from, std::span<std::byte> to) override { inner_->download(from, to); }
  void record(Event& event) override { inner_->record(event); }
  void synchronize(Deadline deadline) override { inner_->synchronize(deadline); }

 private:
  std::unique_ptr<Queue> inner_;
  const bool& meters_;  // the backend's
};

}  // namespace

std::unique_ptr<Queue> MeteredBackend::make_queue() {
  return std::make_unique<MeteredQueue>(inner_.make_queue(), meters_);
}

std::unique_ptr<PreparedOp> MeteredBackend::prepare(const Op& op) {
  auto prepared = std::make_unique<PreparedMetered>();
  prepared->inner = inner_.prepare(op);
  const auto known = std::find_if(ops_.begin(), ops_.end(),
                                  [&](const auto& one) { return same_work(one->op, op); });
  if (known != ops_.end()) {
    prepared->times = *known;
  } else {
    prepared->times = ops_.emplace_back(std::make_shared<MeteredOp>(MeteredOp{.op = op}));
  }
  return prepared;
}

void MeteredBackend::clear() {
  for (const auto& one : ops_) {
    *one = {.op = one->op};
  }
}

std::vector<MeteredOp> MeteredBackend::ops() const {
  std::vector<MeteredOp> all;
  for (const auto& one : ops_) {
    all.push_back(*one);
  }
  return all;
}

}  // namespace hethub

#include "hethub/accel/emulated/emulated.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>

#include <sys/prctl.h>

#include "hethub/accel/cpu/cpu.h"
#include "hethub/accel/emulated/emulated_kind.h"
#include "hethub/accel/emulated/paced_clock.h"
#include "hethub/base/error.h"

namespace hethub {
namespace {

constexpr std::size_t kMostOperands = 16;

struct Counts {
  std::atomic<std::int64_t> ops = 0;
  std::atomic<std::int64_t> overran = 0;
};

// Off the core, to the microsecond: the system may otherwise add 50 to every sleep.
void sleep_until(Deadline end, Deadline deadline) {
  if (std::chrono::steady_clock::now() >= end) return;
  ::prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  std::this_thread::sleep_until(std::min(end, deadline));
  if (end <= deadline) return;
  throw Error(ErrorCode::kTimeout, {.what = "emulated: work queued on the device",
                                    .found = "it is not done at the deadline",
                                    .expected = "it to be done",
                                    .fix = "lower the emulation's scale, or raise the timeout"});
}

// The CPU does not address the memory of an emulated kind.
class EmulatedBuffer : public Buffer {
 public:
  explicit EmulatedBuffer(std::unique_ptr<Buffer> inner)
      : Buffer(inner->bytes()), inner_(std::move(inner)) {}
  std::byte* host_data() override { return nullptr; }
  Buffer& inner() { return *inner_; }

 private:
  std::unique_ptr<Buffer> inner_;
};

View inner_of(View view) {
  if (view.buffer != nullptr) view.buffer = &static_cast<EmulatedBuffer&>(*view.buffer).inner();
  return view;
}

class EmulatedEvent : public Event {
 public:
  bool done() override { return std::chrono::steady_clock::now() >= at; }
  void wait(Deadline deadline) override { sleep_until(at, deadline); }

  Deadline at = {};
};

struct EmulatedOp : PreparedOp {
  std::unique_ptr<PreparedOp> inner = {};
  double seconds = 0;
};

class EmulatedQueue : public Queue {
 public:
  EmulatedQueue(std::unique_ptr<Queue> inner, const EmulatedKind& kind, Counts& counts)
      : inner_(std::move(inner)), kind_(kind), counts_(counts) {}

  void run(PreparedOp& op, std::span<const View> inputs, std::span<const View> outputs,
           View workspace) override {
    auto& emulated = static_cast<EmulatedOp&>(op);
    std::array<View, kMostOperands> in = {};
    std::array<View, kMostOperands> out = {};
    std::transform(inputs.begin(), inputs.end(), in.begin(), inner_of);
    std::transform(outputs.begin(), outputs.end(), out.begin(), inner_of);
    paced(emulated.seconds, [&] {
      inner_->run(*emulated.inner, std::span(in).first(inputs.size()),
                  std::span(out).first(outputs.size()), inner_of(workspace));
    });
  }
  void copy(View from, View to) override {
    paced(kind_.copy_seconds(from.bytes), [&] { inner_->copy(inner_of(from), inner_of(to)); });
  }
  void upload(std::span<const std::byte> from, View to) override {
    paced(kind_.link_seconds(to.bytes), [&] { inner_->upload(from, inner_of(to)); });
  }
  void download(View from, std::span<std::byte> to) override {
    paced(kind_.link_seconds(from.bytes), [&] { inner_->download(inner_of(from), to); });
  }
  void record(Event& event) override { static_cast<EmulatedEvent&>(event).at = clock_.free_at(); }
  void synchronize(Deadline deadline) override { sleep_until(clock_.free_at(), deadline); }

 private:
  template <typename Work>
  void paced(double seconds, const Work& work) {
    const Deadline issued = std::chrono::steady_clock::now();
    work();
    const bool overran = clock_.add(issued, seconds, std::chrono::steady_clock::now());
    counts_.ops.fetch_add(1, std::memory_order_relaxed);
    if (overran) counts_.overran.fetch_add(1, std::memory_order_relaxed);
  }

  std::unique_ptr<Queue> inner_;
  const EmulatedKind& kind_;
  Counts& counts_;
  PacedClock clock_ = {};
};

class EmulatedBackend : public Backend {
 public:
  EmulatedBackend(EmulatedKind kind, std::unique_ptr<Backend> inner)
      : kind_(std::move(kind)), inner_(std::move(inner)) {}

  DeviceInfo info() const override {
    const DeviceInfo real = inner_->info();
    return {.backend = "emulated",
            .kind = kind_.part().name,
            .name = text("emulated: 1/", kind_.options().scale, " of ", kind_.part().name, ", on ",
                         real.name),
            .memory_bytes = kind_.part().memory_bytes,
            .driver = text("emulated on ", real.driver)};
  }

  std::unique_ptr<Buffer> allocate(std::int64_t bytes) override {
    return std::make_unique<EmulatedBuffer>(inner_->allocate(bytes));
  }
  std::unique_ptr<Queue> make_queue() override {
    return std::make_unique<EmulatedQueue>(inner_->make_queue(), kind_, counts_);
  }
  std::unique_ptr<Event> make_event() override { return std::make_unique<EmulatedEvent>(); }
  std::unique_ptr<PreparedOp> prepare(const Op& op) override {
    auto prepared = std::make_unique<EmulatedOp>();
    prepared->inner = inner_->prepare(op);
    prepared->seconds = kind_.op_seconds(op);
    return prepared;
  }

  Pacing pacing() const { return {.ops = counts_.ops, .overran = counts_.overran}; }

 private:
  EmulatedKind kind_;
  std::unique_ptr<Backend> inner_;
  Counts counts_ = {};
};

}  // namespace

std::unique_ptr<Backend> open_emulated(const BackendOptions& options) {
  EmulatedKind kind(parse_emulation(options.device_type));
  BackendOptions inner = options;
  inner.device = 0;
  inner.device_type.clear();
  return std::make_unique<EmulatedBackend>(std::move(kind), open_cpu(inner));
}

std::vector<FoundDevice> find_emulated() {
  return {
      {.backend = "emulated",
       .device = 0,
       .info = {.backend = "emulated", .kind = "emulated"},
       .problem = text("no device: emulated:KIND:scale=F runs on the cpu at the pace of KIND, F "
                       "times slower; kinds: ",
                       emulated_kinds())}};
}

std::optional<Pacing> pacing_of(const Backend& backend) {
  const auto* const emulated = dynamic_cast<const EmulatedBackend*>(&backend);
  if (emulated == nullptr) return std::nullopt;
  return emulated->pacing();
}

}  // namespace hethub

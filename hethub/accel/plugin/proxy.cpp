#include "hethub/accel/plugin/proxy.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "hethub/accel/plugin/forms.h"
#include "hethub/base/error.h"

namespace hethub {
namespace {

// More operands than any op has.
constexpr std::size_t kMostOperands = 16;

// Calls a function of the table; its failure becomes an exception.
template <typename Function, typename... Arguments>
void call(Function function, Arguments... arguments) {
  HethubError error = {};
  if (function(arguments..., &error) != 0) throw error_of(error);
}

double seconds_to(Deadline deadline) {
  const auto left = deadline - std::chrono::steady_clock::now();
  return std::max(0.0, std::chrono::duration<double>(left).count());
}

// The object behind one of the interface's, which must be this table's own.
template <typename Proxy, typename Base>
Proxy& ours(Base& object, const HethubPlugin& table) {
  auto* proxy = dynamic_cast<Proxy*>(&object);
  require(proxy != nullptr && proxy->table() == &table, [&] {
    return ErrorParts{.what = text(table.name, ": an operand"),
                      .found = "another backend's",
                      .expected = "one that this backend made",
                      .fix = "make buffers, ops and events with the backend of the queue"};
  });
  return *proxy;
}

// Owns one of a plug-in's objects.
template <typename Base, typename Handle>
class Proxy : public Base {
 public:
  using Free = void (*)(Handle*);
  template <typename... Rest>
  Proxy(const HethubPlugin& table, Free free, Handle* handle, Rest... rest)
      : Base(rest...), table_(table), free_(free), handle_(handle) {}
  ~Proxy() override { free_(handle_); }
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  const HethubPlugin* table() const { return &table_; }
  Handle* handle() const { return handle_; }

 protected:
  const HethubPlugin& table_;

 private:
  Free free_;
  Handle* handle_;
};

class PluginBuffer final : public Proxy<Buffer, HethubBuffer> {
 public:
  PluginBuffer(const HethubPlugin& table, HethubBuffer* handle, void* host, std::int64_t bytes)
      : Proxy(table, table.free_buffer, handle, bytes), host_(static_cast<std::byte*>(host)) {}
  std::byte* host_data() override { return host_; }

 private:
  std::byte* host_;
};

using PluginOp = Proxy<PreparedOp, HethubPreparedOp>;

class PluginEvent final : public Proxy<Event, HethubEvent> {
 public:
  using Proxy::Proxy;

  bool done() override {
    std::int32_t done = 0;
    call(table_.done, handle(), &done);
    return done != 0;
  }
  void wait(Deadline deadline) override { call(table_.wait, handle(), seconds_to(deadline)); }
};

class PluginQueue final : public Proxy<Queue, HethubQueue> {
 public:
  using Proxy::Proxy;

  void run(PreparedOp& op, std::span<const View> inputs, std::span<const View> outputs,
           View workspace) override {
    std::array<HethubView, kMostOperands> in;
    std::array<HethubView, kMostOperands> out;
    put(inputs, in);
    put(outputs, out);
    const HethubView scratch = form_of(workspace);
    call(table_.run, handle(), ours<PluginOp>(op, table_).handle(), std::as_const(in).data(),
         static_cast<std::int32_t>(inputs.size()), std::as_const(out).data(),
         static_cast<std::int32_t>(outputs.size()), &scratch);
  }
  void copy(View from, View to) override {
    require_same(from.bytes, to.bytes);
    const HethubView source = form_of(from);
    const HethubView target = form_of(to);
    call(table_.copy, handle(), &source, &target);
  }
  void upload(std::span<const std::byte> from, View to) override {
    require_same(static_cast<std::int64_t>(from.size()), to.bytes);
    const HethubView target = form_of(to);
    call(table_.upload, handle(), static_cast<const void*>(from.data()), &target);
  }
  void download(View from, std::span<std::byte> to) override {
    require_same(from.bytes, static_cast<std::int64_t>(to.size()));
    const HethubView source = form_of(from);
    call(table_.download, handle(), &source, static_cast<void*>(to.data()));
  }
  void record(Event& event) override {
    call(table_.record, handle(), ours<PluginEvent>(event, table_).handle());
  }
  void synchronize(Deadline deadline) override {
    call(table_.synchronize, handle(), seconds_to(deadline));
  }

 private:
  HethubView form_of(const View& view) const {
    if (view.buffer == nullptr) return {nullptr, view.offset, view.bytes};
    return {ours<PluginBuffer>(*view.buffer, table_).handle(), view.offset, view.bytes};
  }
  void put(std::span<const View> views, std::array<HethubView, kMostOperands>& forms) const {
    require(views.size() <= kMostOperands, [&] {
      return ErrorParts{.what = text(table_.name, ": operands of an op"),
                        .found = text(views.size()),
                        .expected = text("at most ", kMostOperands),
                        .fix = "pass what facts_of(op) names"};
    });
    std::transform(views.begin(), views.end(), forms.begin(),
                   [this](const View& view) { return form_of(view); });
  }
  void require_same(std::int64_t from, std::int64_t to) const {
    require(from == to, [&] {
      return ErrorParts{.what = text(table_.name, ": copy"),
                        .found = text(from, " bytes to ", to),
                        .expected = "the same size",
                        .fix = "slice both to one size"};
    });
  }
};

class PluginBackend final : public Proxy<Backend, HethubBackend> {
 public:
  using Proxy::Proxy;

  DeviceInfo info() const override {
    HethubDevice device = {};
    call(table_.info, handle(), &device);
    return device_of(device).info;
  }
  std::unique_ptr<Buffer> allocate(std::int64_t bytes) override {
    HethubBuffer* buffer = nullptr;
    void* host = nullptr;
    call(table_.allocate, handle(), bytes, &buffer, &host);
    return std::make_unique<PluginBuffer>(table_, buffer, host, bytes);
  }
  std::unique_ptr<Queue> make_queue() override {
    HethubQueue* queue = nullptr;
    call(table_.make_queue, handle(), &queue);
    return std::make_unique<PluginQueue>(table_, table_.free_queue, queue);
  }
  std::unique_ptr<Event> make_event() override {
    HethubEvent* event = nullptr;
    call(table_.make_event, handle(), &event);
    return std::make_unique<PluginEvent>(table_, table_.free_event, event);
  }
  std::unique_ptr<PreparedOp> prepare(const Op& op) override {
    const HethubOp form = hethub::form_of(op);
    HethubPreparedOp* prepared = nullptr;
    call(table_.prepare, handle(), &form, &prepared);
    return std::make_unique<PluginOp>(table_, table_.free_op, prepared);
  }
};

}  // namespace

std::unique_ptr<Backend> open_proxy(const HethubPlugin& table, const BackendOptions& options) {
  const HethubOptions form = {.device_type = options.device_type.c_str(),
                              .device = options.device,
                              .threads = options.threads,
                              .cores = options.cores.data(),
                              .core_count = static_cast<std::int32_t>(options.cores.size())};
  HethubBackend* backend = nullptr;
  call(table.open, &form, &backend);
  return std::make_unique<PluginBackend>(table, table.close, backend);
}

}  // namespace hethub

#include "cli/bench_rank.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>

#include <nlohmann/json.hpp>
#include <sys/resource.h>

#include "cli/bench_values.h"
#include "hethub/base/clock.h"
#include "hethub/collective/tuning.h"
#include "hethub/profile/link_timer.h"

namespace hethub {
namespace {

constexpr int kBatches = 5;
constexpr int kWarmUps = 3;
constexpr double kMostCalls = 20000;

double page_faults() {
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_minflt + usage.ru_majflt);
}

struct Memory {
  std::unique_ptr<Buffer> buffer = {};
  View view = {};

  Memory(Backend& backend, std::int64_t bytes)
      : buffer(backend.allocate(std::max<std::int64_t>(bytes, 1))),
        view{.buffer = buffer.get(), .bytes = bytes} {}
};

// One collective on one communicator.
class RowTimer {
 public:
  RowTimer(const CommBench& bench, Communicator& communicator, DevicePort& port,
           const Collective& collective)
      : bench_(bench),
        communicator_(communicator),
        port_(port),
        call_(collective),
        values_(collective, communicator.size(), communicator.rank()),
        prepared_(communicator.prepare(collective)),
        data_(port.backend(), prepared_->data_bytes()),
        input_(port.backend(), input_bytes()) {}

  const std::string& algorithm() const { return prepared_->name(); }

  Json measure(bool in_place) {
    in_place_ = in_place || call_.op == CollectiveOp::kBarrier;
    std::array<double, 2> totals = {static_cast<double>(wrong_elements()), 0};
    const std::int64_t calls = calls_of_batch();
    std::array<double, kBatches> seconds = {};
    for (double& batch : seconds) {
      communicator_.barrier(deadline());
      const double faults = page_faults();
      const double begin = seconds_now();
      run(calls);
      batch = (seconds_now() - begin) / static_cast<double>(calls);
      totals[1] += page_faults() - faults;
    }
    const double median = slowest_median(seconds);
    communicator_.all_reduce_host(totals, deadline());
    const double rate = static_cast<double>(bytes()) / median;
    return {{"seconds", median},
            {"algbw", rate},
            {"busbw", rate * bus_factor(call_.op, communicator_.size())},
            {"wrong", totals[0]},
            {"calls", calls * kBatches},
            {"page_faults", totals[1]}};
  }

  /// What nccl-tests calls the size: the data of the rank that has most.
  std::int64_t bytes() const {
    const std::int64_t all = call_.count * size_of(call_.dtype);
    return call_.op == CollectiveOp::kAllToAll ? all / communicator_.size() : all;
  }

 private:
  Deadline deadline() const { return after_seconds(bench_.timeout_s); }

  // What this rank gives in a call out of place.
  std::int64_t input_bytes() const {
    switch (call_.op) {
      case CollectiveOp::kAllToAll:
        return prepared_->input_bytes();
      case CollectiveOp::kBroadcast:
      case CollectiveOp::kScatter:
        return communicator_.rank() == call_.root ? prepared_->data_bytes() : 0;
      case CollectiveOp::kAllGather:
      case CollectiveOp::kGather: {
        const ChunkTable table = even_chunks(call_.count, communicator_.size());
        return table[static_cast<std::size_t>(communicator_.rank())] * size_of(call_.dtype);
      }
      case CollectiveOp::kAllReduce:
      case CollectiveOp::kReduce:
      case CollectiveOp::kReduceScatter:
      case CollectiveOp::kBarrier:
        break;
    }
    return prepared_->data_bytes();
  }

  void run(std::int64_t calls) {
    const bool takes_input = !in_place_ || call_.op == CollectiveOp::kAllToAll;
    for (std::int64_t call = 0; call < calls; ++call) {
      communicator_.start(call_, data_.view, takes_input ? input_.view : View{}).wait(deadline());
    }
    port_.queue().synchronize(deadline());
  }

  std::int64_t wrong_elements() {
    std::vector<std::byte> host(static_cast<std::size_t>(data_.view.bytes));
    std::vector<std::byte> given(static_cast<std::size_t>(input_.view.bytes));
    if (in_place_) values_.fill_data(host);
    if (input_.view.bytes > 0) {
      values_.fill_input(given);
      port_.queue().upload(given, input_.view);
    }
    if (!host.empty()) port_.queue().upload(host, data_.view);
    run(1);
    if (host.empty()) return 0;
    port_.queue().download(data_.view, host);
    port_.queue().synchronize(deadline());
    return values_.wrong(host);
  }

  // So many that a batch takes its time; rank 0 decides, which saw the warm-up as all did.
  std::int64_t calls_of_batch() {
    run(1);
    communicator_.barrier(deadline());
    const double begin = seconds_now();
    run(kWarmUps);
    const double each = std::max((seconds_now() - begin) / kWarmUps, 1e-7);
    return static_cast<std::int64_t>(
        of_rank_0(std::clamp(bench_.seconds / kBatches / each, 1.0, kMostCalls)));
  }

  double of_rank_0(double mine) {
    std::vector<double> all(static_cast<std::size_t>(communicator_.size()));
    communicator_.all_gather_host(std::as_bytes(std::span(&mine, 1)),
                                  std::as_writable_bytes(std::span(all)), deadline());
    return all.front();
  }

  // A batch took what its slowest rank took.
  double slowest_median(std::span<const double> mine) {
    std::vector<double> all(mine.size() * static_cast<std::size_t>(communicator_.size()));
    communicator_.all_gather_host(std::as_bytes(mine), std::as_writable_bytes(std::span(all)),
                                  deadline());
    std::vector<double> slowest(mine.size(), 0);
    for (std::size_t at = 0; at < all.size(); ++at) {
      slowest[at % mine.size()] = std::max(slowest[at % mine.size()], all[at]);
    }
    std::sort(slowest.begin(), slowest.end());
    return std::max(slowest[slowest.size() / 2], 1e-9);
  }

  const CommBench& bench_;
  Communicator& communicator_;
  DevicePort& port_;
  Collective call_;
  BenchValues values_;
  std::unique_ptr<PreparedCollective> prepared_;
  Memory data_;
  Memory input_;
  bool in_place_ = true;
};

std::string transport_of(const Messenger& messenger) {
  std::string all;
  for (int peer = 0; peer < messenger.world_size(); ++peer) {
    const std::string_view name = messenger.transport_to(peer);
    if (peer == messenger.rank() || all.find(name) != std::string::npos) continue;
    all += (all.empty() ? "" : "+") + std::string(name);
  }
  return all.empty() ? "self" : all;
}

// A table that names one algorithm for every call of an op.
ChoiceTable only(CollectiveOp op, const std::string& algorithm) {
  return {{{.op = op, .algorithm = algorithm}}};
}

class Bench {
 public:
  Bench(const CommBench& bench, Messenger& messenger, Backend& backend)
      : bench_(bench),
        messenger_(messenger),
        backend_(backend),
        queue_(backend.make_queue()),
        transport_(transport_of(messenger)) {
    port_.emplace(DevicePortOptions{.messenger = &messenger,
                                    .backend = &backend,
                                    .queue = queue_.get(),
                                    .force_host_staged = bench.host_staged});
    ranks_.resize(static_cast<std::size_t>(messenger.world_size()));
    std::iota(ranks_.begin(), ranks_.end(), 0);
  }

  Json run() {
    Json rows = Json::array();
    for (const CollectiveOp op : bench_.ops) {
      if (!bench_.all_algorithms) {
        measure(op, bench_.algorithm, rows);
        continue;
      }
      for (const std::string& algorithm : algorithms_for(op)) {
        measure(op, algorithm, rows);
      }
    }
    if (bench_.pairs) measure_pairs(rows);
    return rows;
  }

 private:
  void measure(CollectiveOp op, const std::string& algorithm, Json& rows) {
    Communicator communicator({.port = &*port_,
                               .ranks = ranks_,
                               .id = id_++,
                               .choices = algorithm.empty() ? bench_.choices : only(op, algorithm),
                               .agree_timeout_s = bench_.timeout_s});
    for (const std::int64_t size : bench_.sizes) {
      rows.push_back(row_of(op, op == CollectiveOp::kBarrier ? 0 : size, algorithm, communicator));
      if (op == CollectiveOp::kBarrier) return;
    }
  }

  Json row_of(CollectiveOp op, std::int64_t bytes, const std::string& algorithm,
              Communicator& communicator) {
    Collective call{
        .op = op, .dtype = bench_.dtype, .reduction = bench_.reduction, .root = bench_.root};
    call.count = bytes / size_of(call.dtype);
    if (messenger_.rank() == bench_.numel_rank) call.count *= bench_.numel_factor;
    if (op == CollectiveOp::kAllToAll) call.count *= messenger_.world_size();
    RowTimer timer(bench_, communicator, *port_, call);
    Json row = {{"name", text(name_of(op), ' ', transport_, ' ', messenger_.world_size(), " ranks ",
                              size_text(bytes))},
                {"op", name_of(op)},
                {"algorithm", algorithm.empty() ? timer.algorithm() : algorithm},
                {"transport", transport_},
                {"route", port_->route().name()},
                {"ranks", messenger_.world_size()},
                {"bytes", timer.bytes()},
                {"count", call.count},
                {"dtype", hethub::name_of(call.dtype)},
                {"reduction", hethub::name_of(call.reduction)}};
    if (!bench_.all_algorithms) row["out_of_place"] = timer.measure(false);
    row["in_place"] = timer.measure(true);
    return row;
  }

  // Messages both ways at once between each two ranks, the others idle.
  void measure_pairs(Json& rows) {
    Communicator communicator({.port = &*port_, .ranks = ranks_, .id = id_++});
    const std::vector<double> sizes(bench_.sizes.begin(), bench_.sizes.end());
    for (int low = 0; low < messenger_.world_size(); ++low) {
      for (int high = low + 1; high < messenger_.world_size(); ++high) {
        communicator.barrier(after_seconds(bench_.timeout_s));
        std::vector<double> seconds(sizes.size(), 0);
        const int self = messenger_.rank();
        if (self == low || self == high) {
          const auto points =
              time_messages(messenger_, self == low ? high : low, self == low, sizes);
          for (std::size_t at = 0; at < points.size() && self == low; ++at) {
            seconds[at] = points[at].seconds;
          }
        }
        communicator.all_reduce_host(seconds, after_seconds(bench_.timeout_s));
        for (std::size_t at = 0; at < sizes.size(); ++at) {
          rows.push_back(pair_row(low, high, bench_.sizes[at], seconds[at]));
        }
      }
    }
  }

  Json pair_row(int low, int high, std::int64_t bytes, double seconds) const {
    return {
        {"name", text("send_recv ", transport_, " ranks ", low, "-", high, ' ', size_text(bytes))},
        {"op", "send_recv"},
        {"transport", transport_},
        {"pair", {low, high}},
        {"bytes", bytes},
        {"seconds", seconds},
        {"bytes_per_s", static_cast<double>(bytes) / seconds}};
  }

  const CommBench& bench_;
  Messenger& messenger_;
  Backend& backend_;
  std::unique_ptr<Queue> queue_;
  std::string transport_;
  std::optional<DevicePort> port_ = {};
  std::vector<int> ranks_ = {};
  int id_ = 0;
};

}  // namespace

std::string size_text(std::int64_t bytes) {
  constexpr std::int64_t kKib = 1024;
  for (const auto& [unit, name] : {std::pair(kKib * kKib * kKib, "GiB"),
                                   std::pair(kKib * kKib, "MiB"), std::pair(kKib, "KiB")}) {
    if (bytes >= unit && bytes % unit == 0) return text(bytes / unit, ' ', name);
  }
  return text(bytes, " B");
}

Json run_comm_bench(const CommBench& bench, Messenger& messenger, Backend& backend) {
  return Bench(bench, messenger, backend).run();
}

}  // namespace hethub

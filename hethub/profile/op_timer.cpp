#include "hethub/profile/op_timer.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "hethub/base/clock.h"
#include "hethub/base/error.h"
#include "hethub/program/memory.h"

namespace hethub {
namespace {

constexpr double kDeviceTimeout = 300;
constexpr int kMostCopies = 64;
// A batch of runs: long beside the wait at its end, short beside what the system does in between,
// so that the median batch is one that nothing disturbed.
constexpr double kBatchSeconds = 2e-3;
constexpr int kMostRuns = 10'000;

struct Operands {
  std::vector<View> inputs = {};
  std::vector<View> outputs = {};
  View workspace = {};
};

// Where an op's operands lie in `memory` from `offset` on; moves `offset` past them.
Operands place(const OpFacts& facts, Buffer* memory, std::int64_t& offset) {
  const auto next = [&](std::int64_t bytes) {
    const View view{memory, offset, bytes};
    offset += aligned(bytes);
    return view;
  };
  Operands operands;
  for (const TensorSpec& input : facts.inputs) {
    operands.inputs.push_back(next(input.bytes()));
  }
  for (const OutputFacts& output : facts.outputs) {
    operands.outputs.push_back(output.updates >= 0 ? operands.inputs.at(output.updates)
                                                   : next(output.spec.bytes()));
  }
  operands.workspace = next(facts.workspace_bytes);
  return operands;
}

std::int64_t bytes_of(const OpFacts& facts) {
  std::int64_t end = 0;
  place(facts, nullptr, end);
  return end;
}

// Numbers of about one: neither so small nor so large that arithmetic on them is slow.
std::vector<float> moderate_values(std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  std::uint32_t state = 1;
  for (float& value : values) {
    state = state * 1664525U + 1013904223U;
    value = 0.25F + static_cast<float>(state >> 8U) * 0x1p-25F;
  }
  return values;
}

class Timer {
 public:
  Timer(Backend& backend, const OpTimerOptions& options)
      : backend_(backend),
        options_(options),
        queue_(backend.make_queue()),
        values_(moderate_values(std::int64_t{1} << 20)) {}

  struct Entry {
    OpTime time = {};
    std::unique_ptr<PreparedOp> prepared = {};
    std::vector<double> samples = {};
  };

  // One round on one op. Its memory is filled anew: others have written over it.
  void measure(Entry& entry) {
    const OpFacts facts = facts_of(entry.time.op);
    const std::int64_t bytes = bytes_of(facts);
    grow(bytes);
    const std::int64_t copies = std::clamp<std::int64_t>(
        rotated_bytes(entry.time.op) / std::max<std::int64_t>(bytes, 1), 1, kMostCopies);
    std::vector<Operands> operands;
    std::int64_t offset = 0;
    for (std::int64_t copy = 0; copy < copies; ++copy) {
      operands.push_back(place(facts, arena_.get(), offset));
    }
    // The last workspace is scratch.
    fill(offset - aligned(facts.workspace_bytes));
    fill_indices(entry.time.op, facts, operands);
    const double budget = options_.seconds_per_op / options_.rounds;
    const double once = std::max(run(*entry.prepared, operands, 1), 1e-9);
    int runs = std::clamp(static_cast<int>(kBatchSeconds / once), 1, kMostRuns);
    const double warm = run(*entry.prepared, operands, runs);  // also corrects a slow first run
    runs = std::clamp(static_cast<int>(runs * kBatchSeconds / std::max(warm, 1e-9)), 1, kMostRuns);
    const double begin = seconds_now();
    do {
      entry.samples.push_back(run(*entry.prepared, operands, runs) / runs);
      entry.time.runs += runs;
    } while (seconds_now() - begin < budget);
  }

  std::unique_ptr<PreparedOp> prepare(const Op& op) { return backend_.prepare(op); }

 private:
  std::int64_t rotated_bytes(const Op& op) const {
    const bool of_optimizer =
        std::holds_alternative<AdamW>(op.body) || std::holds_alternative<SumSquares>(op.body) ||
        std::holds_alternative<Fill>(op.body) || std::holds_alternative<Accumulate>(op.body);
    return of_optimizer ? options_.optimizer_bytes : options_.program_bytes;
  }

  void grow(std::int64_t bytes) {
    const std::int64_t wanted = std::max({bytes, options_.program_bytes, options_.optimizer_bytes});
    if (arena_ && arena_->bytes() >= wanted) return;
    arena_.reset();
    arena_ = backend_.allocate(wanted);
  }

  void fill(std::int64_t end) {
    const auto source = std::as_bytes(std::span(values_));
    for (std::int64_t at = 0; at < end; at += std::ssize(source)) {
      const std::int64_t part = std::min<std::int64_t>(std::ssize(source), end - at);
      queue_->upload(source.first(static_cast<std::size_t>(part)), {arena_.get(), at, part});
    }
    queue_->synchronize(after_seconds(kDeviceTimeout));
  }

  void fill_indices(const Op& op, const OpFacts& facts, const std::vector<Operands>& operands) {
    for (std::size_t input = 0; input < facts.inputs.size(); ++input) {
      if (facts.inputs[input].dtype != DType::kI32) continue;
      const auto indices = index_values(op, facts.inputs[input].elements());
      for (const Operands& copy : operands) {
        queue_->upload(std::as_bytes(std::span(indices)), copy.inputs[input]);
      }
      queue_->synchronize(after_seconds(kDeviceTimeout));
    }
  }

  double run(PreparedOp& op, const std::vector<Operands>& operands, int runs) {
    const double begin = seconds_now();
    for (int index = 0; index < runs; ++index) {
      const Operands& copy = operands[next_++ % operands.size()];
      queue_->run(op, copy.inputs, copy.outputs, copy.workspace);
    }
    queue_->synchronize(after_seconds(kDeviceTimeout));
    return seconds_now() - begin;
  }

  Backend& backend_;
  OpTimerOptions options_;
  std::unique_ptr<Queue> queue_;
  std::vector<float> values_;
  std::unique_ptr<Buffer> arena_ = {};
  std::size_t next_ = 0;
};

// A device that lacks an op or the memory for it is a finding; any other failure ends the profile.
template <typename Work>
void note_problem(OpTime& time, const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    const bool finding =
        error.code() == ErrorCode::kUnsupported || error.code() == ErrorCode::kOutOfMemory;
    if (!finding) throw;
    time.problem = error.what();
  }
}

}  // namespace

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

namespace {

// Where each expert's slots begin if all are chosen alike.
std::vector<std::int32_t> even_starts(std::int64_t experts, std::int64_t load) {
  std::vector<std::int32_t> starts;
  for (std::int64_t expert = 0; expert <= experts; ++expert) {
    starts.push_back(static_cast<std::int32_t>(expert * load / experts));
  }
  return starts;
}

// One more than the largest index that the op may be given; 0: it reads none.
std::int64_t limit_of_choices(const Op& op) {
  if (const auto* grad = std::get_if<RouterGrad>(&op.body)) return grad->forward.experts;
  if (const auto* sort = std::get_if<SortChoices>(&op.body)) return sort->first + sort->held;
  const auto order = [](const auto& sizes) {
    return std::min(sizes.slots, sizes.rows * sizes.top);
  };
  if (const auto* take = std::get_if<TakeRows>(&op.body)) return order(*take);
  if (const auto* sum = std::get_if<SumRows>(&op.body)) return order(*sum);
  if (const auto* weights = std::get_if<SumRowsGradWeight>(&op.body)) return order(*weights);
  return 0;
}

}  // namespace

std::vector<std::int32_t> index_values(const Op& op, std::int64_t count) {
  if (const auto* y = std::get_if<ExpertLinear>(&op.body)) return even_starts(y->experts, y->load);
  if (const auto* x = std::get_if<ExpertLinearGradInput>(&op.body)) {
    return even_starts(x->experts, x->load);
  }
  if (const auto* w = std::get_if<ExpertLinearGradWeight>(&op.body)) {
    return even_starts(w->experts, w->load);
  }
  std::int64_t limit = 1;  // starts of documents: all at 0
  if (const auto* embedding = std::get_if<Embedding>(&op.body)) limit = embedding->whole();
  if (const auto* gradient = std::get_if<EmbeddingGrad>(&op.body)) limit = gradient->whole();
  if (const auto* rope = std::get_if<Rope>(&op.body)) limit = rope->table_rows;
  if (const auto* loss = std::get_if<CrossEntropy>(&op.body)) limit = loss->vocab;
  if (const auto* part = std::get_if<CrossEntropyPart>(&op.body)) limit = part->of;
  if (const auto* gradient = std::get_if<CrossEntropyGrad>(&op.body)) limit = gradient->whole();
  limit = std::max(limit, limit_of_choices(op));
  const std::int64_t stride = std::holds_alternative<Rope>(op.body) ? 1 : 7919;
  std::vector<std::int32_t> values(static_cast<std::size_t>(count));
  for (std::int64_t index = 0; index < count; ++index) {
    values[static_cast<std::size_t>(index)] = static_cast<std::int32_t>(index * stride % limit);
  }
  return values;
}

std::vector<OpTime> time_ops(Backend& backend, const std::vector<Op>& ops,
                             const OpTimerOptions& options) {
  Timer timer(backend, options);
  std::vector<Timer::Entry> entries(ops.size());
  for (std::size_t index = 0; index < ops.size(); ++index) {
    OpTime& time = entries[index].time;
    time.op = ops[index];
    note_problem(time, [&] { entries[index].prepared = timer.prepare(ops[index]); });
  }
  for (int round = 0; round < options.rounds; ++round) {
    for (Timer::Entry& entry : entries) {
      if (entry.time.problem.empty()) note_problem(entry.time, [&] { timer.measure(entry); });
    }
  }
  std::vector<OpTime> times;
  for (Timer::Entry& entry : entries) {
    entry.time.seconds = median_of(entry.samples);
    if (!entry.samples.empty()) {
      entry.time.least = *std::min_element(entry.samples.begin(), entry.samples.end());
    }
    times.push_back(std::move(entry.time));
  }
  return times;
}

}  // namespace hethub

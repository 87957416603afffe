#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "hethub/accel/registry.h"
#include "hethub/train/trainer.h"
#include "tests/comm/local_world.h"
#include "tests/plan/small_plan.h"

namespace hethub {

/// Samples whose tokens are a pure function of their number; `counted` labels of sample k count.
class MadeSamples : public SampleSource {
 public:
  MadeSamples(std::int64_t length, std::vector<int> counted) : length_(length), counted_(counted) {}

  std::int64_t sequence_length() const override { return length_; }
  std::int64_t samples_per_epoch() const override { return 64; }
  std::int64_t id_of(std::int64_t sample) const override { return sample; }
  void read(std::int64_t sample, std::span<std::int32_t> tokens,
            std::span<std::int32_t> labels) const override {
    std::uint32_t state = static_cast<std::uint32_t>(sample) * 2654435761U + 1;
    const auto counted = counted_.empty() ? length_ : counted_[sample % std::ssize(counted_)];
    for (std::int64_t i = 0; i < length_; ++i) {
      state = state * 1664525U + 1013904223U;
      tokens[i] = static_cast<std::int32_t>(state >> 24U);
      labels[i] = i < counted ? static_cast<std::int32_t>((state >> 16U) & 0xFFU) : kIgnoredLabel;
    }
  }

 private:
  std::int64_t length_;
  std::vector<int> counted_;
};

/// Text that can be learnt: the next token is a function of the one before.
class Cycle : public SampleSource {
 public:
  std::int64_t sequence_length() const override { return 32; }
  std::int64_t samples_per_epoch() const override { return 64; }
  std::int64_t id_of(std::int64_t sample) const override { return sample; }
  void read(std::int64_t sample, std::span<std::int32_t> tokens,
            std::span<std::int32_t> labels) const override {
    std::int32_t token = static_cast<std::int32_t>(sample * 37 % 256);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = token;
      token = (token * 5 + 3) % 256;
      labels[i] = token;
    }
  }
};

/// What one rank of a run in threads saw.
struct ThreadRank {
  std::vector<StepResult> steps = {};
  std::vector<float> parameters = {};  ///< the flat parameters at the end
};

/// Trains `options` for options.steps with one thread a rank, each on a device of one thread: of
/// backends[rank], or of "cpu" past their end.
inline std::vector<ThreadRank> train_in_threads(const TrainOptions& options,
                                                const SampleSource& source,
                                                const std::vector<std::string>& backends = {}) {
  const int world_size = options.plan.world_size();
  auto world = local_world(world_size, Transport::kShm, 65536);
  std::vector<ThreadRank> ranks(static_cast<std::size_t>(world_size));
  std::vector<std::exception_ptr> errors(ranks.size());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        const bool named = static_cast<std::size_t>(rank) < backends.size();
        const auto backend = open_backend(named ? backends[rank] : "cpu", {.threads = 1});
        Trainer trainer(options, *backend, *world[rank]);
        for (std::int64_t step = 0; step < options.steps; ++step) {
          ranks[rank].steps.push_back(trainer.worker().run_step(source, step, step + 1));
        }
        ranks[rank].parameters = trainer.read_floats(trainer.rank_plan().parameters);
      } catch (const Error& error) {
        errors[rank] = std::current_exception();
        world[rank]->abort(error);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return ranks;
}

inline Plan cpu_plan(std::int64_t sequence_length, std::vector<Pipeline> pipelines) {
  Plan plan{
      .model = "small", .sequence_length = sequence_length, .pipelines = std::move(pipelines)};
  for (const Pipeline& pipeline : plan.pipelines) {
    plan.global_batch += pipeline.sequences();
  }
  return plan;
}

inline Pipeline replica(int rank, int size, int count, int layers = 4) {
  return {.micro_batch_size = size,
          .micro_batches = count,
          .stages = {stage_on("cpu", rank, 0, layers)}};
}

inline Pipeline two_stages(int rank, int size, int count, int cut, int layers = 4) {
  return {.micro_batch_size = size,
          .micro_batches = count,
          .stages = {stage_on("cpu", rank, 0, cut), stage_on("cpu", rank + 1, cut, layers)}};
}

}  // namespace hethub

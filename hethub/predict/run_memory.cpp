#include "hethub/predict/run_memory.h"

#include <algorithm>
#include <map>
#include <vector>

#include "hethub/model/decoder.h"
#include "hethub/plan/rank_plan.h"
#include "hethub/plan/schedule.h"
#include "hethub/predict/model_ops.h"
#include "hethub/predict/run_pipeline.h"
#include "hethub/program/differentiate.h"
#include "hethub/program/kept.h"
#include "hethub/program/memory.h"

namespace hethub {
namespace {

struct OneLayer {
  ModelConfig model = {};
  BatchShape shape = {};
  TensorParallel parallel = {};
};

OneLayer one_layer(const PublishedRun& run) {
  OneLayer one{.model = run.model,
               .shape = {.sequences = run.micro_batch_size,
                         .sequence_length = run.sequence_length / run.context_parallel},
               .parallel = {.width = run.tensor_parallel,
                            .layout = run.tensor_parallel > 1 ? TensorLayout::kSplit
                                                              : TensorLayout::kWhole}};
  one.model.layers = 1;
  one.model.windows.resize(1);
  return one;
}

double rows_of(const PublishedRun& run) {
  return static_cast<double>(run.micro_batch_size) * static_cast<double>(run.sequence_length) /
         run.context_parallel;
}

// A row of the hidden size for each token: what tensor parallel leaves whole.
bool is_whole(const PublishedRun& run, const TensorSpec& spec) {
  return static_cast<double>(spec.elements()) ==
         rows_of(run) * static_cast<double>(run.model.hidden_size);
}

// One layer with what is before or after it, in the run's dtype.
Program program_of(const PublishedRun& run, const Slice& slice, Recompute recompute) {
  const OneLayer one = one_layer(run);
  Program program = build_forward(one.model, slice, one.shape, one.parallel);
  DifferentiateOptions options;
  if (recompute == Recompute::kFull) add_recompute({recompute, {0, 1}}, options);
  differentiate(program, options);
  for (Value& value : program.values) {
    const bool holds_rows = value.spec.shape.size() == 2 || is_whole(run, value.spec);
    if (holds_rows && value.spec.dtype == DType::kF32) value.spec.dtype = dtype_of(run);
  }
  return program;
}

// Bytes of what the backward phase reads of the forward phase's values.
double kept_by_program(const PublishedRun& run, const Slice& slice, Recompute recompute) {
  const Program program = program_of(run, slice, recompute);
  double bytes = 0;
  for (const int value : kept_values(program)) {
    const TensorSpec& spec = program.values[value].spec;
    const bool shared = run.sequence_parallel && is_whole(run, spec);
    bytes += static_cast<double>(spec.bytes()) / (shared ? run.tensor_parallel : 1);
  }
  return bytes;
}

double scores_of(const PublishedRun& run) {
  return rows_of(run) * static_cast<double>(run.model.heads * run.sequence_length) /
         run.tensor_parallel;
}

// What a framework keeps of the two sums into the residual beside ours: masks of dropout, a byte an
// element; f32 copies for norms.
double beside_bytes(const PublishedRun& run, const Software& software) {
  const int shared = run.sequence_parallel ? run.tensor_parallel : 1;
  const double of_element = (software.dropout ? 1 : 0) + (software.norms_in_f32 ? 4 : 0);
  return 2 * of_element * rows_of(run) * static_cast<double>(run.model.hidden_size) / shared;
}

// Of softmax, of dropout's mask and of what dropout leaves.
double score_bytes(const PublishedRun& run, const Software& software) {
  if (software.attention != AttentionKernel::kStored || !software.keeps_scores) return 0;
  const auto element = static_cast<double>(size_of(dtype_of(run)));
  return scores_of(run) * (element + (software.dropout ? 1 + element : 0));
}

// Of a layer whose forward pass keeps everything.
double whole_layer_bytes(const PublishedRun& run, const Software& software) {
  return kept_by_program(run, {0, 1, false, false}, Recompute::kNone) +
         beside_bytes(run, software) + score_bytes(run, software);
}

// What a backward action takes beside what is kept: values within a phase, from the plan of its
// program, and attention's scores and their gradients.
double working_bytes(const PublishedRun& run, const Software& software, const Slice& slice) {
  const Program program = program_of(run, slice, run.recompute);
  const MemoryPlan plan = plan_memory({&program}, {{.first_slot = 0, .last_slot = 1}}, {});
  double bytes = static_cast<double>(plan.shared_bytes);
  if (software.attention == AttentionKernel::kStored) {
    bytes += 2 * scores_of(run) * static_cast<double>(size_of(dtype_of(run)));
  }
  const bool again = run.recompute != Recompute::kNone;
  return bytes + (again ? score_bytes(run, software) : 0);
}

// The most that micro-batches under way keep at once: `bytes[program]` each.
double most_at_once(const std::vector<ProgramUse>& uses, const std::vector<double>& bytes) {
  std::map<int, double> changes;
  for (const ProgramUse& use : uses) {
    changes[use.first_slot] += bytes.at(use.program);
    changes[use.last_slot + 1] -= bytes.at(use.program);
  }
  double now = 0;
  double most = 0;
  for (const auto& [slot, change] : changes) {
    now += change;
    most = std::max(most, now);
  }
  return most;
}

struct StagePlan {
  Plan plan = {};
  Schedule schedule = {};
};

StagePlan stage_plan(const PublishedRun& run) {
  const Plan plan = plan_of(run, std::vector<std::string>(run.pipeline_parallel));
  return {plan, schedule_of(plan, 0)};
}

std::vector<Slice> slices_of(const PublishedRun& run, const StagePlan& made, int stage) {
  std::vector<Slice> slices;
  for (const int position : positions_of(made.plan.pipelines[0], stage)) {
    slices.push_back(slice_of(made.plan, run.model, 0, position));
  }
  return slices;
}

double state_bytes(const PublishedRun& run, const Software& software, double held) {
  const int sharers = run.replicas();
  const bool f32 = dtype_of(run) == DType::kF32;
  const double weights = f32 ? 4 : 2;
  const double gradients = f32                             ? 4
                           : dtype_of(run) == DType::kBf16 ? software.bf16_gradient_memory
                                                           : software.gradient_memory;
  const double optimizer = f32 ? 8 : 12;
  const int zero = run.zero_stage;
  return held * (weights / (zero >= 3 ? sharers : 1) + gradients / (zero >= 2 ? sharers : 1) +
                 optimizer / (zero >= 1 ? sharers : 1));
}

double held_of(const PublishedRun& run, const std::vector<Slice>& slices) {
  const OneLayer one = one_layer(run);
  const HeldElements held(one.model, one.parallel);
  double sum = 0;
  for (const Slice& slice : slices) {
    sum += static_cast<double>(held.of(slice));
  }
  return sum;
}

}  // namespace

KeptBytes kept_bytes(const PublishedRun& run, const Software& software) {
  const bool full = run.recompute == Recompute::kFull;
  const Recompute as_program = full ? Recompute::kFull : Recompute::kNone;
  KeptBytes kept{.layer = kept_by_program(run, {0, 1, false, false}, as_program)};
  kept.head = kept_by_program(run, {0, 1, false, true}, as_program) - kept.layer;
  if (!full) kept.layer += beside_bytes(run, software);
  if (run.recompute == Recompute::kNone) kept.layer += score_bytes(run, software);
  kept.embedding = beside_bytes(run, software) / 2;
  return kept;
}

RunMemory stage_memory(const PublishedRun& run, const Software& software, int stage) {
  const StagePlan made = stage_plan(run);
  const std::vector<Slice> slices = slices_of(run, made, stage);
  const KeptBytes kept = kept_bytes(run, software);
  std::vector<double> bytes;
  Slice widest = {0, 1, false, false};
  for (const Slice& slice : slices) {
    bytes.push_back(slice.layers() * kept.layer + (slice.embedding ? kept.embedding : 0) +
                    (slice.head ? kept.head : 0));
    widest.head = widest.head || slice.head;
  }
  const double more = 1 + software.allocator_slack;
  double working = working_bytes(run, software, widest);
  if (run.recompute == Recompute::kFull) {
    PublishedRun whole = run;
    whole.recompute = Recompute::kNone;
    working = std::max(working, working_bytes(whole, software, {0, 1, false, false}) +
                                    whole_layer_bytes(run, software));
  }
  return {.stage = stage,
          .states = state_bytes(run, software, held_of(run, slices)),
          .activations = more * most_at_once(uses_of(made.schedule, stage), bytes),
          .working = more * working,
          .fixed = software.fixed_memory_bytes};
}

RunMemory peak_memory(const PublishedRun& run, const Software& software) {
  RunMemory most;
  for (int stage = 0; stage < run.pipeline_parallel; ++stage) {
    const RunMemory one = stage_memory(run, software, stage);
    if (stage == 0 || one.total() > most.total()) most = one;
  }
  return most;
}

double mean_state_bytes(const PublishedRun& run, const Software& software) {
  const StagePlan made = stage_plan(run);
  double sum = 0;
  for (int stage = 0; stage < run.pipeline_parallel; ++stage) {
    sum += state_bytes(run, software, held_of(run, slices_of(run, made, stage)));
  }
  return sum / run.pipeline_parallel;
}

double first_stage_layer_bytes(const PublishedRun& run, const Software& software) {
  const StagePlan made = stage_plan(run);
  const double layer = kept_bytes(run, software).layer;
  std::vector<double> bytes;
  for (const Slice& slice : slices_of(run, made, 0)) {
    bytes.push_back(slice.layers() * layer);
  }
  return most_at_once(uses_of(made.schedule, 0), bytes);
}

}  // namespace hethub

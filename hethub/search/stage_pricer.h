#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "hethub/cost/cost_model.h"
#include "hethub/model/config.h"
#include "hethub/plan/plan.h"
#include "hethub/plan/segments.h"
#include "hethub/predict/plan_step.h"
#include "hethub/predict/pricing.h"
#include "hethub/program/program.h"
#include "hethub/search/stage_programs.h"

namespace hethub {

/// The schedules that StagePricer prices: one range of layers a stage, backward passes whole.
const std::vector<std::string>& priced_schedules();

/// The numbers of any plan of one model, without building its programs each time: the costs of the
/// whole model's program, sorted by layer, are summed over a stage's layers. They equal numbers_of
/// the plan's rank plans. Calls may come from several threads at once.
class StagePricer {
 public:
  /// Keeps references to all. `programs` are of the model.
  StagePricer(const ModelConfig& model, const CostModel& costs, StagePrograms& programs)
      : model_(model), costs_(costs), programs_(programs) {}

  /// One micro-batch of `sequences` on layers [range) of the model, on a tensor-parallel group of a
  /// kind, within a node; the first layers come with the embedding, the last with the head.
  /// `split`: its weight gradients are a phase of their own. Of `recompute`, what lies in the range
  /// counts.
  StageNumbers stage(const std::string& kind, int sequences, LayerRange range,
                     const std::vector<RecomputeRange>& recompute,
                     const TensorParallel& parallel = {}, bool split = false);

  /// The same with one recompute of all its layers.
  StageNumbers stage(const std::string& kind, int sequences, LayerRange range, Recompute recompute,
                     const TensorParallel& parallel = {}) {
    return stage(kind, sequences, range, {{recompute, range}}, parallel);
  }

  /// Bytes of one micro-batch that go from a stage to the next.
  double boundary_bytes(const std::string& kind, int sequences) {
    return table(kind, sequences, {}).sent_bytes;
  }

  /// The stages' part of a plan's numbers.
  void add_stages(const Plan& plan, StepNumbers& numbers);

  /// The numbers of a plan.
  StepNumbers numbers(const Plan& plan, const std::vector<Segment>& segments);

  /// Seconds of a step of a plan that has these numbers.
  double step_seconds(const Plan& plan, const std::vector<Segment>& segments,
                      const StepNumbers& numbers) const;

  /// The optimizer's part of them: check_seconds, norm_seconds and update_seconds. Where one
  /// pipeline stands for all that are alike (see write_step), its ranks' are those of all.
  void add_optimizer(const Plan& plan, const std::vector<Segment>& segments, StepNumbers& numbers);

 private:
  struct Table {
    PhaseSeconds forward = {};
    std::array<PhaseSeconds, 3> backward = {};  // by Recompute of every layer
    std::array<PhaseSeconds, 3> weights = {};   // likewise; of split programs
    PhaseSeconds copies = {};                   // of parameters, in the form's dtype
    double sent_bytes = 0;
  };

  /// Kind, sequences, tensor-parallel width and layout, and whether programs are split.
  using TableKey = std::tuple<std::string, int, int, TensorLayout, bool>;

  PhaseSeconds phase_seconds(const std::string& kind, const Program& program, Phase phase,
                             const GroupPrice& group) const;
  PhaseSeconds copy_seconds(const std::string& kind, const TensorParallel& parallel) const;
  double copies_of(const std::string& kind, const Slice& slice,
                   const TensorParallel& parallel) const;
  const Table& table(const std::string& kind, int sequences, const TensorParallel& parallel,
                     bool split = false);
  std::vector<int> devices_of_group(const std::string& kind, int width) const;
  double seconds(const std::string& kind, const Op& op);

  const ModelConfig& model_;
  const CostModel& costs_;
  StagePrograms& programs_;
  std::mutex mutex_;  // for what follows
  std::map<TableKey, Table> tables_;
  // Seconds of the optimizer's ops, by kind, op and elements.
  std::map<std::tuple<std::string, std::size_t, std::int64_t>, double> ops_;
};

}  // namespace hethub

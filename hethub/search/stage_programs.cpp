#include "hethub/search/stage_programs.h"

#include <algorithm>

#include "hethub/model/decoder.h"
#include "hethub/plan/plan.h"
#include "hethub/program/differentiate.h"

namespace hethub {

// Layers differ in their windows alone.
StagePrograms::StagePrograms(const ModelConfig& model, const JobForm& form)
    : distinct_(model), form_(form) {
  distinct_.windows.clear();
  for (const std::int64_t window : model.windows) {
    const auto found = std::find(distinct_.windows.begin(), distinct_.windows.end(), window);
    layer_sort_.push_back(static_cast<int>(found - distinct_.windows.begin()));
    if (found == distinct_.windows.end()) distinct_.windows.push_back(window);
  }
  distinct_.layers = static_cast<int>(distinct_.windows.size());
}

const StagePrograms::ByRecompute& StagePrograms::of(int sequences, const TensorParallel& parallel,
                                                    bool split) {
  const std::lock_guard lock(mutex_);
  const auto key = std::tuple(sequences, parallel.width, parallel.layout, split);
  const auto known = known_.find(key);
  if (known != known_.end()) return known->second;
  const BatchShape shape{
      .sequences = sequences, .sequence_length = form_.sequence_length, .dtype = form_.dtype};
  const Program forward =
      build_forward(distinct_, {0, distinct_.layers, true, true}, shape, form_.group(parallel));
  ByRecompute made;
  for (const Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
    Program& program = made[static_cast<std::size_t>(recompute)];
    program = forward;
    DifferentiateOptions options{.split = split};
    add_recompute({recompute, {0, distinct_.layers}}, options);
    differentiate(program, options);
  }
  return known_.emplace(key, std::move(made)).first->second;
}

}  // namespace hethub

#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "hethub/model/config.h"
#include "hethub/model/shards.h"
#include "hethub/program/program.h"
#include "hethub/search/job_form.h"

namespace hethub {

/// The programs of one micro-batch on a whole model, with one layer of each sort it has: layers of
/// a sort cost alike. They are the same for all kinds. Calls may come from several threads at once.
class StagePrograms {
 public:
  StagePrograms(const ModelConfig& model, const JobForm& form);

  /// By Recompute of every layer.
  using ByRecompute = std::array<Program, 3>;

  /// Of so many sequences, on one rank of a tensor-parallel group; `split`: weight gradients are a
  /// phase of their own.
  const ByRecompute& of(int sequences, const TensorParallel& parallel, bool split = false);

  /// The model with only one layer of each sort.
  const ModelConfig& distinct() const { return distinct_; }

  /// By layer of the whole model: which of those it is like.
  const std::vector<int>& layer_sort() const { return layer_sort_; }

  const JobForm& form() const { return form_; }

 private:
  ModelConfig distinct_;
  std::vector<int> layer_sort_ = {};
  JobForm form_;
  std::mutex mutex_;
  // By sequences, tensor-parallel width and layout, and whether they are split.
  std::map<std::tuple<int, int, TensorLayout, bool>, ByRecompute> known_ = {};
};

}  // namespace hethub

#pragma once

#include <memory>

#include "hethub/search/memory_check.h"
#include "hethub/search/stage_memory.h"
#include "hethub/search/stage_pricer.h"
#include "hethub/search/strategy.h"

namespace hethub {

/// What searches for one model, cluster and form find out alike. Calls may come from
/// several threads at once.
class SearchCache {
 private:
  struct OfModel {
    OfModel(const ModelConfig& all, const JobForm& form)
        : model(all), programs(all, form), memory(all), stage_memory(all, form) {}

    const ModelConfig& model;
    StagePrograms programs;
    MemoryCheck memory;
    StageMemory stage_memory;
  };

  std::shared_ptr<OfModel> of_model_;  // shared by the caches of one model

 public:
  /// Keeps references to both.
  SearchCache(const ModelConfig& model, const CostModel& costs, const JobForm& form)
      : of_model_(std::make_shared<OfModel>(model, form)),
        pricer(model, costs, of_model_->programs),
        memory(of_model_->memory),
        stage_memory(of_model_->stage_memory) {}

  /// For other costs or another cluster: shares what does not follow from them.
  SearchCache(const SearchCache& like, const CostModel& costs)
      : of_model_(like.of_model_),
        pricer(of_model_->model, costs, of_model_->programs),
        memory(of_model_->memory),
        stage_memory(of_model_->stage_memory) {}

  const JobForm& form() const { return of_model_->programs.form(); }

  StagePricer pricer;
  MemoryCheck& memory;
  StageMemory& stage_memory;
};

/// A cache for a request that brings none; null for one that does.
std::unique_ptr<SearchCache> own_cache(const SearchRequest& request);

}  // namespace hethub

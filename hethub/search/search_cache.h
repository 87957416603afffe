#pragma once

#include "hethub/search/memory_check.h"
#include "hethub/search/stage_memory.h"
#include "hethub/search/stage_pricer.h"

namespace hethub {

/// What searches for one model, cluster and sequence length find out alike. One thread at a time.
struct SearchCache {
  /// Keeps references to both.
  SearchCache(const ModelConfig& model, const CostModel& costs, std::int64_t sequence_length)
      : pricer(model, costs, sequence_length),
        memory(model, costs),
        stage_memory(model, sequence_length) {}

  StagePricer pricer;
  MemoryCheck memory;
  StageMemory stage_memory;
};

}  // namespace hethub

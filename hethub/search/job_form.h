#pragma once

#include <cstdint>

#include "hethub/base/dtype.h"
#include "hethub/model/shards.h"

namespace hethub {

/// What all plans of a search have alike.
struct JobForm {
  std::int64_t sequence_length = 0;
  DType dtype = DType::kF32;       ///< Plan::dtype
  bool sequence_parallel = false;  ///< Plan::sequence_parallel

  friend bool operator==(const JobForm&, const JobForm&) = default;

  /// A tensor-parallel group of a plan of this form: as Plan::sequence_parallel says.
  TensorParallel group(TensorParallel parallel) const {
    parallel.sequence = sequence_parallel;
    return parallel;
  }
};

}  // namespace hethub

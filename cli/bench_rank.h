#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hethub/base/json.h"
#include "hethub/collective/choice.h"
#include "hethub/comm/communicator.h"
#include "hethub/comm/messenger.h"

namespace hethub {

/// What `hethub bench comm` measures: each op at each size, by the algorithm of the table, or by
/// each one there is.
struct CommBench {
  std::vector<CollectiveOp> ops = {};
  std::vector<std::int64_t> sizes = {};  ///< bytes; of the data of the rank that has most
  DType dtype = DType::kF32;
  Reduction reduction = Reduction::kSum;
  int root = 0;
  double seconds = 0.25;  ///< of a row, in all
  double timeout_s = 120;
  ChoiceTable choices = default_choices();
  std::string algorithm = {};   ///< instead of the table's, if not empty
  bool all_algorithms = false;  ///< each in turn, in place only
  bool pairs = false;           ///< also messages between each two ranks
  int numel_rank = -1;          ///< this rank's calls have numel_factor times the elements: a fault
  int numel_factor = 1;
  bool host_staged = false;  ///< the slow route, also where the CPU addresses the memory
};

/// "16 KiB", "1000 B".
std::string size_text(std::int64_t bytes);

/// Measures as one of the ranks; all call it with the same. On rank 0 the rows come back, one
/// object for each: its name ("all_reduce shm 2 ranks 16 KiB"), op, algorithm, transport, ranks,
/// bytes, count, dtype, reduction, and `in_place` and `out_of_place` with seconds, algbw, busbw
/// (bytes a second), wrong (elements on all ranks), page_faults (in the timed calls, all ranks).
Json run_comm_bench(const CommBench& bench, Messenger& messenger, Backend& backend);

}  // namespace hethub

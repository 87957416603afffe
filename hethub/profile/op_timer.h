#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "hethub/accel/backend.h"
#include "hethub/op/op.h"

namespace hethub {

struct OpTimerOptions {
  double seconds_per_op = 0.1;  ///< spent on measuring each op, over all rounds
  int rounds = 3;               ///< each goes through all ops, so that a disturbance hits few runs
  /// Operands rotate through so much memory. An op of a program reads what ops just before it made,
  /// so less of its memory is out of cache than of an optimizer op's, which meets what nobody has
  /// touched since the last step. Measured: with 64 MiB for both, programs took 0.82 to 0.89 of the
  /// sum of their ops; with 16 MiB 0.88 to 1.05.
  std::int64_t program_bytes = std::int64_t{16} << 20;
  std::int64_t optimizer_bytes = std::int64_t{64} << 20;
};

/// How long an op took, or why that could not be measured.
struct OpTime {
  Op op = {};
  double seconds = 0;  ///< median over batches of runs
  double least = 0;    ///< of the fastest batch
  int runs = 0;
  std::string problem = {};  ///< not empty: the device cannot run it, and says why
};

/// Times each op on the device as it runs inside a program: back to back on a queue, over several
/// copies of its operands, so that they are no more in cache than in a step, where each op meets
/// memory that others have used in between.
std::vector<OpTime> time_ops(Backend& backend, const std::vector<Op>& ops,
                             const OpTimerOptions& options = {});

/// Integers that an op may read as its i32 input: ids, labels and positions inside its tables.
std::vector<std::int32_t> index_values(const Op& op, std::int64_t count);

/// The median; 0 of nothing.
double median_of(std::vector<double> values);

}  // namespace hethub

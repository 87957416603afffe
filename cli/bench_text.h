#pragma once

#include "hethub/base/json.h"

namespace hethub {

/// Prints the rows of run_comm_bench: nccl-tests' columns, and between two ranks a line a pair.
void print_comm_rows(const Json& rows);

}  // namespace hethub

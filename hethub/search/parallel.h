#pragma once

#include <functional>

namespace hethub {

/// Calls `task(index)` once for each of [0, count), on as many threads as the machine has
/// processors, and returns when all have ended. Which thread takes which index is left to chance:
/// tasks write to places of their own. Rethrows what the task of the lowest index threw.
void for_each_in_parallel(int count, const std::function<void(int)>& task);

}  // namespace hethub

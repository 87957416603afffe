#pragma once

#include <cstdint>

namespace hethub {

/// How often any thread of this process asked malloc and its kin for memory: a program that links
/// count_allocations.cpp has them replaced by counting ones.
std::int64_t allocations();

}  // namespace hethub

#pragma once

#include <memory>

#include "hethub/accel/cpu/prepare.h"

namespace hethub {

/// The products of experts: how many rows each expert has is known when they run alone. In 16 bits
/// their operands are taken to f32 in blocks, within the op's workspace.
std::unique_ptr<CpuOp> expert_product(const Op& op, const ExpertLinear& body);
std::unique_ptr<CpuOp> expert_product(const Op& op, const ExpertLinearGradInput& body);
std::unique_ptr<CpuOp> expert_product(const Op& op, const ExpertLinearGradWeight& body);

}  // namespace hethub

#pragma once

#include "hethub/accel/cpu/kernels/kernels.h"

// The kernels for processors with matrix tiles: what levels.cpp puts in place of level 4's.
namespace hethub::x86_64_amx {

void run_product(const MatrixProduct& product, const MatrixOperands& operands, int threads);
void run_attention(const Attention& op, const Arguments& arguments);
void run_attention_grad(const AttentionGrad& op, const Arguments& arguments);

}  // namespace hethub::x86_64_amx

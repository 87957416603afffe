#pragma once

#include "hethub/accel/cpu/kernels/kernels.h"

// The kernels of one level: what table.cpp collects.
namespace hethub::HETHUB_LEVEL {

void run_bias_grad(const BiasGrad& op, const Arguments& arguments);
void run_embedding(const Embedding& op, const Arguments& arguments);
void run_embedding_grad(const EmbeddingGrad& op, const Arguments& arguments);
void run_rms_norm(const RmsNorm& op, const Arguments& arguments);
void run_rms_norm_grad_input(const RmsNormGradInput& op, const Arguments& arguments);
void run_rms_norm_grad_gain(const RmsNormGradGain& op, const Arguments& arguments);
void run_rope(const Rope& op, const Arguments& arguments);
void run_attention(const Attention& op, const Arguments& arguments);
void run_attention_grad(const AttentionGrad& op, const Arguments& arguments);
void run_silu_mul(const SiluMul& op, const Arguments& arguments);
void run_silu_mul_grad(const SiluMulGrad& op, const Arguments& arguments);
void run_add(const Add& op, const Arguments& arguments);
void run_accumulate(const Accumulate& op, const Arguments& arguments);
void run_fill(const Fill& op, const Arguments& arguments);
void run_cross_entropy(const CrossEntropy& op, const Arguments& arguments);
void run_log_sum_exp(const LogSumExp& op, const Arguments& arguments);
void run_cross_entropy_part(const CrossEntropyPart& op, const Arguments& arguments);
void run_cross_entropy_grad(const CrossEntropyGrad& op, const Arguments& arguments);
void run_sum_squares(const SumSquares& op, const Arguments& arguments);
void run_convert(const Convert& op, const Arguments& arguments);
void run_layer_norm(const LayerNorm& op, const Arguments& arguments);
void run_layer_norm_grad_input(const LayerNormGradInput& op, const Arguments& arguments);
void run_layer_norm_grad_gain(const LayerNormGradGain& op, const Arguments& arguments);
void run_add_bias(const AddBias& op, const Arguments& arguments);
void run_gelu(const Gelu& op, const Arguments& arguments);
void run_gelu_grad(const GeluGrad& op, const Arguments& arguments);
void run_route(const Router& op, const Arguments& arguments);
void run_route_grad(const RouterGrad& op, const Arguments& arguments);
void run_sort_choices(const SortChoices& op, const Arguments& arguments);
void run_take_rows(const TakeRows& op, const Arguments& arguments);
void run_sum_rows(const SumRows& op, const Arguments& arguments);
void run_sum_rows_grad_weight(const SumRowsGradWeight& op, const Arguments& arguments);
void run_adamw(const AdamW& op, const Arguments& arguments);

}  // namespace hethub::HETHUB_LEVEL

#include "hethub/accel/cpu/kernels/run.h"

namespace hethub::HETHUB_LEVEL {

// In the order of the bases of Kernels.
extern const Kernels kKernels = {{run_bias_grad},
                                 {run_embedding},
                                 {run_embedding_grad},
                                 {run_rms_norm},
                                 {run_rms_norm_grad_input},
                                 {run_rms_norm_grad_gain},
                                 {run_rope},
                                 {run_attention},
                                 {run_attention_grad},
                                 {run_silu_mul},
                                 {run_silu_mul_grad},
                                 {run_add},
                                 {run_accumulate},
                                 {run_fill},
                                 {run_cross_entropy},
                                 {run_log_sum_exp},
                                 {run_cross_entropy_part},
                                 {run_cross_entropy_grad},
                                 {run_sum_squares},
                                 {run_convert},
                                 {run_layer_norm},
                                 {run_layer_norm_grad_input},
                                 {run_layer_norm_grad_gain},
                                 {run_add_bias},
                                 {run_gelu},
                                 {run_gelu_grad},
                                 {run_route},
                                 {run_route_grad},
                                 {run_sort_choices},
                                 {run_take_rows},
                                 {run_sum_rows},
                                 {run_sum_rows_grad_weight},
                                 {run_adamw}};

}  // namespace hethub::HETHUB_LEVEL

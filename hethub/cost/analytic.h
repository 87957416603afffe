#pragma once

#include "hethub/cluster/sheets.h"
#include "hethub/op/op.h"

namespace hethub {

/// Seconds of an op from a kind's data sheet and its RoofFractions, launch included: the longer of
/// what its FLOPs take and what its bytes take, and at least the launch.
///
/// - Matrix products reach products · k/(k + half_size) of the peak, k being the terms of each sum,
///   times how full their tiles and the last round of tiles over the kind's processors are, for the
///   best of four sizes of tile.
/// - Attention on chip reaches `attention` or `portable_attention` of the peak over the pairs that
///   its mask keeps. With
///   stored scores it is two products over all pairs (five in the gradient), and 6 (10) passes over
///   the scores: written, then read and written by scale and softmax and by dropout, then read.
/// - All other ops move their bytes at `memory` of the memory's rate.
///
/// Source: Williams, Waterman and Patterson, "Roofline", CACM 2009, with a saturating efficiency.
/// `peak` is the kind's for the op's dtype, in FLOP/s, more than 0.
double analytic_seconds(const Kind& kind, double peak, const Op& op,
                        AttentionKernel attention = AttentionKernel::kVendor);

/// Whether an op is attention or its gradient.
bool is_attention(const Op& op);

/// Whether an op is made of matrix products: those and attention.
bool is_product(const Op& op);

/// The data sheet's peak for products of a dtype; bf16 and f16 stand in for each other, since what
/// has one of them alone runs the other's programs in it; f32 is the rate of tf32 where there is
/// one. 0 if none is stated.
double product_peak(const Kind& kind, DType dtype);

}  // namespace hethub

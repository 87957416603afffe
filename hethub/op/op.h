#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "hethub/base/dtype.h"
#include "hethub/base/reduction.h"
#include "hethub/op/experts.h"

namespace hethub {

/// Type and shape of a dense, row-major tensor. It holds no memory.
struct TensorSpec {
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape = {};

  std::int64_t elements() const;
  std::int64_t bytes() const { return elements() * size_of(dtype); }
  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

// ---- The ops. Each is its sizes and nothing else; those of experts are in experts.h. -----------
// Tensors are of the op's dtype unless a comment says otherwise; "ids", "labels", "positions" and
// "starts" are i32. `a += b` marks an output that is also an input: the op adds to what is there.

/// y[rows, out] = x[rows, in] · wᵀ + bias, with w[out, in] and, if `bias`, bias[out].
/// Inputs x, w (, bias); output y.
struct Linear {
  std::int64_t rows = 0;
  std::int64_t in = 0;
  std::int64_t out = 0;
  bool bias = false;

  bool operator==(const Linear&) const = default;
};

/// dx[rows, in] = dy[rows, out] · w[out, in]. Inputs dy, w; output dx. Also the forward op of a
/// matrix that is stored transposed: y = x · w, with x as dy and y as dx.
struct LinearGradInput {
  std::int64_t rows = 0;
  std::int64_t in = 0;
  std::int64_t out = 0;

  bool operator==(const LinearGradInput&) const = default;
};

/// dw[out, in] += dyᵀ · x. Inputs dy[rows, out], x[rows, in], dw; output dw.
struct LinearGradWeight {
  std::int64_t rows = 0;
  std::int64_t in = 0;
  std::int64_t out = 0;

  bool operator==(const LinearGradWeight&) const = default;
};

/// db[width] += Σ over rows of dy[rows, width]. Inputs dy, db; output db.
struct BiasGrad {
  std::int64_t rows = 0;
  std::int64_t width = 0;

  bool operator==(const BiasGrad&) const = default;
};

/// y[rows, width] = table[ids[row], :], with table[vocab, width]. Inputs ids, table; output y.
/// With `of` > 0, the table is rows first .. first + vocab - 1 of one of `of` rows: an id of the
/// others gives a row of zeros.
struct Embedding {
  std::int64_t rows = 0;
  std::int64_t vocab = 0;
  std::int64_t width = 0;
  std::int64_t first = 0;
  std::int64_t of = 0;

  std::int64_t whole() const { return of > 0 ? of : vocab; }
  bool operator==(const Embedding&) const = default;
};

/// dtable[ids[row], :] += dy[row, :], rows in order. Inputs ids, dy, dtable; output dtable.
/// `first` and `of` as in Embedding: ids of the other rows add nothing.
struct EmbeddingGrad {
  std::int64_t rows = 0;
  std::int64_t vocab = 0;
  std::int64_t width = 0;
  std::int64_t first = 0;
  std::int64_t of = 0;

  std::int64_t whole() const { return of > 0 ? of : vocab; }
  bool operator==(const EmbeddingGrad&) const = default;
};

/// y = x · rstd · gain with rstd[row] = 1/sqrt(mean(x²) + eps) (f32), gain[width].
/// Inputs x, gain; outputs y, rstd.
struct RmsNorm {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  double eps = 1e-5;

  bool operator==(const RmsNorm&) const = default;
};

/// dx = rstd · (g - x · rstd² · mean(g · x)) with g = dy · gain.
/// Inputs dy, x, gain, rstd; output dx.
struct RmsNormGradInput {
  std::int64_t rows = 0;
  std::int64_t width = 0;

  bool operator==(const RmsNormGradInput&) const = default;
};

/// dgain[width] += Σ over rows of dy · x · rstd. Inputs dy, x, rstd, dgain; output dgain.
struct RmsNormGradGain {
  std::int64_t rows = 0;
  std::int64_t width = 0;

  bool operator==(const RmsNormGradGain&) const = default;
};

/// y = (x - mean) · rstd · gain + bias with mean[row] = mean(x) and rstd[row] = 1/sqrt(mean((x -
/// mean)²) + eps), both f32; gain[width], bias[width]. Inputs x, gain, bias; outputs y, mean, rstd.
struct LayerNorm {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  double eps = 1e-5;

  bool operator==(const LayerNorm&) const = default;
};

/// dx = rstd · (g - mean(g) - n · mean(g · n)) with g = dy · gain and n = (x - mean) · rstd.
/// Inputs dy, x, gain, mean, rstd; output dx.
struct LayerNormGradInput {
  std::int64_t rows = 0;
  std::int64_t width = 0;

  bool operator==(const LayerNormGradInput&) const = default;
};

/// dgain[width] += Σ over rows of dy · (x - mean) · rstd. Inputs dy, x, mean, rstd, dgain; output
/// dgain. The gradient of the bias is BiasGrad.
struct LayerNormGradGain {
  std::int64_t rows = 0;
  std::int64_t width = 0;

  bool operator==(const LayerNormGradGain&) const = default;
};

/// y[rows, width] = x + bias[width]. Inputs x, bias; output y.
struct AddBias {
  std::int64_t rows = 0;
  std::int64_t width = 0;

  bool operator==(const AddBias&) const = default;
};

/// Rotates each head of x[rows, heads · head_dim] by its row's position: with h = head_dim/2 and
/// (c, s) = (table[p, j], table[p, h + j]), p = positions[row], j < h:
/// y[j] = x[j]·c - x[j+h]·s and y[j+h] = x[j+h]·c + x[j]·s (Hugging Face's rotate_half).
/// `inverse` rotates back (s → -s): that is the gradient. table[table_rows, head_dim] is f32.
/// Inputs x, positions[rows], table; output y.
struct Rope {
  std::int64_t rows = 0;
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t table_rows = 0;
  bool inverse = false;

  bool operator==(const Rope&) const = default;
};

/// Causal self-attention with grouped queries, scores scaled by 1/sqrt(head_dim).
/// q and y are [batch·seq, heads·head_dim]; k and v are [batch·seq, kv_heads·head_dim]; query head
/// h reads kv head h / (heads / kv_heads). Position i of a sequence sees positions
/// max(start, i - window + 1) .. i, where start is starts[row] (its document's first position in
/// the sequence) if `documents`, else 0; window 0 means no limit.
/// lse[batch, heads, seq] (f32) is the log of the sum of exponentials of the scaled scores.
/// Inputs q, k, v (, starts[batch·seq]); outputs y, lse.
struct Attention {
  std::int64_t batch = 0;
  std::int64_t seq = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t window = 0;
  bool documents = false;

  bool operator==(const Attention&) const = default;
};

/// The gradients of Attention. Inputs dy, q, k, v, y, lse (, starts); outputs dq, dk, dv.
struct AttentionGrad {
  Attention forward = {};

  bool operator==(const AttentionGrad&) const = default;
};

/// y[rows, width] = silu(gate) · up. Inputs gate, up; output y.
struct SiluMul {
  std::int64_t rows = 0;
  std::int64_t width = 0;

  bool operator==(const SiluMul&) const = default;
};

/// Inputs dy, gate, up; outputs dgate, dup.
struct SiluMulGrad {
  std::int64_t rows = 0;
  std::int64_t width = 0;

  bool operator==(const SiluMulGrad&) const = default;
};

/// y[rows, width] = x/2 · (1 + tanh(√(2/π) · (x + 0.044715·x³))), GELU's approximation. Input x;
/// output y. Source: Hendrycks and Gimpel, "Gaussian error linear units", 2016.
struct Gelu {
  std::int64_t rows = 0;
  std::int64_t width = 0;

  bool operator==(const Gelu&) const = default;
};

/// Inputs dy, x; output dx.
struct GeluGrad {
  std::int64_t rows = 0;
  std::int64_t width = 0;

  bool operator==(const GeluGrad&) const = default;
};

/// y[count] = a + b. Inputs a, b; output y.
struct Add {
  std::int64_t count = 0;

  bool operator==(const Add&) const = default;
};

/// total[count] = (total + x[0] + x[1] + ...) / divisor, with `terms` rows x[t, stride], of which
/// the first `count` are added. Inputs total, x; output total. The reduction step of every
/// collective, of every dtype. `reduction` may also be min, max or product; kAvg adds as kSum does.
///
/// The terms are taken in order. f16 and bf16 are added in f32 and integers in i64, both rounded
/// (or cut, modulo 2^bits) once at the end. A float is divided by multiplying with 1/divisor, an
/// integer is cut towards zero.
struct Accumulate {
  std::int64_t count = 0;
  std::int64_t terms = 1;
  std::int64_t stride = 0;  ///< where there are several terms
  Reduction reduction = Reduction::kSum;
  std::int64_t divisor = 1;

  bool operator==(const Accumulate&) const = default;
};

/// x[count] = value. No input; output x.
struct Fill {
  std::int64_t count = 0;
  double value = 0;

  bool operator==(const Fill&) const = default;
};

/// Per row of logits[rows, vocab]: lse = log Σ exp, loss = lse - logit of the label; both f32, and
/// loss 0 where the label is -100. Inputs logits, labels[rows]; outputs losses[rows], lse[rows].
/// `z` weighs what CrossEntropyGrad adds; the losses are without it.
struct CrossEntropy {
  std::int64_t rows = 0;
  std::int64_t vocab = 0;
  double z = 0;

  bool operator==(const CrossEntropy&) const = default;
};

/// lse[rows] (f32) = log Σ exp over each row of x[rows, width]. Input x; output lse.
struct LogSumExp {
  std::int64_t rows = 0;
  std::int64_t width = 0;

  bool operator==(const LogSumExp&) const = default;
};

/// CrossEntropy where logits are columns first .. first + vocab - 1 of `of`. lses[parts, rows] are
/// the LogSumExp of each of the parts that make up the columns; lse joins them. loss is 0 where the
/// label is another part's, so that the parts' losses add up to the loss.
/// Inputs logits, labels[rows], lses; outputs losses[rows], lse[rows], both f32.
struct CrossEntropyPart {
  std::int64_t rows = 0;
  std::int64_t vocab = 0;
  std::int64_t first = 0;
  std::int64_t of = 0;
  std::int64_t parts = 0;
  double z = 0;

  bool operator==(const CrossEntropyPart&) const = default;
};

/// The gradient of the SUM of the losses and of z · lse² of each counted row:
/// dlogits = exp(logit - lse) · (1 + 2·z·lse) - [column is the label], and 0 in rows labelled -100.
/// Inputs logits, labels, lse; output dlogits. With `of` > 0, the logits are columns
/// first .. first + vocab - 1 of `of`. Source of z: Chowdhery et al., "PaLM", JMLR 2023.
struct CrossEntropyGrad {
  std::int64_t rows = 0;
  std::int64_t vocab = 0;
  std::int64_t first = 0;
  std::int64_t of = 0;
  double z = 0;

  std::int64_t whole() const { return of > 0 ? of : vocab; }
  bool operator==(const CrossEntropyGrad&) const = default;
};

/// sum[1] (f32) = Σ x², accumulated so that the relative error stays below 1e-6. Input x.
struct SumSquares {
  std::int64_t count = 0;

  bool operator==(const SumSquares&) const = default;
};

/// y[count] = x[count] with x in f32: rounded to the op's dtype, to the nearest, ties to even.
/// Input x; output y.
struct Convert {
  std::int64_t count = 0;

  bool operator==(const Convert&) const = default;
};

/// What an AdamW op reads from its scalars[8] (f32), in this order; they change every step.
enum class AdamWScalar : std::uint8_t {
  kLearningRate,
  kBeta1,
  kBeta2,
  kEpsilon,
  kWeightDecay,
  kGradientScale,    ///< clip factor / tokens counted
  kBiasCorrection1,  ///< 1 - beta1^t
  kBiasCorrection2,  ///< 1 - beta2^t
};
inline constexpr int kAdamWScalars = 8;

/// With g = gradient · gradient_scale: m = β1·m + (1-β1)·g; v = β2·v + (1-β2)·g²;
/// p -= lr · decay · p (only if `decay`); p -= lr · (m/bc1) / (sqrt(v/bc2) + eps). All f32.
/// Inputs p, m, v, gradient, scalars[8]; outputs p, m, v.
/// Source: Loshchilov and Hutter, "Decoupled weight decay regularization", ICLR 2019.
struct AdamW {
  std::int64_t count = 0;
  bool decay = false;

  bool operator==(const AdamW&) const = default;
};

/// What a group of ranks does together.
enum class GroupKind : std::uint8_t { kAllReduce, kAllGather, kReduceScatter, kAllToAll };

/// Begins a group op on x[count]; y and the workspace are out of bounds until the matching
/// GroupWait. `group` is a position in the executing rank's list of groups, which has `ranks`
/// members. Member r's part of what is gathered or scattered is part_of(count, ranks, r).
/// Input x; output y; a kAllToAll exchanges rows and has more of both: RowExchange. A group op is
/// two instructions, so that what runs between them is known to overlap it.
struct GroupStart {
  GroupKind kind = GroupKind::kAllReduce;
  int group = 0;
  std::int64_t in_count = 0;
  std::int64_t out_count = 0;
  int ranks = 1;
  std::int64_t scratch = 0;   ///< elements, as the plan's choice of an algorithm needs
  RowExchange exchange = {};  ///< of kAllToAll

  bool operator==(const GroupStart&) const = default;
};

/// Ends the group op that wrote y. Input y; output y.
struct GroupWait {
  std::int64_t count = 0;

  bool operator==(const GroupWait&) const = default;
};

using OpBody =
    std::variant<Linear, LinearGradInput, LinearGradWeight, BiasGrad, Embedding, EmbeddingGrad,
                 RmsNorm, RmsNormGradInput, RmsNormGradGain, LayerNorm, LayerNormGradInput,
                 LayerNormGradGain, AddBias, Rope, Attention, AttentionGrad, SiluMul, SiluMulGrad,
                 Gelu, GeluGrad, Router, RouterGrad, SortChoices, TakeRows, SumRows,
                 SumRowsGradWeight, ExpertLinear, ExpertLinearGradInput, ExpertLinearGradWeight,
                 Add, Accumulate, Fill, CrossEntropy, LogSumExp, CrossEntropyPart, CrossEntropyGrad,
                 SumSquares, Convert, AdamW, GroupStart, GroupWait>;

/// One operation: what a backend runs, what the predictor prices and what the trace names.
struct Op {
  std::string name = {};  ///< unique within a program, e.g. "layer3.mlp.down"
  DType dtype = DType::kF32;
  OpBody body = {};
};

/// Whether a device does the same for both: ops that differ in name alone.
inline bool same_work(const Op& a, const Op& b) { return a.dtype == b.dtype && a.body == b.body; }

/// One output of an op.
struct OutputFacts {
  TensorSpec spec = {};
  int updates = -1;    ///< the input that IS this output: the op changes it in place; -1 if none
  int may_reuse = -1;  ///< an input whose memory the output may take over exactly; -1 if none
};

/// Everything that follows from an op's sizes.
struct OpFacts {
  std::string_view kind = {};  ///< "linear", "rms_norm", ...: the key of costs files and traces
  std::vector<TensorSpec> inputs = {};
  std::vector<OutputFacts> outputs = {};
  double flops = 0;                  ///< a multiply-add counts as two
  std::int64_t workspace_bytes = 0;  ///< scratch the op is given: the most a backend may use

  /// Bytes moved if every operand crosses the memory bus exactly once.
  double bytes() const;
};

/// The facts of one op. Pure: same op, same facts, on every machine.
OpFacts facts_of(const Op& op);

/// The sizes in the order of the struct, as costs files and traces spell them: "rows=4 in=8 out=2".
std::string sizes_text(const Op& op);

}  // namespace hethub

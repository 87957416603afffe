#pragma once

#include <cstdint>

namespace hethub {

// The ops of mixtures of experts, as those of op.h. Each row of an activation chooses `top` of
// `experts`. A rank computes for the `held` experts from number `first` on: choices of these are
// sorted by expert into `slots`, as many as there can be. Which slots are used is known on the
// device alone: order[slots + rows · top] (i32) says of each slot which choice it is, in ascending
// order of experts and, for one expert, of choices, then of each choice which slot it has; -1 is
// none. The choice `k` of a row is number row · top + k. starts[held + 1] (i32) says where each
// expert's slots begin, the last where they end.

/// The `top` experts of a row are those of its largest logits, in this order, the earlier one of
/// equals first; weights are the softmax of these logits. logits[rows, experts], weights[rows, top]
/// (f32), choices[rows, top] (i32). Input logits; outputs weights, choices. `sequence` rows make a
/// sequence, whose balance RouterGrad weighs with `balance`.
/// Source: Jiang et al., "Mixtral of experts", 2024.
struct Router {
  std::int64_t rows = 0;
  std::int64_t experts = 0;
  std::int64_t top = 0;
  std::int64_t sequence = 0;
  double balance = 0;

  bool operator==(const Router&) const = default;
};

/// The gradient of Σ dweights · weights + Σ over sequences of balance · sequence · experts ·
/// Σ over experts of share · probability, where `share` is the expert's choices over `sequence`, a
/// constant, and `probability` the mean over the rows of the softmax over all experts.
/// Inputs dweights (f32), logits, weights, choices; output dlogits.
/// Source of the second sum: Fedus et al., "Switch transformers", JMLR 2022, for each sequence.
struct RouterGrad {
  Router forward = {};

  bool operator==(const RouterGrad&) const = default;
};

/// Which choices a rank computes, sorted by expert. Input choices[rows, top]; outputs order,
/// starts.
struct SortChoices {
  std::int64_t rows = 0;
  std::int64_t top = 0;
  std::int64_t first = 0;
  std::int64_t held = 0;

  std::int64_t slots() const { return rows * (top < held ? top : held); }
  bool operator==(const SortChoices&) const = default;
};

/// y[slot, :] = x[row of the slot's choice, :], times the choice's weight if `weighted`; zeros
/// where the slot has no choice. Inputs x[rows, width], order (, weights[rows, top] f32); output y.
struct TakeRows {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  std::int64_t top = 0;
  std::int64_t slots = 0;
  bool weighted = false;

  bool operator==(const TakeRows&) const = default;
};

/// y[row, :] = Σ over its choices of x[slot of the choice, :], times the choice's weight if
/// `weighted`, in f32; choices without a slot add nothing.
/// Inputs x[slots, width], order (, weights[rows, top] f32); output y[rows, width].
struct SumRows {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  std::int64_t top = 0;
  std::int64_t slots = 0;
  bool weighted = false;

  bool operator==(const SumRows&) const = default;
};

/// dweights[row, k] = dy[row, :] · x[slot of the choice, :], in f32; 0 for choices without a slot.
/// Inputs dy[rows, width], x[slots, width], order; output dweights[rows, top].
struct SumRowsGradWeight {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  std::int64_t top = 0;
  std::int64_t slots = 0;

  bool operator==(const SumRowsGradWeight&) const = default;
};

/// What a group op of kind kAllToAll exchanges: rows of activations between the `ranks` members of
/// a group that share out `experts`, of which member r has part_of(experts, ranks, r). x has a
/// member's rows by expert, as TakeRows puts them into slots; each goes to the member that has the
/// expert. There they lie by expert and, for one expert, by member, so in the order of one rank
/// that has the sequences of all. `returns` sends them back the same way.
///
/// How many rows go where is known on the devices alone: starts[ranks, experts + 1] (i32) has of
/// each member where its rows of each expert begin and, last, where they end. Places have room for
/// as many as there can be: `rows` times the lesser of `top` and the experts there. What lies past
/// the rows is left as it is. Inputs x, starts; outputs y and, unless it returns, begins[held + 1]
/// (i32), where each of the member's own experts begins in y, the last where they end.
struct RowExchange {
  std::int64_t width = 0;    ///< elements of a row
  std::int64_t experts = 0;  ///< of all members
  std::int64_t held = 0;     ///< of this one
  std::int64_t rows = 0;     ///< of all members, before they choose
  std::int64_t most = 0;     ///< of one member: as many may choose one expert
  std::int64_t top = 0;      ///< how many experts each row chooses
  std::int64_t load = 0;     ///< rows from a member to another if all experts are chosen alike
  bool returns = false;

  /// The most rows that a member with so many experts may get.
  std::int64_t slots(std::int64_t of_experts) const {
    return rows * (top < of_experts ? top : of_experts);
  }
  bool operator==(const RowExchange&) const = default;
};

/// What products of experts are given as workspace in 16 bits: that many f32 elements of a matrix,
/// and so many rows of each activation.
inline constexpr std::int64_t kExpertBlock = std::int64_t{1} << 20;
inline constexpr std::int64_t kExpertRows = 128;

/// y[slot, out] = x[slot, in] · w[expert]ᵀ with the slot's expert and w[experts · out, in], one
/// expert's matrix after another's; zeros in slots past the last expert's. Of the `slots`, `load`
/// are used if all experts are chosen alike: what the op is priced by.
/// Inputs x, w, starts[experts + 1]; output y.
struct ExpertLinear {
  std::int64_t slots = 0;
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::int64_t experts = 0;
  std::int64_t load = 0;

  bool operator==(const ExpertLinear&) const = default;
};

/// dx[slot, in] = dy[slot, out] · w[expert], else as ExpertLinear. Inputs dy, w, starts; output dx.
struct ExpertLinearGradInput {
  std::int64_t slots = 0;
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::int64_t experts = 0;
  std::int64_t load = 0;

  bool operator==(const ExpertLinearGradInput&) const = default;
};

/// dw[expert] += Σ over its slots of dyᵀ · x. Inputs dy[slots, out], x[slots, in], starts,
/// dw[experts · out, in]; output dw.
struct ExpertLinearGradWeight {
  std::int64_t slots = 0;
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::int64_t experts = 0;
  std::int64_t load = 0;

  bool operator==(const ExpertLinearGradWeight&) const = default;
};

}  // namespace hethub

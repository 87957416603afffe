#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "hethub/cluster/sheets.h"
#include "hethub/collective/choice.h"
#include "hethub/predict/model_ops.h"
#include "hethub/predict/pricing.h"
#include "hethub/predict/published_run.h"

namespace hethub {

/// Seconds of a collective over alike ranks whose messages follow each other on alike links. Equal
/// to the simulation of ring_reduce_scatter, ring_all_gather and ring_all_reduce where chunks are
/// even and additions free.
double collective_seconds(const Traffic& traffic, double bytes, const LinkRate& rate);

/// The data sheet's peak of a run's products with weights: 8-bit ones where its dtype is "fp8". 0
/// if none is stated.
double linear_peak(const Kind& kind, const PublishedRun& run);

/// What the algorithms that training chooses send, by op and number of ranks. One thread at a time.
class TrafficCache {
 public:
  const Traffic& of(CollectiveOp op, int ranks);

 private:
  std::map<std::pair<CollectiveOp, int>, Traffic> kept_ = {};
};

/// What one stage of a published run takes on the devices of one kind, from their data sheet. Keeps
/// references to all it is given.
class RunStage {
 public:
  /// `kind` has a data sheet.
  RunStage(const PublishedRun& run, const Software& software, const Sheets& sheets,
           const std::string& kind, TrafficCache& traffic);

  /// Seconds of some ops of one rank.
  double seconds(const ModelOps::Counts& ops) const;

  /// Seconds of one micro-batch.
  PhaseSeconds phase_seconds(const ModelOps& ops, Phase phase) const;

  /// Seconds of the optimizer on a rank that holds `held` parameters and updates an even share of
  /// them among `owners`.
  double optimizer_seconds(std::int64_t held, int owners) const;

  /// Bytes that one rank hands to the next stage: a tensor-parallel group sends its value once.
  double sent_bytes(const ModelOps& ops) const { return ops.sent_bytes / run_.tensor_parallel; }

  /// The links of a group of every `stride`-th rank, which shares its node's with its like.
  LinkRate group_rate(int ranks, int stride) const;

  /// Whether messages to other stages go beside compute. Frameworks that do not overlap compute
  /// nothing until a message has arrived.
  bool sends_beside() const { return software_.overlaps; }

  /// The links to the next stage.
  LinkRate send_rate() const;

  /// Seconds of a collective of such a group.
  double collective_seconds(CollectiveOp op, int ranks, double bytes, const LinkRate& rate) const {
    return hethub::collective_seconds(traffic_.of(op, ranks), bytes, rate);
  }

  const Kind& kind() const { return sheet_.kind; }

 private:
  double analytic(const Op& op) const;
  AttentionKernel attention_of(const Op& op) const;
  double op_seconds(const Op& op) const;
  double group_seconds(const GroupStart& group, const Op& op) const;

  const PublishedRun& run_;
  const Software& software_;
  const DataSheet& sheet_;
  TrafficCache& traffic_;
  double peak_ = 0;
  double linear_peak_ = 0;  // of products with weights, which alone may be 8-bit ones
  double link_ = 0;         // bytes/s that a collective reaches in a node, a device
  double network_ = 0;      // and between nodes, all devices of a node together
};

}  // namespace hethub

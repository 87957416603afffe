#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "hethub/cluster/cluster.h"
#include "hethub/cost/costs.h"
#include "hethub/op/op.h"

namespace hethub {

/// Where a cost comes from, best first.
enum class CostSource : std::uint8_t {
  kMeasured,  ///< this very op was timed on this kind
  kScaled,    ///< other sizes of it were
  kRoofline,  ///< from the data sheet: a bound that no device reaches
};

/// The source as reports spell it, e.g. "measured".
std::string_view name_of(CostSource source);

/// What an op takes, and how far that can be trusted.
struct OpCost {
  double seconds = 0;
  CostSource source = CostSource::kRoofline;
  double distance = 1;  ///< scaled: work of this op over that of the nearest timed one, or inverse
};

/// The rates of the three parts of a message; bytes_per_s 0 where there is no such part.
struct TransferRates {
  LinkRate download = {};
  LinkRate wire = {};
  LinkRate upload = {};
};

/// The three parts of a message between two ranks.
struct TransferCost {
  double download_seconds = 0;  ///< device to host at the sender; 0 where the host reads it
  double wire_seconds = 0;
  double upload_seconds = 0;  ///< host to device at the receiver

  double total() const { return download_seconds + wire_seconds + upload_seconds; }
};

/// The parts of a message of `bytes` bytes at these rates.
TransferCost cost_of(const TransferRates& rates, double bytes);

/// Seconds of an op on a kind and of a transfer between ranks: measured where a costs file has it,
/// else scaled from what was measured, else from the cluster's data sheets.
/// Const calls may come from several threads at once.
class CostModel {
 public:
  /// Keeps copies of both. Throws kInvalidConfig if the cluster has no device.
  CostModel(Cluster cluster, Costs costs);

  const Cluster& cluster() const { return cluster_; }
  const Costs& costs() const { return costs_; }
  const std::vector<RankPlace>& ranks() const { return ranks_; }

  /// Seconds of `op` on `kind`, launch included.
  ///
  /// An op that was not timed is scaled by work_of between the nearest timed ops of its kind and
  /// dtype; those that differ in the first size only (rows, count) are preferred. Throws
  /// kInvalidConfig if the kind has neither rows of that op nor a data sheet's peak and memory
  /// rate.
  OpCost op_cost(std::string_view kind, const Op& op) const;

  /// What running one program on `kind` costs beside its ops.
  double action_seconds(std::string_view kind) const;

  /// The parts of a message of `bytes` bytes. Throws kInvalidConfig if neither file has the link.
  TransferCost transfer_cost(int from_rank, int to_rank, double bytes) const;

  /// The rates that transfer_cost applies, for callers that price many messages of one pair.
  TransferRates transfer_rates(int from_rank, int to_rank) const;

  /// total() of transfer_cost.
  double transfer_seconds(int from_rank, int to_rank, double bytes) const;

  /// How two ranks exchange messages.
  RouteKind route_of(int from_rank, int to_rank) const;

  /// Best measured matrix product of the kind in FLOP/s, or 0 if it was not measured.
  double gemm_flops_per_s(std::string_view kind, DType dtype) const;

  /// The data sheet's peak of the kind in FLOP/s, or 0 if it is not stated.
  double peak_flops_per_s(std::string_view kind, DType dtype) const;

  /// What a process on this kind takes beside its arena, as measured; 0 if not.
  std::int64_t fixed_memory_bytes(std::string_view kind) const;

 private:
  struct Point {
    double work = 0;
    double seconds = 0;
  };
  struct Rate {
    RouteKind route = RouteKind::kHostStaged;
    LinkRate rate = {};
  };
  using Curves = std::map<std::string, std::vector<Point>, std::less<>>;  // by family, work rising
  struct KindTable {
    std::unordered_map<std::string, double> exact = {};  // by op, dtype and sizes
    Curves curves = {};
  };

  void add_rows(const std::string& kind, const std::vector<OpRow>& rows);
  const KindCosts* costs_of(std::string_view kind) const;
  OpCost roofline(std::string_view kind, const Op& op) const;
  Rate link_of(int from_rank, int to_rank) const;
  LinkRate copy_of(std::string_view kind, bool upload) const;

  Cluster cluster_;
  Costs costs_;
  std::vector<RankPlace> ranks_;
  std::map<std::string, KindTable, std::less<>> tables_;
};

}  // namespace hethub

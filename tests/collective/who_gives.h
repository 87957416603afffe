#pragma once

#include "hethub/collective/choice.h"

namespace hethub {

/// Whether a rank gives something to a chunk of a call; chunk a·ranks + b of an all-to-all is from
/// a to b.
inline bool gives_chunk(CollectiveOp op, int ranks, int root, int rank, int chunk) {
  switch (op) {
    case CollectiveOp::kAllReduce:
    case CollectiveOp::kReduce:
    case CollectiveOp::kReduceScatter:
      return true;
    case CollectiveOp::kAllGather:
    case CollectiveOp::kGather:
      return chunk == rank;
    case CollectiveOp::kBroadcast:
    case CollectiveOp::kScatter:
      return rank == root;
    case CollectiveOp::kAllToAll:
      return chunk / ranks == rank;
    case CollectiveOp::kBarrier:
      return false;
  }
  return false;
}

/// Whether the result has the chunk on this rank.
inline bool gets_chunk(CollectiveOp op, int ranks, int root, int rank, int chunk) {
  switch (op) {
    case CollectiveOp::kAllReduce:
    case CollectiveOp::kAllGather:
    case CollectiveOp::kBroadcast:
      return true;
    case CollectiveOp::kReduce:
    case CollectiveOp::kGather:
      return rank == root;
    case CollectiveOp::kReduceScatter:
    case CollectiveOp::kScatter:
      return chunk == rank;
    case CollectiveOp::kAllToAll:
      return chunk % ranks == rank;
    case CollectiveOp::kBarrier:
      return false;
  }
  return false;
}

}  // namespace hethub

#pragma once

#include <vector>

#include "hethub/collective/algorithm.h"

namespace hethub {

// The algorithms. Unless stated otherwise the table has a chunk for each rank, chunk c belongs to
// rank c, every rank's data hold all chunks, and the work is done in place. Each throws
// kInvalidArgument if there is no rank or `root` is none. docs/collectives.md has their costs.

// ---- ring ---------------------------------------------------------------------------------------

/// Leaves on rank c the sum over all ranks of chunk c; the other chunks hold partial sums.
/// The sum of chunk c is formed as x[c] + (x[c-1] + (... + (x[c+2] + x[c+1]))), ranks modulo p.
/// Each rank sends p-1 messages.
CollectiveAlgorithm ring_reduce_scatter(int world_size);

/// Copies chunk c from rank c to all ranks. Each rank sends p-1 messages.
CollectiveAlgorithm ring_all_gather(int world_size);

/// Sum over all ranks, left on all ranks: reduce-scatter, then all-gather, around a ring.
///
/// Each rank sends 2(p-1) messages of 1/p of the buffer, the least any all-reduce can send.
/// Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
/// workstations", JPDC 2009.
CollectiveAlgorithm ring_all_reduce(int world_size);

// ---- recursive halving and doubling
// -------------------------------------------------------------- In ⌊log2 p⌋ rounds with a partner
// at half the distance of the round before (halving) or twice it (doubling). Where p is no power of
// two, the first pairs of ranks act as one each. Source: Thakur, Rabenseifner and Gropp,
// "Optimization of collective communication operations in MPICH", IJHPCA 2005.

CollectiveAlgorithm halving_reduce_scatter(int world_size);
CollectiveAlgorithm doubling_all_gather(int world_size);
CollectiveAlgorithm halving_doubling_all_reduce(int world_size);

// ---- binomial tree: ⌈log2 p⌉ rounds
// ---------------------------------------------------------------

/// Copies the whole from `root` to all ranks; in each round every rank that has it hands it to one
/// that has not.
CollectiveAlgorithm tree_broadcast(int world_size, int root);

/// Leaves the sum on `root`; the others' data hold partial sums afterwards.
CollectiveAlgorithm tree_reduce(int world_size, int root);

/// To rank 0 and back.
CollectiveAlgorithm tree_all_reduce(int world_size);

/// Chunk c of rank c comes to `root`. The data of the root hold all chunks, those of another rank
/// its own alone.
CollectiveAlgorithm tree_gather(int world_size, int root);

/// Chunk c goes from `root` to rank c; the data are laid out as in tree_gather.
CollectiveAlgorithm tree_scatter(int world_size, int root);

/// A scatter over the tree, then a ring all-gather: for large data.
/// Source: van de Geijn, in Barnett et al., "Interprocessor collective communication library",
/// SHPCC 1994.
CollectiveAlgorithm scatter_all_gather_broadcast(int world_size, int root);

// ---- pairwise: in round k each rank hands to the one k after it and takes from the one k before
// --- Nothing passes through a third rank. Of a sum, each chunk's owner adds all contributions: its
// own first, then the others' in the order of ranks, rounded once.

CollectiveAlgorithm pairwise_reduce_scatter(int world_size);
CollectiveAlgorithm pairwise_all_gather(int world_size);
CollectiveAlgorithm pairwise_all_reduce(int world_size);

/// Pairwise reduce-scatter, then each owner hands its chunk to `root`.
CollectiveAlgorithm pairwise_reduce(int world_size, int root);

/// Chunk i·p + j goes from rank i, whose input holds its p chunks in order of j, to rank j, whose
/// data hold theirs in order of i. The table has p² counts, of which a rank uses its row and its
/// column: so it is an all-to-all-v as well.
CollectiveAlgorithm pairwise_all_to_all(int world_size);

// ---- direct: one round, for small data
// -----------------------------------------------------------

/// Every rank gets all data and adds them in the order of ranks, rounded once.
CollectiveAlgorithm direct_all_reduce(int world_size);

/// `root` gets all data and adds them: its own, then the others' in the order of ranks.
CollectiveAlgorithm direct_reduce(int world_size, int root);

CollectiveAlgorithm direct_broadcast(int world_size, int root);

/// Laid out as tree_gather and tree_scatter.
CollectiveAlgorithm direct_gather(int world_size, int root);
CollectiveAlgorithm direct_scatter(int world_size, int root);

/// Rank 0 gets what each rank r gives, chunk r, and hands the whole to all. For a few numbers on
/// the host: each value travels twice, in few messages.
CollectiveAlgorithm root_all_gather(int world_size);

/// No rank finishes before all have begun: in round k a rank tells the one 2^k after it.
/// Its one chunk is empty. Source: Hensgen, Finkel and Manber, "Two algorithms for barrier
/// synchronization", 1988.
CollectiveAlgorithm dissemination_barrier(int world_size);

// ---- hierarchical -------------------------------------------------------------------------------

/// Sum over all ranks, left on all ranks: reduce-scatter inside each part, exchange between the
/// parts over every link in parallel, all-gather inside. `parts` are the positions of the ranks of
/// one kind and node, every rank in one part; they may differ in size. Inside a part of s ranks its
/// member j owns the chunks j·p/s to (j+1)·p/s. Of each chunk one part's owner adds the parts' sums
/// in the order: its own, then the others'. Throws kInvalidArgument if a rank is in no part or two.
CollectiveAlgorithm hierarchical_all_reduce(const std::vector<std::vector<int>>& parts);

/// The root hands the whole to the first rank of every other part, and these to the rest of theirs,
/// both over binomial trees: it crosses to each part once.
CollectiveAlgorithm hierarchical_broadcast(const std::vector<std::vector<int>>& parts, int root);

/// Leaves on rank c the sum over all ranks of chunk c; the other chunks hold partial sums.
///
/// Each part sums inside over a ring: for a chunk of another part it has a member that forms its
/// sum, an even share of them each. These go straight to the chunks' owners, which add them to
/// their own part's sums in the order of the parts. Each rank sends (p-1)/p of the data, as around
/// one ring, but only 1/s of what the parts give each other passes each of s members.
CollectiveAlgorithm hierarchical_reduce_scatter(const std::vector<std::vector<int>>& parts);

/// The way back: copies chunk c from rank c to one member of every other part, then inside the
/// parts over rings.
CollectiveAlgorithm hierarchical_all_gather(const std::vector<std::vector<int>>& parts);

/// The places of scratch that hierarchical_reduce_scatter has.
int hierarchical_ring_places(const std::vector<std::vector<int>>& parts);

}  // namespace hethub

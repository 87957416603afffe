#include <algorithm>

#include "hethub/collective/generators.h"
#include "hethub/collective/steps.h"

namespace hethub {
namespace {

using Parts = std::vector<std::vector<int>>;

// Two, so that chunks can arrive while those before them are added.
constexpr int kRingBuffers = 2;

// The chunks that each member of a part holds for it while they are summed or handed out: its own,
// and an even share of those whose owners are in other parts.
class PartShares {
 public:
  PartShares(const std::vector<int>& part, int ranks) : part_(part), runs_(part.size()) {
    std::vector<int> member_of(static_cast<std::size_t>(ranks), -1);
    for (std::size_t member = 0; member < part.size(); ++member) {
      member_of[static_cast<std::size_t>(part[member])] = static_cast<int>(member);
    }
    const int size = static_cast<int>(part.size());
    const int foreign = ranks - size;
    int next = 0;
    for (const int own : member_of) {
      holder_of_.push_back(own >= 0 ? own : next++ * size / foreign);
      add_chunk(holder_of_.back(), static_cast<int>(holder_of_.size()) - 1);
    }
  }

  int size() const { return static_cast<int>(part_.size()); }
  int rank_of(int member) const { return part_[static_cast<std::size_t>(wrap(member, size()))]; }
  int holder_of(int chunk) const {
    return part_[static_cast<std::size_t>(holder_of_[static_cast<std::size_t>(chunk)])];
  }
  const std::vector<Slot>& runs(int member) const {
    return runs_[static_cast<std::size_t>(wrap(member, size()))];
  }

  int most_chunks() const {
    int most = 0;
    for (const std::vector<Slot>& runs : runs_) {
      int chunks = 0;
      for (const Slot& run : runs) {
        chunks += run.chunks;
      }
      most = std::max(most, chunks);
    }
    return most;
  }

 private:
  void add_chunk(int member, int chunk) {
    std::vector<Slot>& runs = runs_[static_cast<std::size_t>(member)];
    if (!runs.empty() && runs.back().chunk + runs.back().chunks == chunk) {
      ++runs.back().chunks;
    } else {
      runs.push_back(data_slot(chunk));
    }
  }

  const std::vector<int>& part_;
  std::vector<int> holder_of_ = {};           // by chunk: a member
  std::vector<std::vector<Slot>> runs_ = {};  // by member
};

class HierarchicalRing {
 public:
  HierarchicalRing(CollectiveAlgorithm& to, const Parts& parts) : to_(to) {
    for (const std::vector<int>& part : parts) {
      if (!part.empty()) shares_.emplace_back(part, to.world_size());
    }
    to_.scratch_places = hierarchical_ring_places(parts);
  }

  void add_reduce_scatter() {
    for (const PartShares& part : shares_) {
      for (int member = 0; member < part.size(); ++member) {
        add_sums_inside(part, member);
      }
    }
    add_sums_across();
  }

  void add_all_gather() {
    add_copies_across();
    for (const PartShares& part : shares_) {
      for (int member = 0; member < part.size(); ++member) {
        add_copies_inside(part, member);
      }
    }
  }

 private:
  std::vector<Step>& steps(int rank) { return to_.steps[static_cast<std::size_t>(rank)]; }

  // A ring: in each round a member passes on what it completed in the one before.
  void add_sums_inside(const PartShares& part, int member) {
    std::vector<Step>& mine = steps(part.rank_of(member));
    const int buffer = part.most_chunks();
    for (int round = 0; round + 1 < part.size(); ++round) {
      int place = round % kRingBuffers * buffer;
      exchange(part, member, member - 1 - round, [&](const Slot& run) {
        const Slot arrival = scratch_slot(run.chunk, place, run.chunks);
        const bool last = round + 2 == part.size() && shares_.size() == 1;
        mine.push_back(recv_step(part.rank_of(member - 1), arrival));
        mine.push_back(reduce_step(arrival, run, last));
        place += run.chunks;
      });
    }
  }

  // Sends the runs of one member to the next, and takes from the one before those of the member
  // before; in turn, so that no link holds up two.
  template <typename Take>
  void exchange(const PartShares& part, int member, int given, const Take& take) {
    const std::vector<Slot>& out = part.runs(given);
    const std::vector<Slot>& in = part.runs(given - 1);
    for (std::size_t run = 0; run < std::max(out.size(), in.size()); ++run) {
      if (run < out.size()) {
        steps(part.rank_of(member)).push_back(send_step(part.rank_of(member + 1), out[run]));
      }
      if (run < in.size()) take(in[run]);
    }
  }

  // Each part's sum of a chunk goes straight to its owner, which adds them in the parts' order. All
  // walk through the chunks in one order, so that no two wait for each other.
  void add_sums_across() {
    if (shares_.size() < 2) return;
    for (int chunk = 0; chunk < to_.chunks; ++chunk) {
      int place = 0;
      for (const PartShares& part : shares_) {
        const int holder = part.holder_of(chunk);
        if (holder == chunk) continue;
        steps(holder).push_back(send_step(chunk, data_slot(chunk)));
        steps(chunk).push_back(recv_step(holder, scratch_slot(chunk, place++)));
      }
      steps(chunk).push_back(reduce_step(scratch_slot(chunk, 0), data_slot(chunk), true, place));
    }
  }

  void add_copies_across() {
    for (int chunk = 0; chunk < to_.chunks; ++chunk) {
      for (const PartShares& part : shares_) {
        const int holder = part.holder_of(chunk);
        if (holder == chunk) continue;
        steps(chunk).push_back(send_step(holder, data_slot(chunk)));
        steps(holder).push_back(recv_step(chunk, data_slot(chunk)));
      }
    }
  }

  void add_copies_inside(const PartShares& part, int member) {
    for (int round = 0; round + 1 < part.size(); ++round) {
      exchange(part, member, member - round, [&](const Slot& run) {
        steps(part.rank_of(member)).push_back(recv_step(part.rank_of(member - 1), run));
      });
    }
  }

  CollectiveAlgorithm& to_;
  std::vector<PartShares> shares_ = {};
};

}  // namespace

int hierarchical_ring_places(const Parts& parts) {
  int ranks = 0;
  int used = 0;
  for (const std::vector<int>& part : parts) {
    ranks += static_cast<int>(part.size());
    used += part.empty() ? 0 : 1;
  }
  int places = used - 1;  // a chunk of each other part
  for (const std::vector<int>& part : parts) {
    const int size = static_cast<int>(part.size());
    if (size < 2) continue;
    const int share = 1 + (ranks - size + size - 1) / size;
    places = std::max(places, kRingBuffers * share);
  }
  return places;
}

CollectiveAlgorithm hierarchical_reduce_scatter(const Parts& parts) {
  constexpr const char* kName = "hierarchical_reduce_scatter";
  CollectiveAlgorithm all = without_steps(kName, ranks_in(kName, parts));
  HierarchicalRing(all, parts).add_reduce_scatter();
  all.rounds_once = all.world_size() <= 2;
  return all;
}

CollectiveAlgorithm hierarchical_all_gather(const Parts& parts) {
  constexpr const char* kName = "hierarchical_all_gather";
  CollectiveAlgorithm all = without_steps(kName, ranks_in(kName, parts));
  HierarchicalRing(all, parts).add_all_gather();
  all.scratch_places = 0;
  return all;
}

}  // namespace hethub

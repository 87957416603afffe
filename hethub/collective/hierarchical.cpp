#include <algorithm>

#include "hethub/collective/generators.h"
#include "hethub/collective/steps.h"

namespace hethub {
namespace {

using Parts = std::vector<std::vector<int>>;

// Chunks that have one owner in each part, and the part whose owner adds them.
struct Piece {
  int chunk = 0;
  int chunks = 1;
  int leader = 0;
  std::vector<int> owners = {};  // of each part
};

class Hierarchy {
 public:
  Hierarchy(CollectiveAlgorithm& to, const Parts& parts) : to_(to), ranks_(to.world_size()) {
    for (const std::vector<int>& part : parts) {
      if (!part.empty()) parts_.push_back(part);
    }
    for (int chunk = 0; chunk < ranks_; ++chunk) {
      add_chunk(chunk);
    }
  }

  void add_all_reduce() {
    for (const std::vector<int>& part : parts_) {
      add_reduce_scatter(part);
    }
    if (parts_.size() > 1) {
      collect_pieces();
      return_pieces();
    }
    for (const std::vector<int>& part : parts_) {
      add_all_gather(part);
    }
  }

 private:
  std::vector<Step>& steps(int rank) { return to_.steps[static_cast<std::size_t>(rank)]; }

  // What member `member` of a part of `size` owns.
  Slot owned(int member, int size) const {
    const int first = ranks_ * member / size;
    return data_slot(first, ranks_ * (member + 1) / size - first);
  }

  int owner_of(int chunk, const std::vector<int>& part) const {
    const int size = static_cast<int>(part.size());
    int member = 0;
    while (ranks_ * (member + 1) / size <= chunk)
      ++member;
    return part[static_cast<std::size_t>(member)];
  }

  void add_chunk(int chunk) {
    Piece piece{.chunk = chunk, .leader = chunk * static_cast<int>(parts_.size()) / ranks_};
    for (const std::vector<int>& part : parts_) {
      piece.owners.push_back(owner_of(chunk, part));
    }
    if (!pieces_.empty() && pieces_.back().leader == piece.leader &&
        pieces_.back().owners == piece.owners) {
      ++pieces_.back().chunks;
    } else {
      pieces_.push_back(piece);
    }
  }

  // Pairwise: the owner adds its own, then the other members' in their order.
  void add_reduce_scatter(const std::vector<int>& part) {
    const int size = static_cast<int>(part.size());
    for (int member = 0; member < size; ++member) {
      std::vector<Step>& mine = steps(part[static_cast<std::size_t>(member)]);
      const Slot own = owned(member, size);
      for (int round = 1; round < size; ++round) {
        const int before = wrap(member - round, size);
        const int after = wrap(member + round, size);
        const int term = before < member ? before : before - 1;
        mine.push_back(recv_step(part[static_cast<std::size_t>(before)],
                                 scratch_slot(own.chunk, term * own.chunks, own.chunks)));
        mine.push_back(send_step(part[static_cast<std::size_t>(after)], owned(after, size)));
      }
      if (size == 1) continue;
      mine.push_back(
          reduce_step(scratch_slot(own.chunk, 0, own.chunks), own, parts_.size() == 1, size - 1));
      use_places((size - 1) * own.chunks);
    }
  }

  // Every rank walks through the pieces in one order, so that no two wait for each other.
  void collect_pieces() {
    std::vector<int> places(static_cast<std::size_t>(ranks_), 0);
    for (Piece& piece : pieces_) {
      const int leader = piece.owners[static_cast<std::size_t>(piece.leader)];
      int& place = places[static_cast<std::size_t>(leader)];
      first_places_.push_back(place);
      for (const int owner : piece.owners) {
        if (owner == leader) continue;
        steps(leader).push_back(recv_step(owner, scratch_slot(piece.chunk, place, piece.chunks)));
        steps(owner).push_back(send_step(leader, data_slot(piece.chunk, piece.chunks)));
        place += piece.chunks;
      }
      use_places(place);
    }
  }

  void return_pieces() {
    for (std::size_t at = 0; at < pieces_.size(); ++at) {
      const Piece& piece = pieces_[at];
      const Slot whole = data_slot(piece.chunk, piece.chunks);
      const int leader = piece.owners[static_cast<std::size_t>(piece.leader)];
      steps(leader).push_back(
          reduce_step(scratch_slot(piece.chunk, first_places_[at], piece.chunks), whole, true,
                      static_cast<int>(parts_.size()) - 1));
      for (const int owner : piece.owners) {
        if (owner == leader) continue;
        steps(leader).push_back(send_step(owner, whole));
        steps(owner).push_back(recv_step(leader, whole));
      }
    }
  }

  void add_all_gather(const std::vector<int>& part) {
    const int size = static_cast<int>(part.size());
    for (int member = 0; member < size; ++member) {
      std::vector<Step>& mine = steps(part[static_cast<std::size_t>(member)]);
      for (int round = 1; round < size; ++round) {
        const int before = wrap(member - round, size);
        mine.push_back(recv_step(part[static_cast<std::size_t>(before)], owned(before, size)));
        mine.push_back(send_step(part[static_cast<std::size_t>(wrap(member + round, size))],
                                 owned(member, size)));
      }
    }
  }

  void use_places(int places) { to_.scratch_places = std::max(to_.scratch_places, places); }

  CollectiveAlgorithm& to_;
  int ranks_;
  Parts parts_ = {};
  std::vector<Piece> pieces_ = {};
  std::vector<int> first_places_ = {};
};

// Puts `first` in front.
std::vector<int> led_by(int first, std::vector<int> ranks) {
  std::rotate(ranks.begin(), std::find(ranks.begin(), ranks.end(), first), ranks.end());
  return ranks;
}

}  // namespace

CollectiveAlgorithm hierarchical_all_reduce(const std::vector<std::vector<int>>& parts) {
  constexpr const char* kName = "hierarchical_all_reduce";
  CollectiveAlgorithm all = without_steps(kName, ranks_in(kName, parts));
  Hierarchy(all, parts).add_all_reduce();
  return all;
}

CollectiveAlgorithm hierarchical_broadcast(const std::vector<std::vector<int>>& parts, int root) {
  constexpr const char* kName = "hierarchical_broadcast";
  CollectiveAlgorithm all = without_steps(kName, ranks_in(kName, parts));
  check_root(all, root);
  std::vector<int> first_ranks;
  for (const std::vector<int>& part : parts) {
    if (part.empty()) continue;
    const bool at_home = std::find(part.begin(), part.end(), root) != part.end();
    first_ranks.push_back(at_home ? root : part.front());
  }
  add_tree_broadcast(all, led_by(root, first_ranks));
  for (const std::vector<int>& part : parts) {
    if (part.empty()) continue;
    const bool at_home = std::find(part.begin(), part.end(), root) != part.end();
    add_tree_broadcast(all, led_by(at_home ? root : part.front(), part));
  }
  return all;
}

}  // namespace hethub

#pragma once

#include <cmath>
#include <map>
#include <numeric>
#include <queue>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "hethub/collective/algorithm.h"

namespace hethub {

using Values = std::vector<float>;

/// Ranks, their memories and the messages between them, all in this process. What this class does
/// is the definition of what the steps of a CollectiveAlgorithm mean.
class InMemoryRanks {
 public:
  InMemoryRanks(const CollectiveAlgorithm& algorithm, ChunkTable table, std::vector<Values> data)
      : algorithm_(algorithm),
        table_(std::move(table)),
        data_(std::move(data)),
        scratch_(data_.size(), Values(scratch_elements(algorithm, table_), std::nanf(""))),
        next_(data_.size(), 0) {}

  /// Runs every rank as far as it goes; true if all finished and no message was left over.
  bool run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (int rank = 0; rank < algorithm_.world_size(); ++rank) {
        while (next_[rank] < algorithm_.steps[rank].size() && take_step(rank)) {
          moved = true;
        }
      }
    }
    bool finished = true;
    for (int rank = 0; rank < algorithm_.world_size(); ++rank) {
      finished = finished && next_[rank] == algorithm_.steps[rank].size();
    }
    for (const auto& [ends, queue] : messages_) {
      finished = finished && queue.empty();
    }
    return finished;
  }

  const Values& data(int rank) const { return data_[rank]; }

  /// What a slot of a rank holds.
  Values read(int rank, Slot slot) {
    return {start(rank, slot), start(rank, slot) + table_[slot.chunk]};
  }

 private:
  bool take_step(int rank) {
    const Step& step = algorithm_.steps[rank][next_[rank]];
    if (step.kind == StepKind::kSend) {
      messages_[{rank, step.peer}].push(read(rank, step.from));
    } else if (step.kind == StepKind::kRecv) {
      auto& inbox = messages_[{step.peer, rank}];
      if (inbox.empty()) return false;
      write(rank, step.to, inbox.front(), false);
      inbox.pop();
    } else {
      write(rank, step.to, read(rank, step.from), step.kind == StepKind::kReduce);
    }
    ++next_[rank];
    return true;
  }

  float* start(int rank, Slot slot) {
    if (slot.memory == Memory::kScratch) {
      const std::int64_t place = scratch_elements(algorithm_, table_) / algorithm_.scratch_places;
      return scratch_[rank].data() + slot.place * place;
    }
    return data_[rank].data() +
           std::accumulate(table_.begin(), table_.begin() + slot.chunk, std::int64_t{0});
  }

  void write(int rank, Slot slot, const Values& values, bool add) {
    ASSERT_EQ(std::ssize(values), table_[slot.chunk]) << "message and slot have the same size";
    for (std::size_t i = 0; i < values.size(); ++i) {
      float& to = start(rank, slot)[i];
      to = add ? to + values[i] : values[i];
    }
  }

  const CollectiveAlgorithm& algorithm_;
  ChunkTable table_;
  std::vector<Values> data_;
  std::vector<Values> scratch_;
  std::vector<std::size_t> next_;
  std::map<std::pair<int, int>, std::queue<Values>> messages_;
};

}  // namespace hethub

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "hethub/collective/interpreter.h"

namespace hethub {

using Values = std::vector<float>;

/// How messages and devices behave: each message moves, and each piece of device work is done, at a
/// moment that the seed decides.
struct Weather {
  unsigned seed = 1;
  /// Only one message each way may be under way, and one that is sent ends when its receive has
  /// been posted: what ranks with little host memory do.
  bool narrow = false;
};

/// Ranks, their memories and the messages between them, all in this process. A message is read from
/// its sender's memory and written to its receiver's at the last moment that the StepActions allow,
/// and device work is done as late, so that a step which began too early would be seen.
class InMemoryRanks {
 public:
  InMemoryRanks(const CollectiveAlgorithm& algorithm, const ChunkTable& table,
                std::vector<Values> data, Weather weather = {}, std::vector<Values> inputs = {})
      : algorithm_(algorithm),
        weather_(weather),
        random_(weather.seed),
        inputs_(std::move(inputs)) {
    inputs_.resize(data.size());
    for (int rank = 0; rank < algorithm.world_size(); ++rank) {
      ranks_.push_back(std::make_unique<Rank>(*this, rank, table, std::move(data[rank])));
    }
  }

  /// Runs all ranks; true if all finished and no message was left over.
  bool run() {
    int finished = 0;
    for (int idle = 0; idle < 400 && finished < std::ssize(ranks_);) {
      moved_ = false;
      finished = 0;
      for (const auto& rank : ranks_) {
        finished += rank->interpreter.advance(*rank) ? 1 : 0;
      }
      idle = moved_ ? 0 : idle + 1;
    }
    bool left_over = false;
    for (const auto& [ends, queue] : sends_)
      left_over = left_over || !queue.empty();
    for (const auto& [ends, queue] : recvs_)
      left_over = left_over || !queue.empty();
    for (const auto& rank : ranks_)
      rank->work(rank->queue.size());
    return finished == std::ssize(ranks_) && !left_over;
  }

  const Values& data(int rank) const { return ranks_[rank]->data; }
  Values read(int rank, Slot slot) { return ranks_[rank]->read(slot); }

 private:
  struct Rank : StepActions {
    Rank(InMemoryRanks& all, int rank, const ChunkTable& table, Values values)
        : all(all),
          rank(rank),
          steps(all.algorithm_.steps[rank]),
          order(steps),
          interpreter(order),
          layout(all.algorithm_, table, rank),
          data(std::move(values)),
          scratch(layout.scratch_elements(), std::nanf("")),
          done(steps.size(), false) {}

    bool send(int step) override { return begin(step, all.sends_[{rank, steps[step].peer}]); }
    bool recv(int step) override { return begin(step, all.recvs_[{steps[step].peer, rank}]); }
    void reduce(int step) override { queue_up(step); }
    void copy(int step) override { queue_up(step); }

    bool ended(int step) override {
      const bool sends = steps[step].kind == StepKind::kSend;
      const std::pair ends =
          sends ? std::pair(rank, steps[step].peer) : std::pair(steps[step].peer, rank);
      if (all.chance()) all.deliver(ends);
      if (done[step]) all.moved_ = true;
      return done[step];
    }

    bool begin(int step, std::deque<int>& line) {
      if (all.weather_.narrow) {
        for (int before = 0; before < step; ++before) {
          if (steps[before].kind == steps[step].kind && !done[before]) return ended(before), false;
        }
      }
      while (worked <= order.device_step(step) && !queue.empty())
        work(1);
      line.push_back(step);
      all.moved_ = true;
      return true;
    }

    void queue_up(int step) {
      queue.push_back(step);
      if (all.chance()) work(1);
      all.moved_ = true;
    }

    // The device does its oldest pieces of work; `worked` is beyond the last it has done.
    void work(std::size_t pieces) {
      for (; pieces > 0 && !queue.empty(); --pieces) {
        const Step& step = steps[queue.front()];
        worked = queue.front() + 1;
        queue.pop_front();
        for (int term = 0; term < step.terms; ++term) {
          Slot from = step.from;
          from.place += term * from.chunks;
          write(step.to, read(from), step.kind == StepKind::kReduce);
        }
      }
    }

    float* start(const Slot& slot) {
      Values& memory = slot.memory == Memory::kData    ? data
                       : slot.memory == Memory::kInput ? all.inputs_[rank]
                                                       : scratch;
      EXPECT_LE(layout.offset(slot) + layout.elements(slot), std::ssize(memory));
      EXPECT_GE(layout.offset(slot), 0) << "a chunk that the rank holds";
      return memory.data() + layout.offset(slot);
    }

    Values read(const Slot& slot) { return {start(slot), start(slot) + layout.elements(slot)}; }

    void write(const Slot& slot, const Values& values, bool add) {
      ASSERT_EQ(std::ssize(values), layout.elements(slot)) << "both ends name as many elements";
      float* to = start(slot);
      for (std::size_t i = 0; i < values.size(); ++i) {
        to[i] = add ? to[i] + values[i] : values[i];
      }
    }

    InMemoryRanks& all;
    int rank;
    const std::vector<Step>& steps;
    StepOrder order;
    Interpreter interpreter;
    SlotLayout layout;
    Values data;
    Values scratch;
    std::vector<bool> done;
    std::deque<int> queue = {};
    int worked = 0;
  };

  bool chance() { return random_() % 3 == 0; }

  // The oldest message between two ranks moves, if both ends are there.
  void deliver(std::pair<int, int> ends) {
    std::deque<int>& sends = sends_[ends];
    std::deque<int>& recvs = recvs_[ends];
    if (sends.empty() || recvs.empty()) return;
    Rank& from = *ranks_[ends.first];
    Rank& to = *ranks_[ends.second];
    to.write(to.steps[recvs.front()].to, from.read(from.steps[sends.front()].from), false);
    from.done[sends.front()] = true;
    to.done[recvs.front()] = true;
    sends.pop_front();
    recvs.pop_front();
    moved_ = true;
  }

  const CollectiveAlgorithm& algorithm_;
  Weather weather_;
  std::minstd_rand random_;
  std::vector<Values> inputs_;
  std::vector<std::unique_ptr<Rank>> ranks_ = {};
  std::map<std::pair<int, int>, std::deque<int>> sends_ = {};  // steps, by sender and receiver
  std::map<std::pair<int, int>, std::deque<int>> recvs_ = {};
  bool moved_ = false;
};

}  // namespace hethub

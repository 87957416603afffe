#include "hethub/predict/step_builder.h"

#include <optional>

#include "hethub/base/error.h"
#include "hethub/collective/additions.h"

namespace hethub {
namespace {

// The next message from one member to another.
int take(int& next, const SimCollective::Pair& pair) {
  require(next < pair.end, [] {
    return ErrorParts{.what = "simulated collective",
                      .found = "a receive that nobody sends",
                      .expected = "one send for each receive",
                      .fix = "check the algorithm"};
  });
  return next++;
}

double bytes_of(const SimCollective& collective, const Slot& slot) {
  return static_cast<double>(elements_of(slot, collective.chunks) * size_of(collective.dtype));
}

}  // namespace

StepBuilder::StepBuilder(const CostModel& costs) : costs_(costs) {
  step_.tasks.resize(costs.ranks().size());
  std::map<std::string, int> kinds;
  for (const RankPlace& place : costs.ranks()) {
    const auto found = kinds.try_emplace(place.kind, static_cast<int>(kinds.size())).first;
    kind_of_rank_.push_back(found->second);
  }
}

int StepBuilder::add_label(SimLabel label) {
  labels_.push_back(std::move(label));
  return static_cast<int>(labels_.size()) - 1;
}

const TransferRates& StepBuilder::rates(int from, int to) {
  const std::vector<RankPlace>& ranks = costs_.ranks();
  const bool near = ranks.at(from).node == ranks.at(to).node;
  const auto [found, is_new] =
      rates_.try_emplace({kind_of_rank_[from], kind_of_rank_[to], near}, TransferRates{});
  if (is_new) found->second = costs_.transfer_rates(from, to);
  return found->second;
}

double StepBuilder::addition_seconds(int rank, const Op& addition) {
  const auto& sizes = std::get<Accumulate>(addition.body);
  if (sizes.count == 0) return 0;
  const auto [place, is_new] = additions_.try_emplace(
      {kind_of_rank_.at(rank), addition.dtype, sizes.count, sizes.terms, sizes.stride}, 0.0);
  if (is_new) place->second = costs_.op_cost(costs_.ranks()[rank].kind, addition).seconds;
  return place->second;
}

void StepBuilder::use_lane(SimLane lane) {
  lane_ = lane;
  if (lane == SimLane::kBeside) step_.tasks.resize(2 * costs_.ranks().size());
}

std::vector<SimTask>& StepBuilder::tasks_of(int rank) {
  return step_.tasks.at(lane_ == SimLane::kMain ? rank : row_beside(rank));
}

void StepBuilder::signal(int rank, int message, int label) {
  tasks_of(rank).push_back({.kind = SimTaskKind::kSend,
                            .message = message,
                            .channel = step_.channels++,
                            .label = label});
}

void StepBuilder::await(int rank, int message, int label) {
  tasks_of(rank).push_back({.kind = SimTaskKind::kRecv, .message = message, .label = label});
}

void StepBuilder::work(int rank, double seconds, int label) {
  tasks_of(rank).push_back({.seconds = seconds, .label = label});
}

void StepBuilder::post(int rank, int peer, double bytes, Envelope envelope) {
  const TransferCost cost = cost_of(rates(rank, peer), bytes);
  if (envelope.place == DataPlace::kDevice && cost.download_seconds > 0) {
    work(rank, cost.download_seconds, envelope.label);
  }
  const auto [channel, is_new] = channels_.try_emplace({rank, peer, lane_}, step_.channels);
  if (is_new) ++step_.channels;
  tasks_of(rank).push_back({.kind = SimTaskKind::kSend,
                            .seconds = cost.wire_seconds,
                            .message = envelope.message,
                            .channel = channel->second,
                            .label = envelope.label});
}

void StepBuilder::accept(int rank, int peer, double bytes, Envelope envelope) {
  tasks_of(rank).push_back(
      {.kind = SimTaskKind::kRecv, .message = envelope.message, .label = envelope.label});
  const TransferCost cost = cost_of(rates(peer, rank), bytes);
  if (envelope.place == DataPlace::kDevice && cost.upload_seconds > 0) {
    work(rank, cost.upload_seconds, envelope.label);
  }
}

int StepBuilder::add_meeting(SimMeeting meeting) {
  step_.meetings.push_back(meeting);
  return static_cast<int>(step_.meetings.size()) - 1;
}

void StepBuilder::meet(int rank, int meeting, int label) {
  tasks_of(rank).push_back({.kind = SimTaskKind::kMeet, .message = meeting, .label = label});
}

void StepBuilder::let_stand_for(int other, int rank) {
  for (int next = static_cast<int>(step_.like.size()); next < std::ssize(step_.tasks); ++next) {
    step_.like.push_back(next);
  }
  step_.like.at(rank) = other;
}

double StepBuilder::alone_seconds(std::vector<int> group, const CollectiveAlgorithm& algorithm,
                                  const ChunkTable& chunks, DType dtype, DataPlace place) const {
  StepBuilder alone(costs_);
  SimCollective collective =
      alone.begin_collective(std::move(group), algorithm, chunks, dtype, place);
  for (int position = 0; position < std::ssize(collective.group); ++position) {
    alone.take_part(collective, position);
  }
  return simulate(alone.step(), SimDetail::kEndsOnly).step_seconds;
}

SimCollective StepBuilder::begin_collective(std::vector<int> group,
                                            std::shared_ptr<const SimAlgorithm> algorithm,
                                            ChunkTable chunks, DType dtype, DataPlace place) {
  const CollectiveAlgorithm& steps = algorithm->algorithm;
  require(std::ssize(group) == steps.world_size() && std::ssize(chunks) == steps.chunks, [&] {
    return ErrorParts{.what = text("simulated ", steps.name),
                      .found = text(group.size(), " ranks, ", chunks.size(), " chunks"),
                      .expected = text(steps.steps.size(), " and ", steps.chunks),
                      .fix = "pass the algorithm of this group's size"};
  });
  SimCollective collective{.group = std::move(group),
                           .algorithm = std::move(algorithm),
                           .chunks = std::move(chunks),
                           .dtype = dtype,
                           .place = place};
  for (const SimAlgorithm::Pair& pair : collective.algorithm->pairs) {
    const int first = add_messages(pair.messages);
    collective.pairs.push_back({first, first, first + pair.messages});
  }
  return collective;
}

void StepBuilder::take_part(SimCollective& collective, int position, int label) {
  const CollectiveAlgorithm& algorithm = collective.algorithm->algorithm;
  const std::vector<Step>& steps = algorithm.steps.at(position);
  const StepOrder& order = collective.algorithm->orders[position];
  std::optional<SlotLayout> layout;  // of what is added
  std::vector<int> messages(steps.size(), -1);
  const auto finish = [&](int step) {
    finish_message(collective, position, steps[step], {messages[step], label, collective.place});
  };
  for (int step = 0; step < order.steps(); ++step) {
    for (const int awaited : order.awaited(step)) {
      finish(awaited);
    }
    if (is_message(order.kind(step))) {
      messages[step] = begin_message(collective, position, step, label);
    } else if (collective.place == DataPlace::kDevice) {
      if (!layout) layout.emplace(algorithm, collective.chunks, position);
      const Op addition = addition_of(algorithm, steps[step], *layout, collective.dtype);
      work(collective.group[position], addition_seconds(collective.group[position], addition),
           label);
    }
  }
  for (const int awaited : order.awaited(order.steps())) {
    finish(awaited);
  }
}

// Sends what a send sends; the receives of one pair are numbered in the order of their steps.
int StepBuilder::begin_message(SimCollective& collective, int position, int step, int label) {
  const Step& message = collective.algorithm->algorithm.steps[position][step];
  SimCollective::Pair& pair = collective.pairs[collective.algorithm->pair_of_step[position][step]];
  if (message.kind == StepKind::kRecv) return take(pair.next_received, pair);
  const int number = take(pair.next_sent, pair);
  post(collective.group[position], collective.group[message.peer],
       bytes_of(collective, message.from), {number, label, collective.place});
  return number;
}

// Waits until a message has arrived or, of a send, has left.
void StepBuilder::finish_message(const SimCollective& collective, int position, const Step& step,
                                 Envelope envelope) {
  const int rank = collective.group[position];
  if (step.kind == StepKind::kRecv) {
    accept(rank, collective.group[step.peer], bytes_of(collective, step.to), envelope);
  } else {
    await(rank, envelope.message, envelope.label);
  }
}

}  // namespace hethub

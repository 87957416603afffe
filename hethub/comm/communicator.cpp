#include "hethub/comm/communicator.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "hethub/base/error.h"
#include "hethub/collective/generators.h"

namespace hethub {
namespace {

// Two, so that a chunk can be downloaded while the one before it is on its way.
constexpr int kSendPlaces = 2;

bool may_overlap(const Slot& first, const Slot& second) {
  if (first.memory != second.memory) return false;
  const bool placed = first.memory == Memory::kScratch;
  const int first_begin = placed ? first.place : first.chunk;
  const int second_begin = placed ? second.place : second.chunk;
  return first_begin < second_begin + second.chunks && second_begin < first_begin + first.chunks;
}

}  // namespace

// One run of a prepared collective.
struct Communicator::Running {
  PreparedCollective& collective;
  View data = {};
  View scratch = {};
  Deadline deadline = {};
  Operation operation = {};
  Tag tag = {};
  bool device_busy = true;  // queued work may still make or read a chunk
  int sends = 0;
};

Communicator::Communicator(CommunicatorOptions options) : options_(std::move(options)) {
  const auto& ranks = options_.ranks;
  const int world_rank = messenger().rank();
  const auto found = std::find(ranks.begin(), ranks.end(), world_rank);
  require(found != ranks.end() && std::set<int>(ranks.begin(), ranks.end()).size() == ranks.size(),
          {.what = text("communicator ", options_.id, " on rank ", world_rank, ": ranks"),
           .found = found == ranks.end() ? "this rank is not a member" : "a rank named twice",
           .expected = "this rank and others, each once",
           .fix = "make a communicator on its members only"});
  require(options_.id >= 0 && options_.id < kMostGroups,
          {.what = "communicator: id",
           .found = text(options_.id),
           .expected = text("0 to ", kMostGroups - 1),
           .fix = "number the groups from 0, alike on all ranks"});
  rank_ = static_cast<int>(found - ranks.begin());
  handles_.resize(ranks.size());
  host_gather_ = root_all_gather(size());
  barrier_ = prepare(dissemination_barrier(size()), {0}, DType::kU8);
}

Operation Communicator::next_operation(std::string_view name) {
  return {.name = name, .number = number_++};
}

Request Communicator::send(int peer, std::uint64_t tag, View from) const {
  return options_.port->send(world_rank(peer), point_to_point_tag(options_.id, tag), from,
                             {.name = "send", .number = static_cast<std::int64_t>(tag)});
}

Request Communicator::recv(int peer, std::uint64_t tag, View to) const {
  return options_.port->recv(world_rank(peer), point_to_point_tag(options_.id, tag), to,
                             {.name = "recv", .number = static_cast<std::int64_t>(tag)});
}

std::unique_ptr<PreparedCollective> Communicator::prepare(const CollectiveAlgorithm& algorithm,
                                                          const ChunkTable& table, DType dtype) {
  require(algorithm.world_size() == size(),
          {.what = text(algorithm.name, " in communicator ", options_.id),
           .found = text("steps for ", algorithm.world_size(), " ranks"),
           .expected = text(size()),
           .fix = "make the algorithm for the size of the group"});
  auto made = std::make_unique<PreparedCollective>();
  made->name_ = algorithm.name;
  made->steps_ = algorithm.steps[static_cast<std::size_t>(rank_)];
  made->scratch_bytes_ = scratch_elements(algorithm, table) * size_of(dtype);
  const std::int64_t elements = std::accumulate(table.begin(), table.end(), std::int64_t{0});
  made->data_bytes_ = elements * size_of(dtype);
  made->check_ = check_of(algorithm.name, dtype, elements);
  made->layout_.emplace(algorithm, table, rank_);
  made->element_bytes_ = size_of(dtype);
  for (const Step& step : made->steps_) {
    if (step.kind != StepKind::kSend && step.kind != StepKind::kRecv) continue;
    const Slot& slot = step.kind == StepKind::kSend ? step.from : step.to;
    made->message_bytes_ =
        std::max(made->message_bytes_, made->layout_->elements(slot) * made->element_bytes_);
  }

  prepare_additions(*made, dtype);
  made->event_ = options_.port->backend().make_event();
  const bool staged = options_.port->route().staged();
  made->staging_ =
      HostPages(staged ? (kSendPlaces + 1) * made->message_bytes_ : 0, "host memory for messages");
  made->sent_.resize(made->steps_.size());
  return made;
}

// One addition for each size of chunk that this member adds.
void Communicator::prepare_additions(PreparedCollective& made, DType dtype) const {
  std::map<std::int64_t, PreparedOp*> of_size;
  for (const Step& step : made.steps_) {
    made.additions_.push_back(nullptr);
    if (step.kind != StepKind::kReduce) continue;
    require(step.terms == 1, [&] {
      return ErrorParts{.what = text(made.name_, " on a device"),
                        .found = "a sum of several terms in one step",
                        .expected = "one term a step",
                        .fix = "use a ring, tree or halving algorithm"};
    });
    const std::int64_t count = made.layout_->elements(step.to);
    if (count == 0) continue;
    PreparedOp*& addition = of_size[count];
    if (addition == nullptr) {
      made.owned_additions_.push_back(
          options_.port->backend().prepare({made.name_, dtype, Accumulate{count}}));
      addition = made.owned_additions_.back().get();
    }
    made.additions_.back() = addition;
  }
}

View Communicator::view_of(const Running& running, Slot slot) const {
  const PreparedCollective& collective = running.collective;
  const std::int64_t offset = collective.layout_->offset(slot) * collective.element_bytes_;
  const std::int64_t bytes = collective.layout_->elements(slot) * collective.element_bytes_;
  return (slot.memory == Memory::kData ? running.data : running.scratch).slice(offset, bytes);
}

void Communicator::wait_for_device(Running& running) const {
  if (!running.device_busy) return;
  Event& event = *running.collective.event_;
  options_.port->queue().record(event);
  event.wait(running.deadline);
  running.device_busy = false;
}

void Communicator::finish_sends(Running& running, Slot slot) const {
  for (int index = 0; index < running.sends; ++index) {
    auto& sent = running.collective.sent_[static_cast<std::size_t>(index)];
    if (!sent.under_way || !may_overlap(sent.slot, slot)) continue;
    messenger().wait(sent.handle, running.deadline, running.operation);
    sent.under_way = false;
  }
}

void Communicator::finish_sends(Running& running) const {
  for (int index = 0; index < running.sends; ++index) {
    auto& sent = running.collective.sent_[static_cast<std::size_t>(index)];
    if (!sent.under_way) continue;
    messenger().wait(sent.handle, running.deadline, running.operation);
    sent.under_way = false;
  }
}

void Communicator::send_chunk(Running& running, const Step& step) const {
  PreparedCollective& collective = running.collective;
  Route& route = options_.port->route();
  std::byte* staging = nullptr;
  if (route.staged()) {
    staging =
        collective.staging_.data() + (running.sends % kSendPlaces) * collective.message_bytes_;
    if (running.sends >= kSendPlaces) {
      auto& before = collective.sent_[static_cast<std::size_t>(running.sends - kSendPlaces)];
      if (before.under_way) messenger().wait(before.handle, running.deadline, running.operation);
      before.under_way = false;
    }
  }
  const View view = view_of(running, step.from);
  const std::span<std::byte> host = route.host_of(view, staging);
  route.queue_before_send(view, host, options_.port->queue());
  running.device_busy = running.device_busy || (route.staged() && view.bytes > 0);
  wait_for_device(running);
  collective.sent_[static_cast<std::size_t>(running.sends++)] = {
      .slot = step.from,
      .handle = messenger().post_send(world_rank(step.peer), running.tag, host),
      .under_way = true};
}

void Communicator::recv_chunk(Running& running, const Step& step) const {
  PreparedCollective& collective = running.collective;
  Route& route = options_.port->route();
  wait_for_device(running);  // the chunk, or the staging memory, may still be read
  const View view = view_of(running, step.to);
  const std::span<std::byte> host =
      route.host_of(view, collective.staging_.data() + kSendPlaces * collective.message_bytes_);
  const Handle handle = messenger().post_recv(world_rank(step.peer), running.tag, host);
  messenger().wait(handle, running.deadline, running.operation);
  route.queue_after_recv(view, host, options_.port->queue());
  running.device_busy = route.staged() && view.bytes > 0;
}

void Communicator::run(PreparedCollective& collective, View data, View scratch, Deadline deadline) {
  require(data.bytes == collective.data_bytes_ && scratch.bytes >= collective.scratch_bytes_, [&] {
    return ErrorParts{.what = text(collective.name_, " in communicator ", options_.id, ": memory"),
                      .found = text(data.bytes, " bytes of data, ", scratch.bytes, " of scratch"),
                      .expected = text(collective.data_bytes_, " and ", collective.scratch_bytes_),
                      .fix = "pass the memory that the collective was prepared for"};
  });
  Running running{.collective = collective,
                  .data = data,
                  .scratch = scratch,
                  .deadline = deadline,
                  .operation = next_operation(collective.name_)};
  running.tag = collective_tag(options_.id, static_cast<std::uint64_t>(running.operation.number),
                               collective.check_);
  try {
    for (std::size_t index = 0; index < collective.steps_.size(); ++index) {
      take_step(running, index);
    }
    finish_sends(running);
  } catch (const Error& error) {
    messenger().abort(error);  // so that no message touches this memory after the return
    throw;
  }
}

void Communicator::take_step(Running& running, std::size_t index) const {
  PreparedCollective& collective = running.collective;
  Queue& queue = options_.port->queue();
  const Step& step = collective.steps_[index];
  if (step.kind != StepKind::kSend) finish_sends(running, step.to);
  switch (step.kind) {
    case StepKind::kSend:
      send_chunk(running, step);
      break;
    case StepKind::kRecv:
      recv_chunk(running, step);
      break;
    case StepKind::kReduce: {
      if (collective.additions_[index] == nullptr) break;  // an empty chunk
      const View to = view_of(running, step.to);
      queue.run(*collective.additions_[index], std::array{to, view_of(running, step.from)},
                std::array{to}, {});
      running.device_busy = true;
      break;
    }
    case StepKind::kCopy:
      queue.copy(view_of(running, step.from), view_of(running, step.to));
      running.device_busy = true;
      break;
  }
}

void Communicator::barrier(Deadline deadline) { run(*barrier_, {}, {}, deadline); }

// The steps of root_all_gather on host memory. Steps of one kind that follow each other wait
// together.
void Communicator::exchange(std::span<const std::byte> mine, std::span<std::byte> all,
                            Operation operation, std::uint64_t check, Deadline deadline) {
  const Tag tag = collective_tag(options_.id, static_cast<std::uint64_t>(operation.number), check);
  const std::size_t bytes = mine.size();
  const auto given_by = [&](int member) {
    return all.subspan(bytes * static_cast<std::size_t>(member), bytes);
  };
  std::copy(mine.begin(), mine.end(), given_by(rank_).begin());
  std::size_t posted = 0;
  const auto finish = [&] {
    for (std::size_t index = 0; index < posted; ++index) {
      messenger().wait(handles_[index], deadline, operation);
    }
    posted = 0;
  };
  StepKind kind = StepKind::kSend;
  for (const Step& step : host_gather_.steps[static_cast<std::size_t>(rank_)]) {
    if (std::exchange(kind, step.kind) != step.kind) finish();
    const int peer = world_rank(step.peer);
    if (step.kind == StepKind::kSend) {
      const auto from = step.from.chunk == 0 ? mine : std::span<const std::byte>(all);
      handles_[posted++] = messenger().post_send(peer, tag, from);
    } else {
      const auto to = step.to.memory == Memory::kScratch ? given_by(step.to.place) : all;
      handles_[posted++] = messenger().post_recv(peer, tag, to);
    }
  }
  finish();
}

void Communicator::all_reduce_host(std::span<double> values, Deadline deadline) {
  const Operation operation = next_operation("all_reduce_host");
  gathered_.resize(values.size() * static_cast<std::size_t>(size()));
  exchange(std::as_bytes(values), std::as_writable_bytes(std::span(gathered_)), operation,
           check_of(operation.name, DType::kF64, std::ssize(values)), deadline);
  for (std::size_t index = 0; index < values.size(); ++index) {
    double sum = 0;
    for (std::size_t member = 0; member < options_.ranks.size(); ++member) {
      sum += gathered_[member * values.size() + index];
    }
    values[index] = sum;
  }
}

void Communicator::all_gather_host(std::span<const std::byte> mine, std::span<std::byte> all,
                                   Deadline deadline) {
  require(all.size() == mine.size() * static_cast<std::size_t>(size()), [&] {
    return ErrorParts{.what = "all_gather_host: memory for all members",
                      .found = text(all.size(), " bytes"),
                      .expected = text(mine.size() * static_cast<std::size_t>(size())),
                      .fix = "give the members' bytes one after the other"};
  });
  const Operation operation = next_operation("all_gather_host");
  exchange(mine, all, operation, check_of(operation.name, DType::kU8, std::ssize(mine)), deadline);
}

}  // namespace hethub

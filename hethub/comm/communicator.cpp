#include "hethub/comm/communicator.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "hethub/base/error.h"

namespace hethub {
namespace {

// So many different calls keep their preparations and scratch memory.
constexpr std::size_t kMostKept = 64;

bool same_call(const Collective& first, const Collective& second) {
  return first.op == second.op && first.dtype == second.dtype &&
         first.reduction == second.reduction && first.count == second.count &&
         first.root == second.root && first.table == second.table;
}

}  // namespace

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
  host_gather_ = host_all_gather(size());
  const std::vector<Step>& gather = host_gather_.steps[static_cast<std::size_t>(rank_)];
  handles_.resize(gather.size());
  host_order_ = StepOrder(gather);
  barrier_ = prepare(
      chosen_algorithm(options_.choices, {.op = CollectiveOp::kBarrier, .world_size = size()}), {0},
      DType::kU8);
}

CommunicatorOptions Communicator::subgroup(std::span<const int> positions, int id) const {
  CommunicatorOptions made{.port = options_.port, .id = id, .choices = options_.choices};
  std::vector<int> new_positions(options_.ranks.size(), -1);
  for (const int position : positions) {
    new_positions.at(static_cast<std::size_t>(position)) = static_cast<int>(made.ranks.size());
    made.ranks.push_back(world_rank(position));
  }
  for (const std::vector<int>& part : options_.parts) {
    std::vector<int> kept;
    for (const int position : part) {
      const int now = new_positions.at(static_cast<std::size_t>(position));
      if (now >= 0) kept.push_back(now);
    }
    if (!kept.empty()) made.parts.push_back(kept);
  }
  return made;
}

Operation Communicator::next_operation(std::string_view name) {
  return {.name = name, .number = number_++};
}

// ---- point to point
// -------------------------------------------------------------------------------

Request Communicator::send(int peer, std::uint64_t tag, View from) const {
  return options_.port->send(world_rank(peer), point_to_point_tag(options_.id, tag), from,
                             {.name = "send", .number = static_cast<std::int64_t>(tag)});
}

Request Communicator::recv(int peer, std::uint64_t tag, View to) const {
  return options_.port->recv(world_rank(peer), point_to_point_tag(options_.id, tag), to,
                             {.name = "recv", .number = static_cast<std::int64_t>(tag)});
}

void Communicator::start_batch(std::span<const PointToPoint> batch,
                               std::span<Request> requests) const {
  require(batch.size() == requests.size(), [&] {
    return ErrorParts{.what = "a batch of messages: requests",
                      .found = text(requests.size()),
                      .expected = text(batch.size()),
                      .fix = "give one request for each message"};
  });
  for (std::size_t at = 0; at < batch.size(); ++at) {
    if (!batch[at].sends) requests[at] = recv(batch[at].peer, batch[at].tag, batch[at].view);
  }
  for (std::size_t at = 0; at < batch.size(); ++at) {
    if (batch[at].sends) requests[at] = send(batch[at].peer, batch[at].tag, batch[at].view);
  }
}

// ---- collectives
// ----------------------------------------------------------------------------------

std::unique_ptr<PreparedCollective> Communicator::prepare(const CollectiveAlgorithm& algorithm,
                                                          const ChunkTable& table, DType dtype,
                                                          Reduction reduction) {
  require(algorithm.world_size() == size(), [&] {
    return ErrorParts{.what = text(algorithm.name, " in communicator ", options_.id),
                      .found = text("steps for ", algorithm.world_size(), " ranks"),
                      .expected = text(size()),
                      .fix = "make the algorithm for the size of the group"};
  });
  // The members of an all-to-all know their own rows and columns only.
  const std::int64_t elements = algorithm.input_chunks.empty()
                                    ? std::accumulate(table.begin(), table.end(), std::int64_t{0})
                                    : 0;
  return std::make_unique<PreparedCollective>(
      PreparedCollective::Options{.algorithm = &algorithm,
                                  .table = &table,
                                  .dtype = dtype,
                                  .reduction = reduction,
                                  .rank = rank_,
                                  .world_ranks = options_.ranks,
                                  .port = options_.port,
                                  .check = check_of(algorithm.name, dtype, elements, reduction)});
}

// Ranks that choose differently wait for ever, so none chooses before it knows that all choose
// alike.
void Communicator::agree_on_choices() {
  if (std::exchange(agreed_, true)) return;
  const std::uint64_t mine = hash_of(options_.choices, options_.parts);
  std::vector<std::uint64_t> all(options_.ranks.size());
  all_gather_host(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)),
                  after_seconds(options_.agree_timeout_s));
  for (std::size_t position = 0; position < all.size(); ++position) {
    if (all[position] == all[0]) continue;
    const Error error(ErrorCode::kInvalidConfig,
                      {.what = text("table of algorithms in communicator ", options_.id),
                       .found = text(messenger().name_of(options_.ranks[position]),
                                     " has another than ", messenger().name_of(options_.ranks[0])),
                       .expected = "the same table, kinds and nodes on all ranks",
                       .fix = "give all ranks the same file of choices and the same cluster"});
    messenger().abort(error);
    throw Error(error);
  }
}

CollectiveCall Communicator::call_of(const Collective& collective) const {
  const auto& table = collective.table;
  const std::int64_t count = table.empty()
                                 ? collective.count
                                 : std::accumulate(table.begin(), table.end(), std::int64_t{0});
  CollectiveCall call = hethub::call_of(collective.op, size(), count, collective.dtype);
  call.root = collective.root;
  call.parts = options_.parts;
  return call;
}

std::unique_ptr<PreparedCollective> Communicator::prepare(const Collective& collective) {
  agree_on_choices();
  const CollectiveCall call = call_of(collective);
  const CollectiveAlgorithm algorithm = chosen_algorithm(options_.choices, call);
  const ChunkTable table =
      collective.table.empty() ? even_chunks(collective.count, algorithm.chunks) : collective.table;
  return prepare(algorithm, table, collective.dtype, collective.reduction);
}

Request Communicator::start(PreparedCollective& collective, const CollectiveMemory& memory) {
  require(memory.data.bytes == collective.data_bytes() &&
              memory.input.bytes == collective.input_bytes() &&
              memory.scratch.bytes >= collective.scratch_bytes(),
          [&] {
            return ErrorParts{
                .what = text(collective.name(), " in communicator ", options_.id, ": memory"),
                .found = text(memory.data.bytes, " bytes of data, ", memory.input.bytes,
                              " of input, ", memory.scratch.bytes, " of scratch"),
                .expected = text(collective.data_bytes(), ", ", collective.input_bytes(), " and ",
                                 collective.scratch_bytes()),
                .fix = "pass the memory that the collective was prepared for"};
          });
  const Operation operation = next_operation(collective.name());
  return collective.start(
      memory,
      collective_tag(options_.id, static_cast<std::uint64_t>(operation.number), collective.check_),
      operation);
}

void Communicator::run(PreparedCollective& collective, View data, View scratch, Deadline deadline) {
  start(collective, {.data = data, .scratch = scratch}).wait(deadline);
}

// A preparation of this call that no run uses; the one least recently used makes room.
Communicator::Kept& Communicator::kept_for(const Collective& collective) {
  const auto found = std::find_if(kept_.begin(), kept_.end(), [&](const auto& kept) {
    return !kept->prepared->running() && same_call(kept->collective, collective);
  });
  if (found != kept_.end()) {
    std::rotate(found, found + 1, kept_.end());
    return *kept_.back();
  }
  if (kept_.size() >= kMostKept) {
    const auto idle = std::find_if(kept_.begin(), kept_.end(),
                                   [](const auto& kept) { return !kept->prepared->running(); });
    if (idle != kept_.end()) kept_.erase(idle);
  }
  auto kept = std::make_unique<Kept>();
  kept->collective = collective;
  kept->prepared = prepare(collective);
  kept->scratch = options_.port->backend().allocate(kept->prepared->scratch_bytes());
  kept_.push_back(std::move(kept));
  return *kept_.back();
}

Request Communicator::start(const Collective& collective, View data, View input) {
  Kept& kept = kept_for(collective);
  CollectiveMemory memory{.data = data,
                          .scratch = {kept.scratch.get(), 0, kept.prepared->scratch_bytes()}};
  if (collective.op == CollectiveOp::kAllToAll) {
    memory.input = input;
  } else if (input.bytes > 0) {
    copy_input(collective, *kept.prepared, data, input);
  }
  return start(*kept.prepared, memory);
}

// Queues the copy of what this rank gives to its place in the data.
void Communicator::copy_input(const Collective& collective, const PreparedCollective& prepared,
                              View data, View input) const {
  View place = data;
  if (collective.op == CollectiveOp::kAllGather ||
      (collective.op == CollectiveOp::kGather && rank_ == collective.root)) {
    const Slot own = {.chunk = rank_};
    place = data.slice(prepared.layout_.offset(own) * size_of(collective.dtype),
                       prepared.layout_.elements(own) * size_of(collective.dtype));
  }
  require(place.bytes == input.bytes, [&] {
    return ErrorParts{.what = text(name_of(collective.op), ": input"),
                      .found = text(input.bytes, " bytes"),
                      .expected = text(place.bytes),
                      .fix = "give what this rank contributes, or nothing if it is in the data"};
  });
  options_.port->queue().copy(input, place);
}

void Communicator::barrier(Deadline deadline) { run(*barrier_, {}, {}, deadline); }

// ---- host memory
// ----------------------------------------------------------------------------------

// The steps of host_all_gather on host memory.
void Communicator::exchange(std::span<const std::byte> mine, std::span<std::byte> all,
                            Operation operation, std::uint64_t check, Deadline deadline) {
  const Tag tag = collective_tag(options_.id, static_cast<std::uint64_t>(operation.number), check);
  const std::size_t bytes = mine.size();
  const auto memory_of = [&](const Slot& slot) {
    return all.subspan(bytes * static_cast<std::size_t>(slot.chunk),
                       bytes * static_cast<std::size_t>(slot.chunks));
  };
  const auto finish_before = [&](int step) {
    for (const int message : host_order_.awaited(step)) {
      messenger().wait(handles_[static_cast<std::size_t>(message)], deadline, operation);
    }
  };
  const std::vector<Step>& steps = host_gather_.steps[static_cast<std::size_t>(rank_)];
  std::int64_t moved = 0;
  for (const Step& step : steps) {
    moved += std::ssize(memory_of(step.kind == StepKind::kSend ? step.from : step.to));
  }
  FlightNote note(messenger().recorder(), tag, moved);
  std::copy(mine.begin(), mine.end(), memory_of({.chunk = rank_}).begin());
  for (std::size_t index = 0; index < steps.size(); ++index) {
    finish_before(static_cast<int>(index));
    const Step& step = steps[index];
    const int peer = world_rank(step.peer);
    handles_[index] = step.kind == StepKind::kSend
                          ? messenger().post_send(peer, tag, memory_of(step.from))
                          : messenger().post_recv(peer, tag, memory_of(step.to));
  }
  finish_before(host_order_.steps());
  note.done();
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

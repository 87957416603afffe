#include "hethub/comm/prepared_collective.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "hethub/base/error.h"
#include "hethub/collective/additions.h"

namespace hethub {
namespace {

// So many messages each way may stand in host memory: one arrives while others are copied.
constexpr int kStagingPlaces = 4;

const Slot& slot_of(const Step& step) { return step.kind == StepKind::kSend ? step.from : step.to; }

}  // namespace

PreparedCollective::PreparedCollective(const Options& options)
    : name_(options.algorithm->name),
      steps_(options.algorithm->steps.at(static_cast<std::size_t>(options.rank))),
      order_(steps_),
      layout_(*options.algorithm, *options.table, options.rank),
      port_(options.port),
      world_ranks_(options.world_ranks),
      element_bytes_(size_of(options.dtype)),
      check_(options.check),
      messages_(steps_.size()),
      event_(options.port->backend().make_event()) {
  for (int step = 0; step < order_.steps(); ++step) {
    if (!is_message(at(step).kind)) continue;
    bytes_moved_ += message_bytes(step);
    if (at(step).kind == StepKind::kSend) bytes_sent_ += message_bytes(step);
  }
  prepare_additions(options);
  if (port_->route().staged()) place_messages();
}

PreparedCollective::~PreparedCollective() {
  cancel(0);
  // What it sent last may still be read from its staging memory, or added from its scratch memory.
  if (last_work_ >= 0 && idle_through_ < last_work_) port_->settle();
}

// One addition for each form of sum that this member makes.
void PreparedCollective::prepare_additions(const Options& options) {
  std::map<std::string, PreparedOp*> of_form;
  for (const Step& step : steps_) {
    additions_.push_back(nullptr);
    if (step.kind != StepKind::kReduce || layout_.elements(step.to) == 0) continue;
    const Op op = addition_of(*options.algorithm, step, layout_, options.dtype, options.reduction);
    PreparedOp*& addition = of_form[sizes_text(op)];
    if (addition == nullptr) {
      owned_additions_.push_back(port_->backend().prepare(op));
      addition = owned_additions_.back().get();
    }
    additions_.back() = addition;
  }
}

// Gives the messages each way their places in host memory, in turn.
void PreparedCollective::place_messages() {
  std::array<std::vector<int>, 2> of_kind;  // sends, receives
  std::int64_t largest = 0;
  for (int step = 0; step < order_.steps(); ++step) {
    if (!is_message(at(step).kind)) continue;
    const std::int64_t bytes = message_bytes(step);
    largest = std::max(largest, bytes);
    if (bytes > 0) of_kind[at(step).kind == StepKind::kSend ? 0 : 1].push_back(step);
  }
  const auto places = [](const std::vector<int>& steps) {
    return std::min<std::int64_t>(kStagingPlaces, std::ssize(steps));
  };
  staging_ =
      HostPages((places(of_kind[0]) + places(of_kind[1])) * largest, "host memory for messages");
  std::byte* begin = staging_.data();
  for (const std::vector<int>& steps : of_kind) {
    for (std::size_t turn = 0; turn < steps.size(); ++turn) {
      StepMessage& placed = message(steps[turn]);
      placed.staging = begin + static_cast<std::int64_t>(turn % kStagingPlaces) * largest;
      if (turn >= kStagingPlaces) placed.room_after = steps[turn - kStagingPlaces];
    }
    begin += places(steps) * largest;
  }
}

Request PreparedCollective::start(const CollectiveMemory& memory, Tag tag, Operation operation) {
  require(!running_, [&] {
    return ErrorParts{.what = text(name_, ": a second run at once"),
                      .found = "the first has not ended",
                      .expected = "one run at a time of one prepared collective",
                      .fix = "prepare it twice, or wait for the first"};
  });
  memory_ = memory;
  tag_ = tag;
  operation_ = operation;
  for (StepMessage& message : messages_) {
    message.stage = MessageStage::kNone;
  }
  room_wanted_ = downloading_ = last_work_ = -1;
  recorded_ = idle_through_ = -2;  // queued work may still make the data
  interpreter_.emplace(order_);
  running_ = true;
  flight_ = port_->messenger().recorder().begin(FlightKind::kCollective, tag, -1, bytes_moved_);
  port_->begin(*this);
  return {this, 0};
}

std::int64_t PreparedCollective::message_bytes(int step) const {
  return layout_.elements(slot_of(at(step))) * element_bytes_;
}

View PreparedCollective::view_of(const Slot& slot) const {
  const std::int64_t offset = layout_.offset(slot) * element_bytes_;
  const std::int64_t bytes = layout_.elements(slot) * element_bytes_;
  switch (slot.memory) {
    case Memory::kData:
      return memory_.data.slice(offset, bytes);
    case Memory::kInput:
      return memory_.input.slice(offset, bytes);
    case Memory::kScratch:
    case Memory::kMirror:
      return memory_.scratch.slice(offset, bytes);
  }
  return {};
}

// ---- the device
// -----------------------------------------------------------------------------------

void PreparedCollective::note_work(int step) {
  last_work_ = step;
  recorded_ = -2;
  idle_through_ = std::min(idle_through_, step - 1);
}

// Whether the device has done all that was queued. Never blocks.
bool PreparedCollective::device_idle() {
  if (idle_through_ >= last_work_) return true;
  if (recorded_ == -2) {
    port_->queue().record(*event_);
    recorded_ = last_work_;
  }
  if (!event_->done()) return false;
  idle_through_ = last_work_;
  return true;
}

// Whether the device is done with the memory of a message.
bool PreparedCollective::settled(int step) {
  return idle_through_ >= order_.device_step(step) || device_idle();
}

void PreparedCollective::reduce(int step) {
  PreparedOp* const addition = additions_[static_cast<std::size_t>(step)];
  if (addition == nullptr) return;  // an empty chunk
  const View to = view_of(at(step).to);
  View from = view_of(at(step).from);
  from.bytes += (at(step).terms - 1) * layout_.term_stride(at(step).from) * element_bytes_;
  port_->queue().run(*addition, std::array{to, from}, std::array{to}, {});
  note_work(step);
}

void PreparedCollective::copy(int step) {
  const View from = view_of(at(step).from);
  if (from.bytes == 0) return;
  port_->queue().copy(from, view_of(at(step).to));
  note_work(step);
}

// ---- messages
// -------------------------------------------------------------------------------------

// Whether the message that stood in this one's host memory has ended.
bool PreparedCollective::has_room(int step) {
  room_wanted_ = message(step).room_after;
  if (room_wanted_ >= 0 && !ended(room_wanted_)) return false;
  room_wanted_ = -1;
  return true;
}

bool PreparedCollective::send(int step) {
  Messenger& messenger = port_->messenger();
  const View view = view_of(at(step).from);
  StepMessage& sent = message(step);
  const std::span<std::byte> host = port_->route().host_of(view, sent.staging);
  if (sent.staging != nullptr) {
    if (!has_room(step)) return false;
    if (downloading_ != step) {
      port_->route().queue_before_send(view, host, port_->queue());
      note_work(step);
      downloading_ = step;
    }
    if (!device_idle()) return false;
    downloading_ = -1;
  } else if (!settled(step)) {
    return false;
  }
  const int peer = world_ranks_[static_cast<std::size_t>(at(step).peer)];
  sent.handle = messenger.post_send(peer, tag_, host);
  sent.stage = MessageStage::kUnderWay;
  return true;
}

bool PreparedCollective::recv(int step) {
  const View view = view_of(at(step).to);
  StepMessage& received = message(step);
  if (received.staging != nullptr) {
    // What arrived in that place before may still be on its way to the device.
    if (!has_room(step) || (received.room_after >= 0 && !device_idle())) return false;
  } else if (!settled(step)) {
    return false;
  }
  const int peer = world_ranks_[static_cast<std::size_t>(at(step).peer)];
  received.handle =
      port_->messenger().post_recv(peer, tag_, port_->route().host_of(view, received.staging));
  received.stage = MessageStage::kUnderWay;
  return true;
}

bool PreparedCollective::ended(int step) {
  StepMessage& asked = message(step);
  if (asked.stage == MessageStage::kEnded) return true;
  if (!port_->messenger().test(asked.handle, operation_)) return false;
  mark_ended(step);
  return true;
}

void PreparedCollective::mark_ended(int step) {
  StepMessage& ended = message(step);
  ended.stage = MessageStage::kEnded;
  port_->messenger().recorder().advance(flight_, message_bytes(step));
  if (at(step).kind != StepKind::kRecv || ended.staging == nullptr) return;
  const View view = view_of(at(step).to);
  port_->route().queue_after_recv(view, port_->route().host_of(view, ended.staging),
                                  port_->queue());
  note_work(std::max(step, last_work_));
}

// ---- the run
// --------------------------------------------------------------------------------------

bool PreparedCollective::advance() {
  if (!running_) return true;
  if (!interpreter_->advance(*this)) return false;
  finish(FlightState::kDone);
  return true;
}

bool PreparedCollective::test(int /*index*/) {
  if (!running_) return true;
  try {
    port_->advance_all();
  } catch (const Error& error) {
    fail(error);
    throw;
  }
  return !running_;
}

void PreparedCollective::wait(int /*index*/, Deadline deadline) {
  try {
    while (!advance()) {
      if (port_->under_way() == 1) {
        wait_for_one(deadline);
        continue;
      }
      port_->advance_until([this] { return !running_; }, deadline);
      // At the deadline: says for which message.
      if (running_) wait_for_one(deadline);
    }
  } catch (const Error& error) {
    fail(error);
    throw;
  }
}

// Sleeps until what holds this run up has ended.
void PreparedCollective::wait_for_one(Deadline deadline) {
  const int awaited = interpreter_->waits_for();
  const int step = awaited >= 0 ? awaited : room_wanted_;
  if (step < 0) {
    event_->wait(deadline);
    return;
  }
  port_->messenger().wait(message(step).handle, deadline, operation_);
  mark_ended(step);
}

void PreparedCollective::finish(FlightState state) {
  port_->messenger().recorder().end(flight_, state);
  running_ = false;
  port_->end(*this);
}

// Neither a message nor the device touches the memory of a failed run after this.
void PreparedCollective::fail(const Error& error) noexcept {
  port_->messenger().abort(error);
  for (StepMessage& message : messages_) {
    if (message.stage != MessageStage::kUnderWay) continue;
    port_->messenger().cancel(message.handle);
    message.stage = MessageStage::kEnded;
  }
  if (data_bytes() + input_bytes() > 0) port_->settle();
  idle_through_ = last_work_;
  if (running_) finish(FlightState::kFailed);
}

void PreparedCollective::cancel(int /*index*/) noexcept {
  if (!running_) return;
  const Messenger& messenger = port_->messenger();
  fail(Error(ErrorCode::kUnavailable,
             {.what = text(operation_.name, " #", operation_.number),
              .found = text("cancelled by ", messenger.name_of(messenger.rank())),
              .expected = "every member to take part to the end",
              .fix = "wait for a collective once it has been started"}));
}

}  // namespace hethub

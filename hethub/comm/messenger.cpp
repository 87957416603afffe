#include "hethub/comm/messenger.h"

#include <algorithm>
#include <utility>

#include <unistd.h>

#include "hethub/comm/error_text.h"

// Messages, waiting and failure; messenger_progress.cpp has who moves the bytes.

namespace hethub {
namespace {

std::string text_of(Operation operation) {
  if (operation.number < 0) return std::string(operation.name);
  return text(operation.name, " #", operation.number);
}

}  // namespace

Messenger::Messenger(MessengerOptions options, std::vector<std::unique_ptr<Wire>> wires,
                     std::unique_ptr<Control> control)
    : options_(std::move(options)), table_(options_.messages), control_(std::move(control)) {
  connections_.resize(wires.size());
  for (std::size_t peer = 0; peer < wires.size(); ++peer) {
    if (wires[peer] == nullptr) continue;
    const int descriptor = wires[peer]->descriptor();
    if (wires[peer]->attend(false)) attendable_.push_back(static_cast<int>(peer));
    connections_[peer] =
        std::make_unique<Connection>(std::move(wires[peer]), table_, static_cast<int>(peer));
    // First come, first told: a caller that sleeps, then the thread.
    callers_place_.watch(descriptor, static_cast<int>(peer));
    thread_place_.watch(descriptor, static_cast<int>(peer));
  }
  const auto& hosts = options_.hosts;
  const auto here = std::count(hosts.begin(), hosts.end(), hosts.at(options_.rank));
  crowded_ = here > ::sysconf(_SC_NPROCESSORS_ONLN);
  progress_ = std::thread([this] { run_progress(); });
  if (control_ != nullptr) control_->start([this](const Error& verdict) { settle(verdict); });
}

Messenger::~Messenger() {
  say_goodbye();
  control_.reset();
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  parking_.notify_all();
  thread_place_.wake();
  progress_.join();
}

std::string Messenger::name_of(int rank) const {
  return text("rank ", rank, " (host ", options_.hosts.at(static_cast<std::size_t>(rank)), ")");
}

std::string_view Messenger::transport_to(int peer) const {
  const auto& connection = connections_.at(static_cast<std::size_t>(peer));
  if (connection == nullptr) return peer == rank() ? "self" : "none";
  return connection->wire().name();
}

Handle Messenger::post_send(int peer, Tag tag, std::span<const std::byte> from) {
  // The memory of a send is only read.
  return post(peer, tag, const_cast<std::byte*>(from.data()), std::ssize(from), true);
}

Handle Messenger::post_recv(int peer, Tag tag, std::span<std::byte> to) {
  return post(peer, tag, to.data(), std::ssize(to), false);
}

Handle Messenger::post(int peer, Tag tag, std::byte* data, std::int64_t bytes, bool sends) {
  require(peer >= 0 && peer < world_size() && peer != rank(), [&] {
    return ErrorParts{.what = text("message from rank ", rank(), ": the other rank"),
                      .found = text(peer),
                      .expected = text("another of 0 to ", world_size() - 1),
                      .fix = "pass the rank of another member of the world"};
  });
  require(connections_[static_cast<std::size_t>(peer)] != nullptr, [&] {
    return ErrorParts{.what = text("message from rank ", rank(), " to ", name_of(peer)),
                      .found = "no connection for data between them",
                      .expected = "a pair that was to exchange data",
                      .fix = "join the world with this pair (RendezvousOptions::pairs, data)"};
  });
  Lock lock(mutex_);
  if (failure_ && !settled_ && control_ != nullptr && is_mismatch(*failure_)) {
    control_->report(*failure_, tag);  // what this rank means by it, which had not begun it before
  }
  await_verdict(lock);
  if (failure_) throw Error(*failure_);
  if (table_.full()) {
    throw Error(ErrorCode::kOutOfMemory, {.what = "messages under way at once",
                                          .found = text(options_.messages, " and one more"),
                                          .expected = text("at most ", options_.messages),
                                          .fix = "wait for messages, or raise `messages`"});
  }
  const int index = table_.take();
  Message& message = table_.all()[static_cast<std::size_t>(index)];
  message.peer = peer;
  message.sends = sends;
  message.takes_parts = false;
  message.tag = tag;
  message.data = data;
  message.bytes = bytes;
  message.done = 0;
  message.partner = 0;
  Connection& connection = *connections_[static_cast<std::size_t>(peer)];
  const std::uint64_t before = connection.completed();
  sends ? connection.start_send(index) : connection.start_recv(index);
  after_pump(peer, before, connection.left());
  return table_.handle_of(index);
}

bool Messenger::ended(Handle handle) {
  const Message* message = table_.find(handle);
  if (message == nullptr) return true;
  if (message->state != MessageState::kDone) return false;
  table_.release(static_cast<int>(handle.index));
  return true;
}

bool Messenger::test(Handle handle, Operation operation) {
  Lock lock(mutex_);
  if (ended(handle)) return true;
  pump(table_.find(handle)->peer);
  if (ended(handle)) return true;
  check(lock, handle, operation);
  return false;
}

std::uint64_t Messenger::changes() const {
  const std::lock_guard lock(mutex_);
  return changes_;
}

void Messenger::cancel(Handle handle) noexcept {
  const std::lock_guard lock(mutex_);
  const Message* message = table_.find(handle);
  if (message == nullptr) return;
  if (message->state != MessageState::kDone && message->state != MessageState::kFailed) {
    connections_[static_cast<std::size_t>(message->peer)]->cancel(static_cast<int>(handle.index));
  }
  table_.release(static_cast<int>(handle.index));
}

void Messenger::abort(const Error& error) noexcept {
  const std::lock_guard lock(mutex_);
  set_failure(error);
}

std::optional<Error> Messenger::failure() {
  Lock lock(mutex_);
  await_verdict(lock);
  return failure_;
}

// ---- failure ------------------------------------------------------------------------------------

// Precondition: the message has not ended.
void Messenger::check(Lock& lock, Handle handle, Operation operation) {
  const Message& message = *table_.find(handle);
  const Connection& connection = *connections_[static_cast<std::size_t>(message.peer)];
  if (!failure_ && connection.left()) {
    set_failure(Error(ErrorCode::kUnavailable,
                      {.what = text(text_of(operation), ": ", name_of(message.peer)),
                       .found = "it has left the job",
                       .expected = text("a message ", message.sends ? "to" : "from", " it"),
                       .fix = text("see why rank ", message.peer, " ended before the others")}));
  }
  await_verdict(lock);
  if (failure_) throw_failure(handle, operation);
}

void Messenger::throw_failure(Handle handle, Operation operation) {
  const Message& message = *table_.find(handle);
  ErrorParts parts = failure_->parts();
  parts.what = text("rank ", rank(), ": ", text_of(operation), " with rank ", message.peer, " (",
                    message.done, " of ", message.bytes, " bytes done): ", parts.what);
  table_.release(static_cast<int>(handle.index));
  throw Error(failure_->code(), parts);
}

Error Messenger::timeout_of(Handle handle, Operation operation) {
  const Message& message = *table_.find(handle);
  const std::string suspects = control_ == nullptr ? "" : control_->suspects();
  return {ErrorCode::kTimeout,
          {.what = text("rank ", rank(), ": ", text_of(operation), ": message ",
                        message.sends ? "to " : "from ", name_of(message.peer)),
           .found = text(message.done, " of ", message.bytes, " bytes at the deadline",
                         suspects.empty() ? "" : "; ", suspects),
           .expected = "all of them",
           .fix = text("see whether rank ", message.peer, " still runs, or raise the timeout")}};
}

std::string Messenger::mismatch_text(int peer) const {
  const Connection& connection = *connections_[static_cast<std::size_t>(peer)];
  const auto spell = [this](Tag tag, std::int64_t bytes) {
    const std::string meant = options_.describe ? options_.describe(tag) : std::string();
    return text(meant, meant.empty() ? "" : ", ", bytes, " bytes");
  };
  return text(spell(connection.expected(), connection.expected_bytes()), " (rank ", rank(), ") vs ",
              spell(connection.found(), connection.found_bytes()), " (rank ", peer, ")");
}

Error Messenger::error_of(int peer) const {
  const Connection& connection = *connections_[static_cast<std::size_t>(peer)];
  const std::string log = text("see the output of rank ", peer, "; all ranks were told to stop");
  switch (connection.problem()) {
    case ConnectionProblem::kNone:
    case ConnectionProblem::kLost:
      break;
    case ConnectionProblem::kTold:
      return error_from(connection.detail());
    case ConnectionProblem::kMalformed:
      return {ErrorCode::kCorruptData,
              {.what = name_of(peer),
               .found = connection.detail(),
               .expected = "well-formed messages",
               .fix = "run the same hethub on all nodes"}};
    case ConnectionProblem::kGivenUp:
      return {ErrorCode::kUnavailable,
              {.what = text("a message from ", name_of(peer)),
               .found = connection.detail(),
               .expected = "the whole message",
               .fix = log}};
    case ConnectionProblem::kMismatch:
      return {ErrorCode::kInvalidArgument,
              {.what = std::string(kMismatch),
               .found = mismatch_text(peer),
               .expected = "the same operation, element count and type on both",
               .fix = "give all ranks the same plan and version"}};
  }
  return {ErrorCode::kUnavailable,
          {.what = name_of(peer),
           .found = text("it is gone: ", connection.detail(), under_way_with(peer)),
           .expected = "it to run until the job ends",
           .fix = log}};
}

// ", during seq 7 ring_all_reduce f32 2048 elements (100 of 4096 bytes received)".
std::string Messenger::under_way_with(int peer) const {
  for (const Message& message : table_.all()) {
    const bool ended = message.state == MessageState::kFree || message.state == MessageState::kDone;
    if (ended || message.peer != peer || !options_.describe) continue;
    return text(", during ", options_.describe(message.tag), " (", message.done, " of ",
                message.bytes, message.sends ? " bytes sent)" : " bytes received)");
  }
  return {};
}

// The collective whose messages this rank has under way: the oldest, if there are several.
Tag Messenger::collective_under_way() const {
  Tag oldest;
  for (const Message& message : table_.all()) {
    const bool ended = message.state == MessageState::kFree || message.state == MessageState::kDone;
    if (ended || message.tag.check == 0) continue;
    if (oldest.check == 0 || message.tag.match < oldest.match) oldest = message.tag;
  }
  return oldest;
}

// What this rank takes for the failure; rank 0 is asked whether it was the first.
void Messenger::set_failure(const Error& error) {
  if (failure_) return;
  const Tag under_way = collective_under_way();
  fail_all(error);
  const Control::Reported reported = control_ == nullptr ? Control::Reported{.verdict = error}
                                                         : control_->report(error, under_way);
  if (reported.verdict) failure_ = reported.verdict;
  settled_ = !reported.to_come;
  tell_waiting();
}

// After it no message's memory is touched any more.
void Messenger::fail_all(const Error& error) {
  failure_ = error;
  under_way_at_failure_ = messages_under_way();
  const std::string told = error_text(error);
  for (const auto& connection : connections_) {
    if (connection != nullptr) connection->abort(told);
  }
  for (std::size_t index = 0; index < table_.all().size(); ++index) {
    Message& message = table_.all()[index];
    if (message.state == MessageState::kFree || message.state == MessageState::kDone) continue;
    connections_[static_cast<std::size_t>(message.peer)]->cancel(static_cast<int>(index));
    message.state = MessageState::kFailed;
  }
}

// Called by the control's thread.
void Messenger::settle(const Error& verdict) {
  const std::lock_guard lock(mutex_);
  if (!failure_) fail_all(verdict);
  failure_ = verdict;
  settled_ = true;
  verdict_.notify_all();
  tell_waiting();
}

// All ranks throw one error: what rank 0 found to be the first. It answers in about a round trip.
void Messenger::await_verdict(Lock& lock) {
  constexpr auto kVerdictTime = std::chrono::milliseconds(1200);
  if (!failure_ || settled_) return;
  verdict_.wait_for(lock, kVerdictTime, [this] { return settled_; });
  settled_ = true;
}

void Messenger::tell_waiting() {
  ++changes_;
  ended_.notify_all();
  if (sleeping_) callers_place_.wake();
}

}  // namespace hethub

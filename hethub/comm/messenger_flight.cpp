#include <array>
#include <cstdio>

#include "hethub/comm/messenger.h"

// What a Messenger says of the operations and messages of its rank.

namespace hethub {
namespace {

std::string seconds_text(std::int64_t nanoseconds) {
  std::array<char, 32> digits = {};
  std::snprintf(digits.data(), digits.size(), "%.6f s", static_cast<double>(nanoseconds) * 1e-9);
  return digits.data();
}

std::string_view state_text(MessageState state) {
  switch (state) {
    case MessageState::kQueued:
      return "not sent yet";
    case MessageState::kOffered:
      return "offered, not taken yet";
    case MessageState::kSending:
      return "is sent";
    case MessageState::kPosted:
      return "nothing has come";
    case MessageState::kReceiving:
      return "arrives";
    case MessageState::kFree:
    case MessageState::kDone:
    case MessageState::kFailed:
      break;
  }
  return "ended";
}

}  // namespace

std::string Messenger::spelled(Tag tag) const {
  return options_.describe ? options_.describe(tag) : text("match ", tag.match);
}

std::string Messenger::line_of(const FlightRecord& record, std::int64_t now_ns) const {
  std::string line = text("  ", record.number, ": ");
  if (record.kind != FlightKind::kCollective) {
    line += text(record.kind == FlightKind::kSend ? "send to " : "recv from ", name_of(record.peer),
                 ", ");
  }
  line += text(spelled(record.tag), ": ", hethub::name_of(record.state), ", ", record.done, " of ",
               record.bytes, " bytes, began ", seconds_text(now_ns - record.begin_ns), " ago");
  if (record.end_ns > 0) line += ", took " + seconds_text(record.end_ns - record.begin_ns);
  return line + '\n';
}

// Precondition: the lock is held.
std::string Messenger::messages_under_way() const {
  std::string all;
  for (const Message& message : table_.all()) {
    const std::string_view state = state_text(message.state);
    if (state == "ended") continue;
    all += text("  ", message.sends ? "to " : "from ", name_of(message.peer), ", ",
                spelled(message.tag), ": ", state, ", ", message.done, " of ", message.bytes,
                " bytes\n");
  }
  return all;
}

std::string Messenger::flight_text(std::size_t most) const {
  std::vector<FlightRecord> records = recorder_.records();
  if (records.size() > most) {
    records.erase(records.begin(), records.end() - static_cast<std::ptrdiff_t>(most));
  }
  const std::int64_t now_ns = FlightRecorder::now_ns();
  std::string all =
      text("flight recorder of ", name_of(rank()), ", its last ", records.size(), " operations:\n");
  for (const FlightRecord& record : records) {
    all += line_of(record, now_ns);
  }
  const std::lock_guard lock(mutex_);
  const std::string messages = failure_ ? under_way_at_failure_ : messages_under_way();
  return all + text("messages under way", failure_ ? " when the job failed" : "",
                    messages.empty() ? ": none\n" : ":\n", messages);
}

}  // namespace hethub

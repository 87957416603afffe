// What a peer may send on a data connection, while this rank sends, receives and cancels: frames of
// any kind and content, bytes that are no frames, an end at any moment.

#include <algorithm>
#include <memory>
#include <vector>

#include "hethub/comm/connection.h"
#include "tests/fuzz/target.h"

namespace hethub {
namespace {

constexpr int kMessages = 12;
constexpr int kPeer = 1;
constexpr std::int64_t kSizes[] = {0,
                                   1,
                                   100,
                                   Connection::kEagerBytes,
                                   Connection::kEagerBytes + 1,
                                   Connection::kPartBytes,
                                   Connection::kPartBytes + 1};

// A wire whose far end is the fuzzer.
class FuzzedWire : public Wire {
 public:
  struct Far {
    std::vector<std::byte> to_read = {};
    std::size_t read = 0;
    std::size_t takes = 1 << 20;  // bytes of each write
    bool pulls = false;
    std::uint64_t stamp = 0;
    std::string end = {};
  };
  explicit FuzzedWire(Far& far) : far_(far) {}

  std::string_view name() const override { return "fuzzed"; }
  std::size_t write(std::span<const std::byte> first, std::span<const std::byte> second) override {
    // Reads all it is given, so that the sanitizers see it.
    for (const auto& part : {first, second}) {
      if (!part.empty()) found_ = std::memchr(part.data(), 0xa5, part.size());
    }
    return std::min(first.size() + second.size(), far_.takes);
  }
  std::size_t read(std::span<std::byte> to) override {
    const std::size_t size = std::min(to.size(), far_.to_read.size() - far_.read);
    std::copy_n(far_.to_read.begin() + static_cast<std::ptrdiff_t>(far_.read), size, to.begin());
    far_.read += size;
    return size;
  }
  bool can_pull() const override { return far_.pulls; }
  bool pull(const PeerMemory& /*from*/, std::span<std::byte> to, std::uint64_t& stamp) override {
    if (!far_.pulls) return false;
    std::fill(to.begin(), to.end(), std::byte{7});
    stamp = far_.stamp;
    return true;
  }
  void flush() override {}
  bool attend(bool) override { return false; }
  int descriptor() const override { return -1; }
  void awoken() override {}
  std::string_view end() const override { return far_.end; }

 private:
  Far& far_;
  const void* volatile found_ = nullptr;
};

class Job {
 public:
  Job() : connection_(std::make_unique<FuzzedWire>(far_), table_, kPeer) {
    memory_.resize(kMessages);
  }

  void run(FuzzInput& input) {
    while (!input.empty() && !over_) {
      act(input);
      connection_.pump();
      end_messages();
    }
  }

 private:
  void act(FuzzInput& input) {
    switch (input.take<std::uint8_t>() % 8) {
      case 0:
        return post(input, true);
      case 1:
        return post(input, false);
      case 2:
        return forget(input.take<std::uint8_t>() % kMessages);
      case 3:
        return deliver(input.take_bytes(input.take<std::uint8_t>()));
      case 4:
      case 5:
        return deliver_frame(input);
      case 6:
        far_.takes = input.take<std::uint8_t>() * std::size_t{500};
        far_.pulls = input.take<std::uint8_t>() % 2 != 0;
        return;
      case 7:
        return leave(input.take<std::uint8_t>());
    }
  }

  void post(FuzzInput& input, bool sends) {
    if (table_.full() || connection_.problem() != ConnectionProblem::kNone) return;
    const int index = table_.take();
    Message& message = table_.all()[static_cast<std::size_t>(index)];
    const std::int64_t bytes = input.pick(kSizes);
    auto& memory = memory_[static_cast<std::size_t>(index)];
    memory.assign(static_cast<std::size_t>(bytes), std::byte{1});
    memory.shrink_to_fit();
    message = {.peer = input.take<std::uint8_t>() % 8 == 0 ? kPeer + 1 : kPeer,
               .sends = sends,
               .tag = {.match = input.take<std::uint8_t>() % 3U, .check = 5},
               .data = memory.data(),
               .bytes = bytes,
               .generation = message.generation};
    if (message.peer != kPeer) {
      // Another connection's: nothing that comes here may touch it.
      message.state = sends ? MessageState::kOffered : MessageState::kReceiving;
      message.takes_parts = true;
      return;
    }
    sends ? connection_.start_send(index) : connection_.start_recv(index);
  }

  void forget(int index) {
    Message& message = table_.all()[static_cast<std::size_t>(index)];
    if (message.state == MessageState::kFree) return;
    const bool ended =
        message.state == MessageState::kDone || message.state == MessageState::kFailed;
    if (!ended && message.peer == kPeer) connection_.cancel(index);
    if (message.peer != kPeer) must(message.done == 0);
    table_.release(index);
    std::vector<std::byte>().swap(memory_[static_cast<std::size_t>(index)]);
  }

  void deliver(std::span<const std::byte> bytes) {
    far_.to_read.insert(far_.to_read.end(), bytes.begin(), bytes.end());
  }

  // One that has not ended, if there is one.
  int some_message(int wanted) const {
    for (int index = 0; index < kMessages; ++index) {
      const int about = (wanted + index) % kMessages;
      if (table_.all()[static_cast<std::size_t>(about)].state != MessageState::kFree) return about;
    }
    return 0;
  }

  // What an honest peer could say next of it.
  static FrameKind next_kind(const Message& message, unsigned which) {
    switch (message.state) {
      case MessageState::kPosted:
        return message.bytes > Connection::kEagerBytes ? FrameKind::kOffer : FrameKind::kEager;
      case MessageState::kReceiving:
        return which % 8 == 0 ? FrameKind::kGone : FrameKind::kPart;
      case MessageState::kOffered:
        return which % 2 == 0 ? FrameKind::kClear : FrameKind::kPulled;
      default:
        return FrameKind::kCredit;
    }
  }

  void deliver_frame(FuzzInput& input) {
    constexpr std::uint8_t kOdd = 16;  // one frame of so many says what no honest one would
    const int about = some_message(input.take<std::uint8_t>());
    const Message& message = table_.all()[static_cast<std::size_t>(about)];
    const auto how = input.take<std::uint8_t>();
    const auto kind = input.take<std::uint8_t>();
    Frame frame;
    frame.kind = kind < 64 ? static_cast<FrameKind>(kind % 12) : next_kind(message, kind);
    frame.match = how % 4 == 0 ? input.take<std::uint8_t>() % 3U : message.tag.match;
    frame.check = how % kOdd == 1 ? 6 : 5;
    frame.bytes = how % 4 != 2 && frame.kind != FrameKind::kPart
                      ? static_cast<std::uint64_t>(message.bytes)
                      : static_cast<std::uint64_t>(input.pick(kSizes));
    if (how % kOdd == 3) frame.bytes = input.take<std::uint64_t>();
    frame.id = how % kOdd == 5 ? input.take<std::uint64_t>() : table_.handle_of(about).id();
    frame.memory.data = how % 8 < 6 ? 1 : 0;
    far_.stamp = how % kOdd == 7 ? 0 : frame.id;
    deliver(std::as_bytes(std::span(&frame, 1)));
    const std::vector<std::byte> payload(
        std::min<std::uint64_t>(frame.bytes, Connection::kPartBytes), std::byte{9});
    const bool has_payload = frame.kind == FrameKind::kEager || frame.kind == FrameKind::kPart ||
                             frame.kind == FrameKind::kAbort;
    if (has_payload) deliver(std::span(payload).first(cut(input, payload.size())));
  }

  static std::size_t cut(FuzzInput& input, std::size_t size) {
    return input.take<std::uint8_t>() % 8 == 0 ? size / 2 : size;
  }

  void leave(std::uint8_t how) {
    if (how % 8 == 0) connection_.say_goodbye();
    if (how % 8 == 1) connection_.abort("failed");
    if (how % 8 == 2) far_.end = "closed";
  }

  // What the messenger does: ended messages give their memory back, a problem fails all.
  void end_messages() {
    const bool failed = connection_.problem() != ConnectionProblem::kNone;
    for (int index = 0; index < kMessages; ++index) {
      const Message& message = table_.all()[static_cast<std::size_t>(index)];
      must(message.done >= 0 && message.done <= message.bytes);
      if (message.state == MessageState::kDone || failed) forget(index);
    }
    far_.to_read.erase(far_.to_read.begin(),
                       far_.to_read.begin() + static_cast<std::ptrdiff_t>(far_.read));
    far_.read = 0;
    if (connection_.dead()) over_ = true;
  }

  FuzzedWire::Far far_ = {};
  MessageTable table_{kMessages};
  std::vector<std::vector<std::byte>> memory_ = {};
  Connection connection_;
  bool over_ = false;
};

}  // namespace
}  // namespace hethub

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  hethub::FuzzInput input(data, size);
  hethub::Job().run(input);
  return 0;
}

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hethub/comm/message.h"
#include "hethub/comm/wire.h"

namespace hethub {

enum class FrameKind : std::uint32_t {
  kEager = 1,    ///< a small message, whole: match, check, bytes; then the bytes
  kOffer,        ///< a large message: match, check, bytes, id of the sender's end, where it lies
  kClear,        ///< the receiver has a place: id of the sender's end, match = the receiver's id
  kPart,         ///< the next bytes of an offered message: id of the receiver's end, bytes
  kGone,         ///< the sender gave it up: id of the receiver's end
  kCredit,       ///< the receiver has room for `bytes` more messages
  kAbort,        ///< the job failed: bytes of text
  kGoodbye,      ///< this rank will send no more
  kGoodbyeSeen,  ///< all before the goodbye has been read
  kPulled,       ///< the receiver has copied an offered message itself: id of the sender's end
};

inline constexpr std::uint32_t kFrameMagic = 0x42485448;  // "HTHB"

/// What precedes every message on a wire, in the byte order of the machine (little-endian: the
/// handshake refuses others).
struct Frame {
  FrameKind kind = FrameKind::kEager;
  std::uint32_t magic = kFrameMagic;
  std::uint64_t match = 0;
  std::uint64_t check = 0;
  std::uint64_t bytes = 0;
  std::uint64_t id = 0;
  PeerMemory memory = {};  ///< of an offer between processes of one system
};
static_assert(sizeof(Frame) == 56);

/// Why a connection can go no further.
enum class ConnectionProblem : std::uint8_t {
  kNone,
  kLost,       ///< the peer is gone without a goodbye
  kMalformed,  ///< the peer sent what is no frame
  kMismatch,   ///< the peer sent another message than the one expected
  kGivenUp,    ///< the peer cancelled a message that this rank waits for
  kTold,       ///< the peer says that the job failed; `detail` is its text
};

/// The messages between this rank and one peer, over a wire: frames, order, matching, and a fixed
/// store for messages that come before they are asked for. A message up to kEagerBytes is sent at
/// once; a larger one is offered. When the receiver has a place for it, it copies it from the
/// sender's memory where the wire can, or lets the sender send it. The sender keeps
/// count of the room in the receiver's store, so that reading never stops and no message stands in
/// the way of another. Never blocks.
///
/// Threads: one at a time (the Messenger's lock).
class Connection {
 public:
  static constexpr std::int64_t kEagerBytes = 8192;
  static constexpr std::int64_t kPartBytes = std::int64_t{256} * 1024;
  /// Copied at once from the peer's memory; other callers wait for the lock so long.
  static constexpr std::int64_t kPullBytes = std::int64_t{256} * 1024;
  static constexpr std::size_t kMostAbortText = 2048;
  /// Messages that a peer may send before they are asked for, and how many of them are taken before
  /// the sender hears of it.
  static constexpr int kStored = 128;
  static constexpr int kCreditStep = 32;

  /// `peer` is the rank that the wire leads to: the messages that are its business say so. Most of
  /// the memory is not touched, and so not there, before the peer sends what nobody has asked for.
  Connection(std::unique_ptr<Wire> wire, MessageTable& table, int peer);

  void start_send(int index);
  void start_recv(int index);

  /// After it the message's memory is no longer touched.
  void cancel(int index);

  void abort(std::string_view text);
  void say_goodbye();

  /// Reads and writes what can be without waiting.
  void pump();

  /// Whether the next pump() has more to copy.
  bool busy() const { return !pulls_.empty(); }

  Wire& wire() { return *wire_; }
  ConnectionProblem problem() const { return problem_; }
  const std::string& detail() const { return detail_; }
  Tag expected() const { return mismatch_expected_; }
  Tag found() const { return mismatch_found_; }
  std::int64_t expected_bytes() const { return expected_bytes_; }
  std::int64_t found_bytes() const { return found_bytes_; }
  bool left() const { return left_; }
  bool goodbye_seen() const { return goodbye_seen_; }
  bool dead() const { return dead_; }
  /// How many messages have completed; grows.
  std::uint64_t completed() const { return completed_; }

 private:
  // A message that came before its receive was posted.
  struct Arrival {
    Frame frame = {};
    bool complete = false;
    int claimed_by = -1;
  };
  // What the bytes after a frame belong to.
  struct Incoming {
    Frame frame = {};
    std::size_t frame_bytes = 0;
    bool begun = false;
    std::int64_t left = 0;
    std::byte* to = nullptr;  // null: thrown away
    int message = -1;
    int arrival = -1;
  };
  struct Outgoing {
    Frame frame = {};
    std::size_t frame_bytes = 0;
    bool active = false;
    std::int64_t left = 0;
    std::int64_t size = 0;
    const std::byte* from = nullptr;
    int message = -1;
  };

  // The message of a peer's id, if it is one between this rank and that peer.
  Message* find(std::uint64_t id);
  Message& message(int index) { return table_.all()[static_cast<std::size_t>(index)]; }
  std::byte* store_of(int arrival) { return store_.get() + arrival * kEagerBytes; }
  void finish(int index);
  void fail(ConnectionProblem problem, std::string detail);
  bool agrees(const Message& wanted, const Frame& frame);
  Frame* control_frame(std::size_t at) { return reinterpret_cast<Frame*>(control_.get()) + at; }
  void push_control(Frame frame);

  bool read_frames();
  bool read_payload();
  void begin_frame();
  void begin_eager(const Frame& frame);
  void begin_offer(const Frame& frame);
  void begin_part(const Frame& frame);
  void begin_clear(const Frame& frame);
  void begin_gone(const Frame& frame);
  void begin_pulled(const Frame& frame);
  void take_offer(int index, const Frame& frame);
  void ask_for_parts(int index);
  void pull();
  void end_payload();
  int keep(const Frame& frame);
  void forget(int arrival);
  void give_credit();

  void write_frames();
  bool next_frame();
  void next_part(int index);
  void end_frame();

  std::unique_ptr<Wire> wire_;
  MessageTable& table_;
  int peer_;

  MessageQueue posted_;
  MessageQueue pulls_;
  std::vector<Arrival> arrivals_;
  std::unique_ptr<std::byte[]> store_;
  std::vector<int> arrival_order_;
  std::vector<int> free_arrivals_;
  Incoming in_ = {};

  int credit_ = kStored;  // messages that the peer has room for
  int owed_ = 0;          // messages taken, of which the peer has not heard
  std::size_t control_size_ = 0;
  std::unique_ptr<std::byte[]> control_;  // a ring of so many frames to write
  std::size_t control_begin_ = 0;
  std::size_t control_count_ = 0;
  MessageQueue outgoing_;
  MessageQueue parts_;
  Outgoing out_ = {};
  std::unique_ptr<std::byte[]> spare_;  // the rest of a cancelled send; what is thrown away
  std::string abort_text_ = {};         // to send
  bool abort_pending_ = false;
  std::string told_ = {};  // arriving

  ConnectionProblem problem_ = ConnectionProblem::kNone;
  std::string detail_ = {};
  Tag mismatch_expected_ = {};
  Tag mismatch_found_ = {};
  std::int64_t expected_bytes_ = 0;
  std::int64_t found_bytes_ = 0;
  bool dead_ = false;        // nothing more can be read or written
  bool discarding_ = false;  // what arrives unasked is thrown away
  bool left_ = false;
  bool goodbye_seen_ = false;
  std::uint64_t completed_ = 0;
};

}  // namespace hethub

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hethub/base/dtype.h"
#include "hethub/base/host_pages.h"
#include "hethub/base/reduction.h"
#include "hethub/collective/algorithm.h"
#include "hethub/collective/interpreter.h"
#include "hethub/comm/device_port.h"
#include "hethub/comm/messenger.h"
#include "hethub/comm/request.h"

namespace hethub {

/// The memory that a run of a collective works on, with the sizes that it was prepared for.
struct CollectiveMemory {
  View data = {};
  View scratch = {};
  View input = {};  ///< of algorithms that have one
};

/// A collective made ready to run any number of times by one member of a group: its steps, where
/// its chunks lie, and its additions prepared on the device. Made by Communicator::prepare.
/// Destroying it while it runs cancels it; either way it waits for the device to be done with what
/// it queued. Threads: that of the port's queue.
class PreparedCollective : private StepActions, private Progressing, private Pending {
 public:
  /// What Communicator::prepare gives.
  struct Options {
    const CollectiveAlgorithm* algorithm = nullptr;
    const ChunkTable* table = nullptr;
    DType dtype = DType::kF32;
    Reduction reduction = Reduction::kSum;
    int rank = 0;                       ///< of this member
    std::vector<int> world_ranks = {};  ///< of all members
    DevicePort* port = nullptr;
    std::uint64_t check = 0;  ///< of its messages
  };
  explicit PreparedCollective(const Options& options);
  virtual ~PreparedCollective();
  PreparedCollective(const PreparedCollective&) = delete;
  PreparedCollective& operator=(const PreparedCollective&) = delete;

  const std::string& name() const { return name_; }

  /// What it must be given.
  std::int64_t data_bytes() const { return layout_.data_elements() * element_bytes_; }
  std::int64_t input_bytes() const { return layout_.input_elements() * element_bytes_; }
  std::int64_t scratch_bytes() const { return layout_.scratch_elements() * element_bytes_; }

  /// What this member sends in a run.
  std::int64_t bytes_sent() const { return bytes_sent_; }

  bool running() const { return running_; }

 private:
  friend class Communicator;
  enum class MessageStage : std::uint8_t { kNone, kUnderWay, kEnded };
  struct StepMessage {
    MessageStage stage = MessageStage::kNone;
    Handle handle = {};
    std::byte* staging = nullptr;
    int room_after = -1;  // the message whose staging memory it takes over
  };

  void prepare_additions(const Options& options);
  void place_messages();
  Request start(const CollectiveMemory& memory, Tag tag, Operation operation);

  bool send(int step) override;
  bool recv(int step) override;
  bool ended(int step) override;
  void reduce(int step) override;
  void copy(int step) override;
  bool advance() override;
  bool test(int index) override;
  void wait(int index, Deadline deadline) override;
  void cancel(int index) noexcept override;

  const Step& at(int step) const { return steps_[static_cast<std::size_t>(step)]; }
  StepMessage& message(int step) { return messages_[static_cast<std::size_t>(step)]; }
  View view_of(const Slot& slot) const;
  std::int64_t message_bytes(int step) const;
  bool has_room(int step);
  bool device_idle();
  bool settled(int step);
  void note_work(int step);
  void mark_ended(int step);
  void wait_for_one(Deadline deadline);
  void finish(FlightState state);
  void fail(const Error& error) noexcept;

  std::string name_;
  std::vector<Step> steps_;  // of this member
  StepOrder order_;
  SlotLayout layout_;
  DevicePort* port_;
  std::vector<int> world_ranks_;
  std::int64_t element_bytes_ = 0;
  std::int64_t bytes_sent_ = 0;
  std::int64_t bytes_moved_ = 0;  // sent and received
  std::uint64_t check_ = 0;
  std::vector<PreparedOp*> additions_ = {};  // for each step; null unless it reduces
  std::vector<std::unique_ptr<PreparedOp>> owned_additions_ = {};
  std::vector<StepMessage> messages_ = {};  // for each step
  HostPages staging_ = {};
  std::unique_ptr<Event> event_ = {};

  // Of the run under way.
  std::optional<Interpreter> interpreter_ = {};
  CollectiveMemory memory_ = {};
  Tag tag_ = {};
  Operation operation_ = {};
  std::uint64_t flight_ = 0;  // in the recorder
  bool running_ = false;
  int room_wanted_ = -1;   // the message that must end before the next step can begin
  int downloading_ = -1;   // the send whose bytes are on their way to the host
  int last_work_ = -1;     // the last step that queued work
  int recorded_ = -2;      // last_work_ when the event was recorded; -2: it was not since then
  int idle_through_ = -2;  // the device has done all work up to this step; -2: not what was before
};

}  // namespace hethub

#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "hethub/base/deadline.h"
#include "hethub/base/descriptor.h"
#include "hethub/base/error.h"
#include "hethub/comm/control_inbox.h"
#include "hethub/comm/message.h"

namespace hethub {

struct ControlOptions {
  int rank = 0;
  std::vector<std::string> hosts = {};  ///< of each rank; its size is the world size
  double heartbeat_s = 0.5;             ///< between two signs of life
  double suspect_s = 2;                 ///< a rank that is silent for so long is suspect
  double peer_timeout_s = 30;           ///< and is given up after so long
  /// Told about suspects, in a sentence for people. Called on a thread of its own.
  std::function<void(const std::string& sentence)> on_notice = {};
};

/// The control connections of a job, a star around rank 0, apart from the data: signs of life, the
/// one verdict on what the first failure was, and a barrier that needs no other connection.
///
/// Each end says every `heartbeat_s` that it lives. One that says nothing becomes suspect, and is
/// named to all ranks; after `peer_timeout_s` it is given up. The first failure that rank 0 sees or
/// is told is the verdict for all ranks. If rank 0 itself is lost each rank finds so by itself.
///
/// Threads: any; it has one of its own, which sleeps but for the signs of life.
class Control {
 public:
  /// `links[rank]` leads to that rank: from rank 0 to all others, from them to rank 0.
  Control(ControlOptions options, std::vector<Descriptor> links);

  /// Says goodbye: whoever leaves so has not failed.
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  /// From now on `on_verdict` is called once, on the thread, when the job has failed.
  void start(std::function<void(const Error& verdict)> on_verdict);

  struct Reported {
    std::optional<Error> verdict = {};  ///< if it is known already
    bool to_come = false;               ///< otherwise: on_verdict will be called soon
  };

  /// Says what this rank takes for the failure, and which collective it had under way, if one.
  Reported report(const Error& error, Tag under_way = {});

  /// Whether rank 0 can still decide, or has yet to.
  bool verdict_to_come() const;

  /// "rank 2 (host b) silent for 3.1 s", of all suspects; empty: there are none.
  std::string suspects() const;

  /// Waits until all ranks have called it. Throws the verdict; kTimeout, which on rank 0 names the
  /// ranks that have not come.
  void barrier(Deadline deadline);

 private:
  struct Link {
    Descriptor socket = {};
    Deadline heard = {};
    bool suspect = false;
    bool left = false;  // said goodbye
    bool gone = false;  // the connection has ended without one
    std::uint64_t arrived = 0;
    std::string out = {};
    ControlInbox in = {};
  };
  using Lock = std::unique_lock<std::mutex>;
  // So long the first news of a failure waits for a rank that can say more of it.
  static constexpr double kBetterReportSeconds = 0.05;
  // And so long a mismatch waits for all ranks to say what they meant.
  static constexpr double kAllMeantSeconds = 0.5;

  static std::string tenths(double seconds);
  bool may_come() const;
  std::string name_of(int rank) const;
  bool watched(const Link& link) const { return link.socket.valid() && !link.left && !link.gone; }
  void run();
  void tick();
  void forgive_own_sleep(Deadline now);
  void watch(int rank, Deadline now);
  void read(int rank);
  bool take_frames(int rank);
  void take(int rank, const ControlFrame& frame, const std::string& text);
  void say(int rank, ControlFrame frame, const std::string& text = {});
  void say_to_all(const ControlFrame& frame, const std::string& text = {});
  void flush(int rank);
  void lose(int rank, const std::string& why);
  void set_suspect(int rank, double silent_s);
  void release_arrived();

  // control_verdict.cpp
  void consider(const Error& error, int rank, Tag under_way);
  void consider_report(int rank, const std::string& text);
  void decide(const Error& error);
  std::string what_all_meant() const;
  void wake() const;

  ControlOptions options_;
  std::vector<Link> links_;
  std::function<void(const Error&)> on_verdict_ = {};
  std::optional<Error> verdict_ = {};
  bool told_ = false;                   // on_verdict has been called
  std::optional<Error> probable_ = {};  // what the end of a connection says, if nobody says more
  Deadline probable_until_ = {};
  std::map<int, Tag> meant_ = {};  // by rank: the collective it had under way when it failed
  std::vector<std::pair<int, double>> suspects_ = {};  // rank, seconds of silence
  std::vector<std::string> notices_ = {};
  std::uint64_t barrier_ = 0;  // of this rank
  std::uint64_t released_ = 0;
  Deadline next_tick_ = {};
  bool closing_ = false;
  Descriptor epoll_;
  Descriptor wake_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::thread thread_;
};

}  // namespace hethub

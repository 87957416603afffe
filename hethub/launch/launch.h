#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hethub {

/// One rank to start on this host.
struct RankCommand {
  int rank = 0;
  std::string label = {};              ///< what follows the number in its lines: its kind
  std::vector<std::string> argv = {};  ///< program and arguments; found by PATH
  std::vector<int> cores = {};         ///< cores it is bound to before it starts; empty: all
};

struct LaunchOptions {
  std::vector<RankCommand> ranks = {};
  int world_size = 0;  ///< 0: the number of `ranks`
  std::string master_address = "127.0.0.1";
  int master_port = 0;      ///< 0: one that is free, which needs all ranks here
  std::string secret = {};  ///< empty: 32 fresh random bytes, which needs all ranks here
  std::filesystem::path log_dir =
      {};              ///< each rank's output goes to DIR/rank-N.log; empty: nowhere
  double grace_s = 5;  ///< after the first failure the others have this long to end by themselves,
                       ///< then as long after SIGTERM; then they are killed
  /// Called with each line of output, with "[rank 1 opencl] " before it.
  std::function<void(std::string_view line, bool is_error)> on_line = {};
};

/// How a rank ended.
struct RankEnd {
  int rank = 0;
  std::string label = {};
  int exit_status = 0;   ///< -1 if a signal ended it
  int signal = 0;        ///< 0 if it ended by itself
  bool told_to = false;  ///< only after this launcher had asked or made it end
  std::string last_error_line = {};

  bool failed() const { return exit_status != 0; }

  /// "rank 1 (opencl) was killed by signal 9 (Killed); its last error: ...".
  std::string text() const;
};

struct LaunchResult {
  int exit_status =
      0;  ///< of the first failure; 128 + the signal, if one ended it; 0: all went well
  int interrupted_by = 0;  ///< SIGINT or SIGTERM, if one told the launcher to end its ranks before
                           ///< any had failed; exit_status is then 128 + the signal
  int master_port = 0;
  std::vector<RankEnd> ends = {};  ///< in the order in which they ended
  std::optional<RankEnd> first_failure = {};
};

/// Starts the ranks with torchrun's variables, the same under HETHUB_ names, and HETHUB_SECRET in
/// their environment, passes on
/// their output and the signals SIGINT, SIGTERM and SIGUSR1, and returns when all have ended. When
/// one fails, the others are ended. Each rank is a process group of its own; none outlives the
/// launcher, however it ends.
///
/// A rank that ends with status 69 says that it lost another; the first failure is then the other.
/// Throws kUnavailable if the port is in use, kInvalidArgument if there are no ranks,
/// kInvalidConfig if some ranks of several hosts have no port or no secret,
/// kCannotWrite if a log cannot be written. Call it while the process has one thread.
LaunchResult run_ranks(const LaunchOptions& options);

}  // namespace hethub

#include "hethub/launch/launch.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>

#include <poll.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "hethub/base/deadline.h"
#include "hethub/base/error.h"
#include "hethub/comm/tcp/socket.h"
#include "hethub/launch/child.h"

namespace hethub {
namespace {

// With it a rank says that another is gone (DESIGN: exit status).
constexpr int kPeerLost = 69;

std::string fresh_secret() {
  std::array<unsigned char, 32> bytes = {};
  if (::getrandom(bytes.data(), bytes.size(), 0) != std::ssize(bytes)) {
    throw Error(ErrorCode::kInternal, {.what = "random bytes for the ranks' secret",
                                       .found = std::strerror(errno),
                                       .expected = "32 bytes from the system",
                                       .fix = "set HETHUB_SECRET"});
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string secret;
  for (const unsigned char byte : bytes) {
    secret += kDigits[byte >> 4U];
    secret += kDigits[byte & 15U];
  }
  return secret;
}

// The signals that a launcher acts on, held back and read from a descriptor instead.
class Signals {
 public:
  Signals() {
    sigset_t wanted;
    ::sigemptyset(&wanted);
    for (const int signal : {SIGINT, SIGTERM, SIGCHLD, SIGUSR1}) {
      ::sigaddset(&wanted, signal);
    }
    ::pthread_sigmask(SIG_BLOCK, &wanted, &before_);
    descriptor_ = Descriptor(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  ~Signals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  int descriptor() const { return descriptor_.get(); }

  /// The next one that came, or 0.
  int next() {
    signalfd_siginfo info = {};
    const ssize_t got = ::read(descriptor_.get(), &info, sizeof info);
    return got == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
  }

 private:
  sigset_t before_ = {};
  Descriptor descriptor_;
};

struct Running {
  RankCommand command = {};
  Child child;
  std::ofstream log = {};
  std::string last_error_line = {};
  bool ended = false;
};

class Launch {
 public:
  explicit Launch(const LaunchOptions& options) : options_(options) {}

  ~Launch() { kill_all(SIGKILL); }
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  LaunchResult run() {
    check_options();
    choose_port();
    const std::string secret = options_.secret.empty() ? fresh_secret() : options_.secret;
    for (std::size_t local = 0; local < options_.ranks.size(); ++local) {
      start(local, secret);
    }
    while (!all_ended()) {
      wait();
      read_output();
      take_signals();
      reap();
      press();
    }
    drain();
    choose_first_failure();
    return std::move(result_);
  }

 private:
  int world_size() const {
    return options_.world_size > 0 ? options_.world_size : static_cast<int>(options_.ranks.size());
  }

  void check_options() const {
    require(!options_.ranks.empty(), {.what = "launch: ranks",
                                      .found = "none",
                                      .expected = "one or more",
                                      .fix = "name the ranks of this host"});
    const bool all_here = static_cast<int>(options_.ranks.size()) == world_size();
    if (all_here || (options_.master_port > 0 && !options_.secret.empty())) return;
    throw Error(ErrorCode::kInvalidConfig,
                {.what = "launch: some ranks of the job on this host",
                 .found = options_.master_port > 0 ? "no secret" : "no port",
                 .expected = "an address, a port and a secret, alike on all hosts",
                 .fix = "give --master-addr and --port, and set HETHUB_SECRET_FILE"});
  }

  // A port in use is refused before any rank starts.
  void choose_port() {
    result_.master_port = options_.master_port;
    const bool here = std::any_of(options_.ranks.begin(), options_.ranks.end(),
                                  [](const RankCommand& command) { return command.rank == 0; });
    if (!here) return;
    const Descriptor probe = listen_at(options_.master_address, options_.master_port);
    result_.master_port = local_address(probe.get()).port;
  }

  void start(std::size_t local, const std::string& secret) {
    const RankCommand& command = options_.ranks[local];
    std::ofstream log;
    if (!options_.log_dir.empty()) {
      std::error_code failed;
      std::filesystem::create_directories(options_.log_dir, failed);
      const auto file = options_.log_dir / ("rank-" + std::to_string(command.rank) + ".log");
      log.open(file, std::ios::trunc);
      if (!log) {
        throw Error(ErrorCode::kCannotWrite, {.what = file.string(),
                                              .found = std::strerror(errno),
                                              .expected = "a file that can be written",
                                              .fix = "choose another --log-dir"});
      }
    }
    running_.push_back({.command = command,
                        .child = start_child(command, variables_of(local, secret)),
                        .log = std::move(log)});
  }

  // Under torchrun's names for any program, and under our own, which go before whatever another
  // launcher has left in this process's environment.
  Variables variables_of(std::size_t local, const std::string& secret) const {
    Variables variables = {{"HETHUB_SECRET", secret}};
    for (const char* prefix : {"", "HETHUB_"}) {
      const auto set = [&](const char* name, const std::string& value) {
        variables[std::string(prefix) + name] = value;
      };
      set("RANK", std::to_string(options_.ranks[local].rank));
      set("WORLD_SIZE", std::to_string(world_size()));
      set("LOCAL_RANK", std::to_string(local));
      set("LOCAL_WORLD_SIZE", std::to_string(options_.ranks.size()));
      set("MASTER_ADDR", options_.master_address);
      set("MASTER_PORT", std::to_string(result_.master_port));
    }
    return variables;
  }

  bool all_ended() const { return result_.ends.size() == running_.size(); }

  void wait() const {
    std::vector<pollfd> polled = {{.fd = signals_.descriptor(), .events = POLLIN, .revents = 0}};
    for (const Running& rank : running_) {
      for (const LineReader* reader : {&rank.child.output, &rank.child.errors}) {
        if (reader->open()) {
          polled.push_back({.fd = reader->descriptor(), .events = POLLIN, .revents = 0});
        }
      }
    }
    int milliseconds = 1000;
    if (pressing_) {
      const auto left = press_at_ - std::chrono::steady_clock::now();
      const auto whole = std::chrono::duration_cast<std::chrono::milliseconds>(left).count();
      milliseconds = static_cast<int>(std::clamp<std::int64_t>(whole + 1, 0, 1000));
    }
    ::poll(polled.data(), polled.size(), milliseconds);
  }

  void read_output() {
    for (Running& rank : running_) {
      rank.child.output.read([&](std::string_view line) { pass_on(rank, line, false); });
      rank.child.errors.read([&](std::string_view line) { pass_on(rank, line, true); });
    }
  }

  void pass_on(Running& rank, std::string_view line, bool is_error) {
    if (rank.log.is_open()) rank.log << line << '\n' << std::flush;
    if (is_error && !line.empty()) rank.last_error_line = line;
    if (!options_.on_line) return;
    const std::string& label = rank.command.label;
    options_.on_line(text("[rank ", rank.command.rank, label.empty() ? "" : " ", label, "] ", line),
                     is_error);
  }

  void take_signals() {
    for (int signal = signals_.next(); signal != 0; signal = signals_.next()) {
      if (signal == SIGCHLD) continue;
      kill_all(signal);
      if (signal == SIGUSR1) continue;  // they say what they do, and go on
      told_to_ = true;
      if (!pressing_) result_.interrupted_by = signal;
      begin_pressing();
    }
  }

  void reap() {
    for (Running& rank : running_) {
      int status = 0;
      if (rank.ended || ::waitpid(rank.child.process, &status, WNOHANG) <= 0) continue;
      rank.ended = true;
      // What it said last is in the pipe by now.
      rank.child.output.read([&](std::string_view line) { pass_on(rank, line, false); });
      rank.child.errors.read([&](std::string_view line) { pass_on(rank, line, true); });
      const bool by_signal = WIFSIGNALED(status);
      result_.ends.push_back({.rank = rank.command.rank,
                              .label = rank.command.label,
                              .exit_status = by_signal ? -1 : WEXITSTATUS(status),
                              .signal = by_signal ? WTERMSIG(status) : 0,
                              .told_to = told_to_,
                              .last_error_line = rank.last_error_line});
      ::kill(-rank.child.process, SIGKILL);  // what it started and left behind
      if (result_.ends.back().failed()) begin_pressing();
    }
  }

  void begin_pressing() {
    if (pressing_) return;
    pressing_ = true;
    press_at_ = after_seconds(options_.grace_s);
  }

  // Ends the ranks that are left: first asks, then kills.
  void press() {
    if (!pressing_ || std::chrono::steady_clock::now() < press_at_) return;
    kill_all(asked_ ? SIGKILL : SIGTERM);
    asked_ = true;
    told_to_ = true;
    press_at_ = after_seconds(options_.grace_s);
  }

  void kill_all(int signal) const {
    for (const Running& rank : running_) {
      if (!rank.ended) ::kill(-rank.child.process, signal);
    }
  }

  // A process that a rank left behind may still hold the pipes; its output is not waited for.
  void drain() { read_output(); }

  void choose_first_failure() {
    if (result_.interrupted_by > 0) {
      result_.exit_status = 128 + result_.interrupted_by;
      return;
    }
    const auto& ends = result_.ends;
    auto first = std::find_if(ends.begin(), ends.end(), [](const RankEnd& end) {
      return end.failed() && !end.told_to && end.exit_status != kPeerLost;
    });
    if (first == ends.end()) {
      first =
          std::find_if(ends.begin(), ends.end(), [](const RankEnd& end) { return end.failed(); });
    }
    if (first == ends.end()) return;
    result_.first_failure = *first;
    result_.exit_status = first->signal > 0 ? 128 + first->signal : first->exit_status;
  }

  const LaunchOptions& options_;
  Signals signals_;
  LaunchResult result_;
  std::vector<Running> running_;
  bool pressing_ = false;
  bool asked_ = false;
  bool told_to_ = false;
  Deadline press_at_ = {};
};

}  // namespace

std::string RankEnd::text() const {
  std::string all = hethub::text("rank ", rank);
  if (!label.empty()) all += hethub::text(" (", label, ")");
  if (signal > 0) {
    all += hethub::text(" was ended by signal ", signal, " (", ::sigdescr_np(signal), ")");
  } else {
    all += hethub::text(" ended with status ", exit_status);
  }
  if (!last_error_line.empty()) all += hethub::text("; its last error: ", last_error_line);
  return all;
}

LaunchResult run_ranks(const LaunchOptions& options) { return Launch(options).run(); }

}  // namespace hethub

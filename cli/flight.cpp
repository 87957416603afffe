#include "cli/flight.h"

#include <array>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <thread>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "cli/verb.h"
#include "hethub/base/descriptor.h"
#include "hethub/base/error.h"
#include "hethub/base/files.h"

namespace hethub {
namespace {

// A failure on many ranks is read on one screen.
constexpr std::size_t kFewOperations = 4;

sigset_t flight_signal() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGUSR1);
  return signals;
}

class FlightWriter {
 public:
  FlightWriter(const Messenger& messenger, const FlightOptions& options)
      : messenger_(messenger), options_(options) {}

  void write(std::size_t most_on_screen = FlightRecorder::kKept) const {
    if (options_.folder.empty()) {
      std::cerr << messenger_.flight_text(most_on_screen) << std::flush;
      return;
    }
    const std::filesystem::path folder = options_.folder;
    try {
      std::filesystem::create_directories(folder);
      write_file(folder / text("flight-rank-", messenger_.rank(), ".txt"),
                 messenger_.flight_text());
    } catch (const std::exception& error) {
      // What is being recorded matters more.
      std::cerr << text("hethub: flight recorder: ", error.what(), '\n') << std::flush;
    }
  }

 private:
  const Messenger& messenger_;
  const FlightOptions& options_;
};

// Writes at each SIGUSR1, on a thread of its own.
class FlightSignals {
 public:
  explicit FlightSignals(const FlightWriter& writer)
      : writer_(writer), end_(::eventfd(0, EFD_CLOEXEC)) {
    const sigset_t signals = flight_signal();
    signals_ = Descriptor(::signalfd(-1, &signals, SFD_CLOEXEC));
    thread_ = std::thread([this] { watch(); });
  }
  ~FlightSignals() {
    const std::uint64_t one = 1;
    static_cast<void>(::write(end_.get(), &one, sizeof one));
    thread_.join();
  }
  FlightSignals(const FlightSignals&) = delete;
  FlightSignals& operator=(const FlightSignals&) = delete;

 private:
  void watch() const {
    std::array<pollfd, 2> polled = {pollfd{.fd = signals_.get(), .events = POLLIN, .revents = 0},
                                    pollfd{.fd = end_.get(), .events = POLLIN, .revents = 0}};
    while (true) {
      const int ready = ::poll(polled.data(), polled.size(), -1);
      if (ready > 0 && polled[1].revents != 0) return;
      if (ready <= 0 || polled[0].revents == 0) continue;
      signalfd_siginfo info = {};
      if (::read(signals_.get(), &info, sizeof info) == sizeof info) writer_.write();
    }
  }

  const FlightWriter& writer_;
  Descriptor signals_;
  Descriptor end_;
  std::thread thread_;
};

}  // namespace

void hold_flight_signal() {
  const sigset_t signals = flight_signal();
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

void run_in_world(const RendezvousOptions& meeting, const FlightOptions& flight,
                  const std::function<void(Messenger&)>& body) {
  const auto messenger = join_world(meeting);
  const FlightWriter writer(*messenger, flight);
  const FlightSignals signals(writer);
  const auto fail = [&](const Error& error) {
    messenger->abort(error);
    if (messenger->world_size() > 1) writer.write(kFewOperations);
  };
  try {
    body(*messenger);
  } catch (const Error& error) {
    fail(error);
    throw;
  } catch (const std::exception& error) {
    fail(unexpected(error));
    throw;
  }
  if (flight.at_end) writer.write();
}

}  // namespace hethub

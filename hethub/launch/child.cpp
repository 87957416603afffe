#include "hethub/launch/child.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "hethub/base/error.h"

extern char** environ;  // NOLINT: POSIX names it so

namespace hethub {
namespace {

struct Pipe {
  Descriptor reads = {};
  Descriptor writes = {};
};

Pipe make_pipe() {
  std::array<int, 2> ends = {-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw Error(ErrorCode::kInternal, {.what = "a pipe for a rank's output",
                                       .found = std::strerror(errno),
                                       .expected = "two descriptors",
                                       .fix = "raise the limit of open files (ulimit -n)"});
  }
  return {.reads = Descriptor(ends[0]), .writes = Descriptor(ends[1])};
}

std::vector<std::string> environment_with(const Variables& variables) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view inherited = *entry;
    const std::string name(inherited.substr(0, inherited.find('=')));
    if (variables.count(name) == 0) all.emplace_back(inherited);
  }
  for (const auto& [name, value] : variables) {
    all.push_back(name + '=' + value);
  }
  return all;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& one : texts) {
    pointers.push_back(one.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

// All that the child needs, made before the fork: after it nothing may be allocated.
struct Prepared {
  std::vector<std::string> argv = {};
  std::vector<std::string> environment = {};
  std::vector<char*> argv_pointers = {};
  std::vector<char*> environment_pointers = {};
  cpu_set_t cores = {};
  bool bound = false;
  pid_t parent = -1;
  int output = -1;
  int errors = -1;
};

void write_text(const char* text) {
  if (::write(STDERR_FILENO, text, std::strlen(text)) < 0) return;
}

[[noreturn]] void become(const Prepared& prepared) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != prepared.parent) ::_exit(127);  // it ended before it could be watched
  ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
  ::dup2(prepared.output, STDOUT_FILENO);
  ::dup2(prepared.errors, STDERR_FILENO);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (prepared.bound && ::sched_setaffinity(0, sizeof prepared.cores, &prepared.cores) != 0) {
    write_text("hethub: launch: cannot bind this rank to its cores: ");
    write_text(::strerrordesc_np(errno));
    write_text("; see --cores\n");
    ::_exit(78);
  }
  ::execvpe(prepared.argv_pointers[0], prepared.argv_pointers.data(),
            prepared.environment_pointers.data());
  write_text("hethub: launch: cannot start ");
  write_text(prepared.argv_pointers[0]);
  write_text(": ");
  write_text(::strerrordesc_np(errno));
  write_text("\n");
  ::_exit(127);
}

}  // namespace

bool LineReader::fill() {
  std::array<char, 16384> bytes = {};
  const ssize_t got = ::read(pipe_.get(), bytes.data(), bytes.size());
  if (got > 0) {
    rest_.append(bytes.data(), static_cast<std::size_t>(got));
    return true;
  }
  if (got == 0 || (errno != EAGAIN && errno != EINTR)) pipe_.reset();
  return false;
}

Child start_child(const RankCommand& command, const Variables& variables) {
  Pipe output = make_pipe();
  Pipe errors = make_pipe();
  Prepared prepared{.argv = command.argv,
                    .environment = environment_with(variables),
                    .bound = !command.cores.empty(),
                    .parent = ::getpid(),
                    .output = output.writes.get(),
                    .errors = errors.writes.get()};
  prepared.argv_pointers = pointers_to(prepared.argv);
  prepared.environment_pointers = pointers_to(prepared.environment);
  CPU_ZERO(&prepared.cores);
  for (const int core : command.cores) {
    CPU_SET(static_cast<std::size_t>(core), &prepared.cores);
  }
  const pid_t process = ::fork();
  if (process == 0) become(prepared);
  if (process < 0) {
    throw Error(ErrorCode::kInternal, {.what = text("starting rank ", command.rank),
                                       .found = std::strerror(errno),
                                       .expected = "a new process",
                                       .fix = "raise the limit of processes (ulimit -u)"});
  }
  ::setpgid(process, process);  // here too, so that it has its group before the first kill
  ::fcntl(output.reads.get(), F_SETFL, O_NONBLOCK);
  ::fcntl(errors.reads.get(), F_SETFL, O_NONBLOCK);
  return {.process = process,
          .output = LineReader(std::move(output.reads)),
          .errors = LineReader(std::move(errors.reads))};
}

}  // namespace hethub

#include "hethub/accel/cpu/affinity.h"

#include <omp.h>
#include <pthread.h>
#include <sched.h>

#include "hethub/base/error.h"

namespace hethub {
namespace {

void check(int threads, const std::vector<int>& cores) {
  require(threads >= 1, {.what = "cpu: threads",
                         .found = text(threads),
                         .expected = "1 or more",
                         .fix = "give each rank at least one thread"});
  require(cores.empty() || cores.size() >= static_cast<std::size_t>(threads),
          {.what = "cpu: cores",
           .found = text(cores.size(), " cores for ", threads, " threads"),
           .expected = "a core for each thread, or none",
           .fix = "name more cores or lower the number of threads"});
  for (const int core : cores) {
    require(core >= 0 && core < CPU_SETSIZE, {.what = "cpu: cores",
                                              .found = text(core),
                                              .expected = text("0 to ", CPU_SETSIZE - 1),
                                              .fix = "use the numbers that `lscpu -e` prints"});
  }
}

// Returns whether the system allowed it.
bool bind_to(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  return pthread_setaffinity_np(pthread_self(), sizeof set, &set) == 0;
}

}  // namespace

Affinity::Affinity(int threads, std::vector<int> cores)
    : threads_(threads), cores_(std::move(cores)) {
  check(threads_, cores_);
}

void Affinity::apply() {
  if (applied_to_ == std::this_thread::get_id()) return;
  omp_set_num_threads(threads_);
  int refused = -1;
  if (!cores_.empty() && threads_ == 1) {
    if (!bind_to(cores_[0])) refused = cores_[0];
  } else if (!cores_.empty()) {
#pragma omp parallel num_threads(threads_) reduction(max : refused)
    {
      const int core = cores_[static_cast<std::size_t>(omp_get_thread_num())];
      if (!bind_to(core)) refused = core;
    }
  }
  require(refused < 0, {.what = "cpu: binding a thread to its core",
                        .found = text("core ", refused, ", which this process may not use"),
                        .expected = "a core of this machine and of the process's cpuset",
                        .fix = "choose from those that `taskset -p $$` prints"});
  applied_to_ = std::this_thread::get_id();
}

}  // namespace hethub

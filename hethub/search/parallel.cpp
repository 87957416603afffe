#include "hethub/search/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <vector>

namespace hethub {

void for_each_in_parallel(int count, const std::function<void(int)>& task) {
  std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(std::max(count, 0)));
  std::atomic<int> next{0};
  const auto work = [&] {
    for (int index = next++; index < count; index = next++) {
      try {
        task(index);
      } catch (...) {
        thrown[static_cast<std::size_t>(index)] = std::current_exception();
      }
    }
  };
  const int processors = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  std::vector<std::jthread> threads;
  for (int thread = 1; thread < std::min(processors, count); ++thread) {
    threads.emplace_back(work);
  }
  work();
  threads.clear();  // joins them
  for (const std::exception_ptr& one : thrown) {
    if (one) std::rethrow_exception(one);
  }
}

}  // namespace hethub

#pragma once

#include <cstdint>

#include <omp.h>

// Headers of kernels/ hold internal functions only: each is compiled for several processors, and
// the linker must never take one processor's copy for another's.
namespace hethub::HETHUB_LEVEL {
namespace {

/// Calls work(first, last, thread) on disjoint ranges that cover [0, count). Work that is too small
/// to share out stays on the calling thread.
template <typename Work>
inline void parallel_ranges(int threads, std::int64_t count, std::int64_t least_share,
                            const Work& work) {
  const std::int64_t shares = least_share > 0 ? count / least_share : count;
  const auto team = static_cast<int>(shares < threads ? shares : threads);
  if (team <= 1) {
    work(std::int64_t{0}, count, 0);
    return;
  }
#pragma omp parallel num_threads(team)
  {
    const std::int64_t thread = omp_get_thread_num();
    const std::int64_t size = omp_get_num_threads();
    work(count * thread / size, count * (thread + 1) / size, static_cast<int>(thread));
  }
}

/// The least number of rows of `width` elements that are worth a thread.
inline std::int64_t rows_worth_a_thread(std::int64_t width) {
  constexpr std::int64_t kElements = 8192;
  return width >= kElements ? 1 : kElements / (width > 0 ? width : 1);
}

}  // namespace
}  // namespace hethub::HETHUB_LEVEL

#pragma once

#include <thread>
#include <vector>

namespace hethub {

/// Sets up whichever thread computes: how many threads OpenMP gives it, and their cores.
class Affinity {
 public:
  Affinity(int threads, std::vector<int> cores);

  int threads() const { return threads_; }

  /// Makes the calling thread, and those OpenMP lends it, compute as the options say. Cheap when
  /// the thread did so the last time.
  void apply();

 private:
  int threads_;
  std::vector<int> cores_;
  std::thread::id applied_to_ = {};
};

}  // namespace hethub

#pragma once

#include <array>
#include <span>

#include "hethub/base/deadline.h"
#include "hethub/base/descriptor.h"

namespace hethub {

/// Where one thread at a time sleeps until one of many descriptors has something or takes
/// something, or until another thread wakes it. A descriptor may be watched from several places:
/// the first of them, by the order of `watch`, in which a thread sleeps is then told, the others
/// are not; of a descriptor that is itself an epoll, all are told.
///
/// Threads: one in `sleep`, any in `wake`.
class SleepingPlace {
 public:
  /// The numbers of the descriptors that have something; see `sleep`.
  using Numbers = std::array<int, 64>;

  SleepingPlace();

  /// From now on `sleep` gives `number` when `descriptor` has something. Throws kInternal if the
  /// system refuses.
  void watch(int descriptor, int number);

  /// Sleeps until there is something, somebody wakes it or `until`; one in the past only looks.
  /// Gives what there is, the front of `into`; what did not fit is given by the next call.
  std::span<const int> sleep(Numbers& into, Deadline until) const;

  /// Ends the sleep there, or the next one.
  void wake() const;

 private:
  Descriptor epoll_;
  Descriptor wake_;
};

}  // namespace hethub

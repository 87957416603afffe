#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hethub/accel/backend.h"
#include "hethub/base/deadline.h"
#include "hethub/op/op.h"

namespace hethub {

// What backends do alike. `backend` is how their messages begin: "opencl", "torch", ...

/// Throws kUnsupported for an op that a backend cannot run, naming the op and its kind.
[[noreturn]] void refuse_op(std::string_view backend, const Op& op, std::string found,
                            std::string expected, std::string fix);

/// Binds the calling thread, and those it starts later, to these cores; to none if there are none.
/// Throws kInvalidArgument if there is no such core, or the system refuses.
void bind_to_cores(std::string_view backend, const std::vector<int>& cores);

/// Asks `event` until it is done, for devices whose own wait has no deadline: a few times at once
/// for work that is nearly done, then giving the core away, then in sleeps that are short beside
/// what has been waited, since each one interrupts the work where the device shares its cores with
/// the host. Throws kTimeout at the deadline, with `fix`.
void wait_until_done(std::string_view backend, Event& event, Deadline deadline, std::string fix);

}  // namespace hethub

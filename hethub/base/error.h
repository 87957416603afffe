#pragma once

#include <concepts>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "hethub/base/text.h"

namespace hethub {

/// The kinds of failure a caller can tell apart. Only `cli/` turns a code into an exit status.
enum class ErrorCode : std::uint8_t {
  kInvalidArgument,  ///< the caller broke a documented precondition
  kUsage,            ///< the command line is wrong
  kInvalidConfig,    ///< a model, cluster or job file says what cannot be
  kInvalidPlan,      ///< a plan contradicts the model, the cluster or itself
  kDeadlock,         ///< every participant waits for another
  kOutOfMemory,      ///< a device cannot hold what it was asked to hold
  kUnsupported,      ///< valid, but this build or device cannot do it
  kTimeout,          ///< a peer or device did not answer in time
  kUnavailable,      ///< a peer, port or network is not there
  kMissingInput,     ///< a file that was named does not exist
  kCorruptData,      ///< a file or message is not what its header says
  kCannotWrite,      ///< a file or folder cannot be written
  kNumerical,        ///< loss or gradients stopped being numbers
  kInternal,         ///< our own bug, or a device library's failure
};

/// The code as users see it in messages and reports, e.g. "invalid_plan".
std::string_view name_of(ErrorCode code);

/// The exit status of DESIGN's table for this code (64 usage, 65 bad data, ..., 78 bad plan).
int exit_status_of(ErrorCode code);

/// The four things every HETHUB error tells its reader. None may be left empty.
struct ErrorParts {
  std::string what = {};      ///< what failed, in the user's own names; a file as "file:line:col: "
  std::string found = {};     ///< the offending value
  std::string expected = {};  ///< the values that would have been accepted
  std::string fix = {};       ///< the next thing to try
};

/// The only exception type thrown by HETHUB libraries.
/// Its text is "WHAT, found FOUND, expected EXPECTED; FIX".
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, ErrorParts parts);

  ErrorCode code() const { return code_; }
  const ErrorParts& parts() const { return parts_; }

 private:
  ErrorCode code_;
  ErrorParts parts_;
};

/// Throws `kInvalidArgument` unless `condition` holds; for preconditions at a public entrance.
/// Where a step calls it, pass a function that makes the parts: joining them takes memory.
inline void require(bool condition, ErrorParts parts) {
  if (!condition) throw Error(ErrorCode::kInvalidArgument, std::move(parts));
}
template <std::invocable MakeParts>
void require(bool condition, MakeParts&& make_parts) {
  if (!condition) throw Error(ErrorCode::kInvalidArgument, make_parts());
}

}  // namespace hethub

#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "hethub/accel/backend.h"
#include "hethub/accel/opencl/handle.h"

namespace hethub::opencl {

/// The views one run of an op is given.
struct Operands {
  std::span<const View> inputs = {};
  std::span<const View> outputs = {};
  View workspace = {};
};

/// Which of an op's views a kernel's next buffer argument is.
struct Argument {
  enum class From : std::uint8_t { kInput, kOutput, kWorkspace };
  From from = From::kInput;
  int index = 0;
  std::int64_t offset = 0;  ///< bytes into that view
};

/// Argument `index` of the op, as a kernel's next buffer.
inline Argument input(int index) { return {Argument::From::kInput, index, 0}; }
inline Argument output(int index) { return {Argument::From::kOutput, index, 0}; }
inline Argument workspace(std::int64_t offset = 0) {
  return {Argument::From::kWorkspace, 0, offset};
}

/// How many work-items, and how many of them make a group.
struct Grid {
  std::array<std::size_t, 3> global = {1, 1, 1};
  std::array<std::size_t, 3> local = {1, 1, 1};
};

/// `groups` groups of `local` work-items.
Grid groups(std::int64_t groups, int local);
/// At least `items` work-items in groups of `local`.
Grid items(std::int64_t items, int local);

/// One enqueueing of a kernel whose parameters are its buffers (each a base and an offset in
/// elements of that operand; of the workspace in floats) and then scalars, which are fixed when it
/// is made.
class Launch {
 public:
  /// Throws kInternal if `program` has no such kernel.
  Launch(cl_program program, const char* kernel, std::vector<Argument> buffers, Grid grid,
         const Op& op);

  /// Sets the next scalar; its type must be the kernel's parameter's exactly.
  Launch& with(cl_long value) { return scalar(&value, sizeof(value)); }
  Launch& with(cl_int value) { return scalar(&value, sizeof(value)); }
  Launch& with(cl_float value) { return scalar(&value, sizeof(value)); }

  void enqueue(cl_command_queue queue, const Operands& operands);

 private:
  Launch& scalar(const void* value, std::size_t bytes);

  Kernel kernel_;
  std::vector<Argument> buffers_;
  Grid grid_;
  std::string subject_;
  std::vector<cl_ulong> element_bytes_;  // of each buffer
  cl_uint next_ = 0;
};

/// The view an argument stands for.
View view_of(const Argument& argument, const Operands& operands);

/// A prepared op of this backend. Runs of it from several threads take turns: a kernel object
/// holds its arguments.
class OpenclOp : public PreparedOp {
 public:
  void enqueue(cl_command_queue queue, const Operands& operands) {
    const std::lock_guard lock(mutex_);
    enqueue_all(queue, operands);
  }

 protected:
  virtual void enqueue_all(cl_command_queue queue, const Operands& operands) = 0;

 private:
  std::mutex mutex_;
};

/// An op that is a list of launches.
class LaunchList final : public OpenclOp {
 public:
  explicit LaunchList(std::vector<Launch> launches) : launches_(std::move(launches)) {}

 private:
  void enqueue_all(cl_command_queue queue, const Operands& operands) override {
    for (Launch& launch : launches_) {
      launch.enqueue(queue, operands);
    }
  }

  std::vector<Launch> launches_;
};

}  // namespace hethub::opencl

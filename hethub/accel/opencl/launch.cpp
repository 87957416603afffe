#include "hethub/accel/opencl/launch.h"

#include <algorithm>

#include "hethub/accel/opencl/queue.h"
#include "hethub/accel/opencl/status.h"
#include "hethub/base/error.h"
#include "hethub/base/text.h"

namespace hethub::opencl {

Grid groups(std::int64_t groups, int local) {
  const auto size = static_cast<std::size_t>(local);
  return {.global = {static_cast<std::size_t>(groups) * size, 1, 1}, .local = {size, 1, 1}};
}

Grid items(std::int64_t items, int local) { return groups((items + local - 1) / local, local); }

namespace {

std::int64_t element_bytes(const Argument& argument, const OpFacts& facts) {
  const auto index = static_cast<std::size_t>(argument.index);
  switch (argument.from) {
    case Argument::From::kInput:
      return size_of(facts.inputs.at(index).dtype);
    case Argument::From::kOutput:
      return size_of(facts.outputs.at(index).spec.dtype);
    case Argument::From::kWorkspace:
      return sizeof(cl_float);
  }
  return 0;
}

}  // namespace

Launch::Launch(cl_program program, const char* kernel, std::vector<Argument> buffers, Grid grid,
               const Op& op)
    : buffers_(std::move(buffers)),
      grid_(grid),
      subject_(op.name),
      next_(static_cast<cl_uint>(2 * buffers_.size())) {
  const OpFacts facts = facts_of(op);
  for (const Argument& argument : buffers_) {
    element_bytes_.push_back(static_cast<cl_ulong>(element_bytes(argument, facts)));
  }
  cl_int status = CL_SUCCESS;
  kernel_.reset(clCreateKernel(program, kernel, &status));
  check(status, text("clCreateKernel ", kernel), subject_);
}

Launch& Launch::scalar(const void* value, std::size_t bytes) {
  check(clSetKernelArg(kernel_.get(), next_++, bytes, value), "clSetKernelArg", subject_);
  return *this;
}

View view_of(const Argument& argument, const Operands& operands) {
  View view = operands.workspace;
  if (argument.from != Argument::From::kWorkspace) {
    const auto& views =
        argument.from == Argument::From::kInput ? operands.inputs : operands.outputs;
    require(static_cast<std::size_t>(argument.index) < views.size(),
            {.what = "opencl: run",
             .found = text(views.size(), " views"),
             .expected = text("at least ", argument.index + 1),
             .fix = "pass the views of facts_of(op), in its order"});
    view = views[argument.index];
  }
  return view.slice(argument.offset, view.bytes - argument.offset);
}

void Launch::enqueue(cl_command_queue queue, const Operands& operands) {
  if (std::ranges::find(grid_.global, std::size_t{0}) != grid_.global.end()) return;
  cl_uint index = 0;
  for (std::size_t buffer = 0; buffer < buffers_.size(); ++buffer) {
    const View view = view_of(buffers_[buffer], operands);
    const cl_mem memory = memory_of(view, subject_);
    const cl_ulong elements = static_cast<cl_ulong>(view.offset) / element_bytes_[buffer];
    check(clSetKernelArg(kernel_.get(), index++, sizeof(cl_mem), &memory), "clSetKernelArg",
          subject_);
    check(clSetKernelArg(kernel_.get(), index++, sizeof(elements), &elements), "clSetKernelArg",
          subject_);
  }
  check(clEnqueueNDRangeKernel(queue, kernel_.get(), 3, nullptr, grid_.global.data(),
                               grid_.local.data(), 0, nullptr, nullptr),
        "clEnqueueNDRangeKernel", subject_);
}

}  // namespace hethub::opencl

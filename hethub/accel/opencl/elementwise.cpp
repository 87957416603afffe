#include "hethub/accel/opencl/kernels.h"
#include "hethub/accel/opencl/prepare.h"

// Ops that work element by element, and the loss.

namespace hethub::opencl {
namespace {

cl_program elementwise_program(const Op& all, const Preparation& with) {
  return with.programs.get(
      {"elementwise", kElementwiseSource, build_options(with.limits, all.dtype)});
}

cl_program loss_program(const Op& all, const Preparation& with) {
  return with.programs.get({"loss", kLossSource, build_options(with.limits, all.dtype)});
}

// A work-item for every vector of `count` elements.
Launch elementwise(const char* kernel, std::vector<Argument> buffers, std::int64_t count,
                   const Op& all, const Preparation& with) {
  const std::int64_t vectors = (count + with.limits.vector_width - 1) / with.limits.vector_width;
  Launch launch(elementwise_program(all, with), kernel, std::move(buffers),
                items(vectors, with.limits.items), all);
  launch.with(cl_long{count});
  return launch;
}

}  // namespace

Prepared ready(const SiluMul& op, const Op& all, const Preparation& with) {
  return launch_list(
      elementwise("silu_mul", {input(0), input(1), output(0)}, op.rows * op.width, all, with));
}

Prepared ready(const SiluMulGrad& op, const Op& all, const Preparation& with) {
  return launch_list(elementwise("silu_mul_grad",
                                 {input(0), input(1), input(2), output(0), output(1)},
                                 op.rows * op.width, all, with));
}

Prepared ready(const Gelu& op, const Op& all, const Preparation& with) {
  return launch_list(elementwise("gelu", {input(0), output(0)}, op.rows * op.width, all, with));
}

Prepared ready(const GeluGrad& op, const Op& all, const Preparation& with) {
  return launch_list(
      elementwise("gelu_grad", {input(0), input(1), output(0)}, op.rows * op.width, all, with));
}

Prepared ready(const Add& op, const Op& all, const Preparation& with) {
  return launch_list(elementwise("add", {input(0), input(1), output(0)}, op.count, all, with));
}

Prepared ready(const Fill& op, const Op& all, const Preparation& with) {
  Launch launch = elementwise("fill", {output(0)}, op.count, all, with);
  launch.with(static_cast<cl_float>(op.value));
  return launch_list(std::move(launch));
}

Prepared ready(const Convert& op, const Op& all, const Preparation& with) {
  return launch_list(elementwise("convert", {input(0), output(0)}, op.count, all, with));
}

Prepared ready(const AdamW& op, const Op& all, const Preparation& with) {
  Launch launch = elementwise("adamw", {output(0), output(1), output(2), input(3), input(4)},
                              op.count, all, with);
  launch.with(cl_int{op.decay});
  return launch_list(std::move(launch));
}

Prepared ready(const CrossEntropy& op, const Op& all, const Preparation& with) {
  Launch launch(loss_program(all, with), "cross_entropy",
                {input(0), input(1), output(0), output(1)}, groups(op.rows, with.limits.lanes),
                all);
  launch.with(cl_long{op.vocab});
  return launch_list(std::move(launch));
}

Prepared ready(const LogSumExp& op, const Op& all, const Preparation& with) {
  Launch launch(loss_program(all, with), "log_sum_exp", {input(0), output(0)},
                groups(op.rows, with.limits.lanes), all);
  launch.with(cl_long{op.width});
  return launch_list(std::move(launch));
}

Prepared ready(const CrossEntropyPart& op, const Op& all, const Preparation& with) {
  Launch launch(loss_program(all, with), "cross_entropy_part",
                {input(0), input(1), input(2), output(0), output(1)}, groups(op.rows, 1), all);
  launch.with(cl_long{op.rows})
      .with(cl_long{op.vocab})
      .with(cl_long{op.first})
      .with(cl_long{op.of})
      .with(cl_long{op.parts});
  return launch_list(std::move(launch));
}

Prepared ready(const CrossEntropyGrad& op, const Op& all, const Preparation& with) {
  Launch launch(loss_program(all, with), "cross_entropy_grad",
                {input(0), input(1), input(2), output(0)}, groups(op.rows, with.limits.lanes), all);
  launch.with(cl_long{op.vocab}).with(cl_long{op.first}).with(static_cast<cl_float>(op.z));
  return launch_list(std::move(launch));
}

// At most 256 parts, whose sums fit the workspace.
Prepared ready(const SumSquares& op, const Op& all, const Preparation& with) {
  constexpr std::int64_t kMostParts = 256;
  constexpr std::int64_t kLeast = 4096;
  const std::int64_t part =
      std::max((op.count + kMostParts - 1) / kMostParts, kLeast + kLeast * (with.limits.lanes - 1));
  const std::int64_t parts = (op.count + part - 1) / part;
  Launch sums(loss_program(all, with), "sum_squares", {input(0), workspace()},
              groups(parts, with.limits.lanes), all);
  sums.with(cl_long{op.count}).with(cl_long{part});
  Launch total(loss_program(all, with), "sum_parts", {workspace(), output(0)}, groups(1, 1), all);
  total.with(cl_long{parts});
  return launch_list(std::move(sums), std::move(total));
}

}  // namespace hethub::opencl

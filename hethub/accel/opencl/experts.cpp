#include "hethub/accel/opencl/kernels.h"
#include "hethub/accel/opencl/prepare.h"

// Mixtures of experts.

namespace hethub::opencl {
namespace {

Launch by_item(const char* kernel, std::vector<Argument> buffers, std::int64_t count, const Op& all,
               const Preparation& with) {
  const cl_program program =
      with.programs.get({"experts", kExpertsSource, build_options(with.limits, all.dtype)});
  return {program, kernel, std::move(buffers), items(count, with.limits.items), all};
}

std::int64_t vectors(std::int64_t width, const Preparation& with) {
  return (width + with.limits.vector_width - 1) / with.limits.vector_width;
}

template <typename T>
Launch with_sizes(Launch launch, const T& op) {
  launch.with(cl_long{op.slots}).with(cl_long{op.in}).with(cl_long{op.out});
  launch.with(cl_long{op.experts});
  return launch;
}

}  // namespace

Prepared ready(const Router& op, const Op& all, const Preparation& with) {
  Launch launch = by_item("route", {input(0), output(0), output(1)}, op.rows, all, with);
  launch.with(cl_long{op.rows}).with(cl_long{op.experts}).with(cl_long{op.top});
  return launch_list(std::move(launch));
}

Prepared ready(const RouterGrad& grad, const Op& all, const Preparation& with) {
  const Router& op = grad.forward;
  const double factor =
      op.balance * static_cast<double>(op.experts) / static_cast<double>(op.sequence);
  const std::int64_t counts = op.balance == 0 ? 0 : op.rows / op.sequence * op.experts;
  Launch loads = by_item("expert_loads", {input(3), workspace()}, std::max<std::int64_t>(counts, 1),
                         all, with);
  loads.with(cl_long{counts}).with(cl_long{op.experts}).with(cl_long{op.sequence * op.top});
  Launch launch =
      by_item("route_grad", {input(0), input(1), input(2), input(3), workspace(), output(0)},
              op.rows, all, with);
  launch.with(cl_long{op.rows}).with(cl_long{op.experts}).with(cl_long{op.top});
  launch.with(cl_long{op.sequence}).with(static_cast<cl_float>(factor));
  return launch_list(std::move(loads), std::move(launch));
}

Prepared ready(const SortChoices& op, const Op& all, const Preparation& with) {
  Launch launch = by_item("sort_choices", {input(0), output(0), output(1)}, op.held + 1, all, with);
  launch.with(cl_long{op.rows * op.top}).with(cl_long{op.first}).with(cl_long{op.held});
  launch.with(cl_long{op.slots()});
  return launch_list(std::move(launch));
}

// Without weights, the kernel is given what it does not read in their place.
Prepared ready(const TakeRows& op, const Op& all, const Preparation& with) {
  Launch launch = by_item("take_rows", {input(0), input(1), input(op.weighted ? 2 : 0), output(0)},
                          op.slots * vectors(op.width, with), all, with);
  launch.with(cl_long{op.width}).with(cl_long{op.top}).with(cl_long{op.slots});
  launch.with(cl_int{op.weighted});
  return launch_list(std::move(launch));
}

Prepared ready(const SumRows& op, const Op& all, const Preparation& with) {
  Launch launch = by_item("sum_rows", {input(0), input(1), input(op.weighted ? 2 : 0), output(0)},
                          op.rows * vectors(op.width, with), all, with);
  launch.with(cl_long{op.rows}).with(cl_long{op.width}).with(cl_long{op.top});
  launch.with(cl_long{op.slots}).with(cl_int{op.weighted});
  return launch_list(std::move(launch));
}

Prepared ready(const SumRowsGradWeight& op, const Op& all, const Preparation& with) {
  Launch launch = by_item("sum_rows_grad_weight", {input(0), input(1), input(2), output(0)},
                          op.rows * op.top, all, with);
  launch.with(cl_long{op.rows * op.top}).with(cl_long{op.width}).with(cl_long{op.top});
  launch.with(cl_long{op.slots});
  return launch_list(std::move(launch));
}

Prepared ready(const ExpertLinear& op, const Op& all, const Preparation& with) {
  return launch_list(with_sizes(by_item("expert_linear", {input(0), input(1), input(2), output(0)},
                                        op.slots * op.out, all, with),
                                op));
}

Prepared ready(const ExpertLinearGradInput& op, const Op& all, const Preparation& with) {
  return launch_list(
      with_sizes(by_item("expert_linear_grad_input", {input(0), input(1), input(2), output(0)},
                         op.slots * vectors(op.in, with), all, with),
                 op));
}

Prepared ready(const ExpertLinearGradWeight& op, const Op& all, const Preparation& with) {
  return launch_list(
      with_sizes(by_item("expert_linear_grad_weight", {input(0), input(1), input(2), output(0)},
                         op.experts * op.out * vectors(op.in, with), all, with),
                 op));
}

}  // namespace hethub::opencl

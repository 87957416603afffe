#include "hethub/accel/opencl/kernels.h"
#include "hethub/accel/opencl/prepare.h"
#include "hethub/base/text.h"

// Ops on rows and on columns.

namespace hethub::opencl {
namespace {

// Vectors of columns a group sums at once: on CPUs 256 bytes a row, for their prefetchers; on
// others one, for more groups.
int columns_of(const DeviceLimits& limits) {
  return limits.is_cpu ? std::max(1, 64 / limits.vector_width) : 1;
}

cl_program rows_program(const Op& all, const Preparation& with) {
  return with.programs.get(
      {"rows", kRowsSource,
       build_options(with.limits, all.dtype, text(" -DCOLUMNS=", columns_of(with.limits)))});
}

std::int64_t column_groups(std::int64_t width, const DeviceLimits& limits) {
  const std::int64_t columns = std::int64_t{columns_of(limits)} * limits.vector_width;
  return (width + columns - 1) / columns;
}

Launch by_row(const char* kernel, std::vector<Argument> buffers, std::int64_t rows, const Op& all,
              const Preparation& with) {
  return {rows_program(all, with), kernel, std::move(buffers), groups(rows, with.limits.lanes),
          all};
}

Launch by_item(const char* kernel, std::vector<Argument> buffers, std::int64_t count, const Op& all,
               const Preparation& with) {
  return {rows_program(all, with), kernel, std::move(buffers), items(count, with.limits.items),
          all};
}

}  // namespace

Prepared ready(const BiasGrad& op, const Op& all, const Preparation& with) {
  Launch launch =
      by_row("bias_grad", {input(0), output(0)}, column_groups(op.width, with.limits), all, with);
  launch.with(cl_long{op.rows}).with(cl_long{op.width});
  return launch_list(std::move(launch));
}

Prepared ready(const Embedding& op, const Op& all, const Preparation& with) {
  const std::int64_t vectors = (op.width + with.limits.vector_width - 1) / with.limits.vector_width;
  Launch launch =
      by_item("embedding", {input(0), input(1), output(0)}, op.rows * vectors, all, with);
  launch.with(cl_long{op.rows})
      .with(cl_long{op.vocab})
      .with(cl_long{op.width})
      .with(cl_long{op.first})
      .with(cl_long{op.whole()});
  return launch_list(std::move(launch));
}

Prepared ready(const EmbeddingGrad& op, const Op& all, const Preparation& with) {
  Launch launch = by_item("embedding_grad", {input(0), input(1), output(0)},
                          column_groups(op.width, with.limits), all, with);
  launch.with(cl_long{op.rows})
      .with(cl_long{op.vocab})
      .with(cl_long{op.width})
      .with(cl_long{op.first});
  return launch_list(std::move(launch));
}

Prepared ready(const RmsNorm& op, const Op& all, const Preparation& with) {
  Launch launch =
      by_row("rms_norm", {input(0), input(1), output(0), output(1)}, op.rows, all, with);
  launch.with(cl_long{op.width}).with(static_cast<cl_float>(op.eps));
  return launch_list(std::move(launch));
}

Prepared ready(const RmsNormGradInput& op, const Op& all, const Preparation& with) {
  Launch launch = by_row("rms_norm_grad_input", {input(0), input(1), input(2), input(3), output(0)},
                         op.rows, all, with);
  launch.with(cl_long{op.width});
  return launch_list(std::move(launch));
}

Prepared ready(const RmsNormGradGain& op, const Op& all, const Preparation& with) {
  Launch launch = by_row("rms_norm_grad_gain", {input(0), input(1), input(2), output(0)},
                         column_groups(op.width, with.limits), all, with);
  launch.with(cl_long{op.rows}).with(cl_long{op.width});
  return launch_list(std::move(launch));
}

Prepared ready(const LayerNorm& op, const Op& all, const Preparation& with) {
  Launch launch =
      by_row("layer_norm", {input(0), input(1), input(2), output(0), output(1), output(2)}, op.rows,
             all, with);
  launch.with(cl_long{op.width}).with(static_cast<cl_float>(op.eps));
  return launch_list(std::move(launch));
}

Prepared ready(const LayerNormGradInput& op, const Op& all, const Preparation& with) {
  Launch launch =
      by_row("layer_norm_grad_input", {input(0), input(1), input(2), input(3), input(4), output(0)},
             op.rows, all, with);
  launch.with(cl_long{op.width});
  return launch_list(std::move(launch));
}

Prepared ready(const LayerNormGradGain& op, const Op& all, const Preparation& with) {
  Launch launch =
      by_row("layer_norm_grad_gain", {input(0), input(1), input(2), input(3), output(0)},
             column_groups(op.width, with.limits), all, with);
  launch.with(cl_long{op.rows}).with(cl_long{op.width});
  return launch_list(std::move(launch));
}

Prepared ready(const AddBias& op, const Op& all, const Preparation& with) {
  const std::int64_t vectors = (op.width + with.limits.vector_width - 1) / with.limits.vector_width;
  Launch launch =
      by_item("add_bias", {input(0), input(1), output(0)}, op.rows * vectors, all, with);
  launch.with(cl_long{op.rows}).with(cl_long{op.width});
  return launch_list(std::move(launch));
}

Prepared ready(const Rope& op, const Op& all, const Preparation& with) {
  Launch launch =
      by_item("rope", {input(0), input(1), input(2), output(0)}, op.rows * op.heads, all, with);
  launch.with(cl_long{op.rows})
      .with(cl_long{op.heads})
      .with(cl_long{op.head_dim})
      .with(cl_long{op.table_rows})
      .with(op.inverse ? -1.0F : 1.0F);
  return launch_list(std::move(launch));
}

}  // namespace hethub::opencl

#include <cmath>

#include "hethub/accel/opencl/kernels.h"
#include "hethub/accel/opencl/prepare.h"
#include "hethub/base/text.h"

namespace hethub::opencl {
namespace {

// Positions of a tile: two wide vectors where a work-item is a loop; one position a work-item
// where neighbours run in step.
struct Tile {
  int width = 1;
  int vectors = 1;
};

Tile tile_of(const DeviceLimits& limits) {
  return limits.lanes == 1 ? Tile{.width = limits.vector_width, .vectors = 2} : Tile{};
}

cl_program attention_program(const Attention& op, DType dtype, const Preparation& with) {
  const Tile tile = tile_of(with.limits);
  return with.programs.get(
      {"attention", kAttentionSource,
       build_options(with.limits, dtype,
                     text(" -DHEAD_DIM=", op.head_dim, " -DDOCUMENTS=", op.documents ? 1 : 0,
                          " -DTILE_WIDTH=", tile.width, " -DTILE_VECTORS=", tile.vectors))});
}

// One work-item for each tile of a sequence, head and sequence.
Grid tiles(const Attention& op, std::int64_t heads, const DeviceLimits& limits) {
  const Tile tile = tile_of(limits);
  const std::int64_t positions = std::int64_t{tile.width} * tile.vectors;
  Grid grid = items((op.seq + positions - 1) / positions, limits.lanes);
  grid.global[1] = static_cast<std::size_t>(heads);
  grid.global[2] = static_cast<std::size_t>(op.batch);
  return grid;
}

void with_sizes(Launch& launch, const Attention& op) {
  launch.with(cl_long{op.seq})
      .with(cl_long{op.heads})
      .with(cl_long{op.kv_heads})
      .with(cl_long{op.window})
      .with(static_cast<cl_float>(1.0 / std::sqrt(static_cast<double>(op.head_dim))));
}

}  // namespace

Prepared ready(const Attention& op, const Op& all, const Preparation& with) {
  std::vector<Argument> buffers = {input(0), input(1), input(2)};
  if (op.documents) buffers.push_back(input(3));
  buffers.push_back(output(0));
  buffers.push_back(output(1));
  Launch launch(attention_program(op, all.dtype, with), "attention", std::move(buffers),
                tiles(op, op.heads, with.limits), all);
  with_sizes(launch, op);
  return launch_list(std::move(launch));
}

Prepared ready(const AttentionGrad& op, const Op& all, const Preparation& with) {
  const Attention& forward = op.forward;
  const cl_program program = attention_program(forward, all.dtype, with);
  const std::int64_t rows = forward.batch * forward.seq;
  Launch delta(program, "attention_delta", {input(0), input(4), workspace()},
               items(rows * forward.heads, with.limits.items), all);
  delta.with(cl_long{rows}).with(cl_long{forward.seq}).with(cl_long{forward.heads});

  std::vector<Argument> buffers = {input(0), input(1), input(2), input(3), input(5)};
  if (forward.documents) buffers.push_back(input(6));
  buffers.push_back(workspace());
  std::vector<Argument> query_buffers = buffers;
  query_buffers.push_back(output(0));
  Launch query(program, "attention_grad_query", std::move(query_buffers),
               tiles(forward, forward.heads, with.limits), all);
  with_sizes(query, forward);

  buffers.push_back(output(1));
  buffers.push_back(output(2));
  Launch key(program, "attention_grad_key", std::move(buffers),
             tiles(forward, forward.kv_heads, with.limits), all);
  with_sizes(key, forward);
  return launch_list(std::move(delta), std::move(query), std::move(key));
}

}  // namespace hethub::opencl

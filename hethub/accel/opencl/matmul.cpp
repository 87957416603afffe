#include "hethub/accel/opencl/matmul.h"

#include <algorithm>

#include "hethub/accel/opencl/kernels.h"
#include "hethub/base/text.h"

namespace hethub::opencl {
namespace {

constexpr std::int64_t kTileRows = 12;
constexpr std::int64_t kTiles = 8;
constexpr std::int64_t kPanel = 32;
constexpr std::int64_t kKBlock = 512;

// A part of a product whose packed b, and whose sums if the result is narrow, fit the workspace.
struct Block {
  std::int64_t row = 0;
  std::int64_t rows_end = 0;
  std::int64_t column = 0;
  std::int64_t columns = 0;
  std::int64_t k_begin = 0;
  std::int64_t k_count = 0;
};

Launch pack_launch(const Product& product, const Block& block, const Op& all,
                   const Preparation& with) {
  Launch launch(matmul_program(product, all, with), "matmul_pack", {product.b, workspace()},
                groups((block.columns + kPanel - 1) / kPanel, 1), all);
  launch.with(cl_long{product.b_stride()})
      .with(cl_long{block.column})
      .with(cl_long{block.columns})
      .with(cl_long{block.k_begin})
      .with(cl_long{block.k_count});
  return launch;
}

// `sums` is where the block is summed: in c itself, or of a narrow one in the workspace.
Launch multiply_launch(const Product& product, const Block& block, Argument sums, const Op& all,
                       const Preparation& with) {
  // Rows first; columns are split only as far as it takes to occupy every compute unit.
  const std::int64_t rows = block.rows_end - block.row;
  const std::int64_t row_parts = (rows + kTiles * kTileRows - 1) / (kTiles * kTileRows);
  const std::int64_t panels = (block.columns + kPanel - 1) / kPanel;
  const std::int64_t wanted = with.limits.compute_units > 1 ? 4 * with.limits.compute_units : 1;
  const std::int64_t column_parts =
      std::clamp<std::int64_t>((wanted + row_parts - 1) / row_parts, 1, panels);
  const std::int64_t panels_each = (panels + column_parts - 1) / column_parts;
  const bool first = block.k_begin == 0;
  const bool last = block.k_begin + block.k_count == product.k;
  Grid grid = groups(row_parts, 1);
  grid.global[1] = static_cast<std::size_t>((panels + panels_each - 1) / panels_each);
  // What is not used still needs a buffer: the bias where there is none, c where it is the sums.
  Launch launch(matmul_program(product, all, with), "matmul",
                {product.a, workspace(), sums, rounds(all) ? product.c : product.a,
                 product.bias ? input(2) : product.a},
                grid, all);
  launch.with(cl_long{block.row})
      .with(cl_long{block.rows_end})
      .with(cl_long{block.column})
      .with(cl_long{block.columns})
      .with(cl_long{block.k_begin})
      .with(cl_long{block.k_count})
      .with(cl_long{product.a_stride()})
      .with(cl_long{rounds(all) ? block.columns : product.columns})
      .with(cl_long{product.columns})
      .with(cl_long{panels_each})
      .with(cl_int{product.add || !first})
      .with(cl_int{rounds(all) && last})
      .with(cl_int{product.bias && first});
  return launch;
}

// Our kernel: b is packed block by block into the workspace, so each block is two launches. The
// sum over k runs in the same order whatever the number of compute units.
Prepared kernel_product(const Product& product, const Op& all, const Preparation& with) {
  constexpr std::int64_t kMostRows = 2016;  // whose sums are kept: of whole groups of tiles
  const std::int64_t k_block = std::min(product.k, kKBlock);
  const bool keeps_sums = rounds(all) && product.k > k_block;
  const std::int64_t rows_block = keeps_sums ? std::min(product.rows, kMostRows) : product.rows;
  const std::int64_t column_floats = k_block + (keeps_sums ? rows_block : 0);
  const std::int64_t room = facts_of(all).workspace_bytes / (4 * column_floats * kPanel);
  const std::int64_t columns_block = std::max<std::int64_t>(room, 1) * kPanel;
  std::vector<Launch> launches;
  for (std::int64_t row = 0; row < product.rows; row += rows_block) {
    for (std::int64_t column = 0; column < product.columns; column += columns_block) {
      for (std::int64_t k = 0; k < product.k; k += k_block) {
        const Block block{.row = row,
                          .rows_end = std::min(row + rows_block, product.rows),
                          .column = column,
                          .columns = std::min(columns_block, product.columns - column),
                          .k_begin = k,
                          .k_count = std::min(k_block, product.k - k)};
        Argument sums = workspace(keeps_sums ? 4 * k_block * columns_block : 0);
        if (!rounds(all)) {
          sums = product.c;
          sums.offset += 4 * column;
        }
        launches.push_back(pack_launch(product, block, all, with));
        launches.push_back(multiply_launch(product, block, sums, all, with));
      }
    }
  }
  return std::make_unique<LaunchList>(std::move(launches));
}

Prepared matrix_product(const Product& product, const Op& all, const Preparation& with) {
  switch (with.matmul) {
    case OpenclMatmul::kAuto:
    case OpenclMatmul::kKernel:
      return kernel_product(product, all, with);
    case OpenclMatmul::kClblast:
      return clblast_product(product, all, with);
  }
  return nullptr;
}

}  // namespace

bool rounds(const Op& op) { return facts_of(op).outputs[0].spec.dtype != DType::kF32; }

cl_program matmul_program(const Product& product, const Op& all, const Preparation& with) {
  return with.programs.get({"matmul", kMatmulSource,
                            build_options(with.limits, all.dtype,
                                          text(" -DA_TRANSPOSED=", product.a_transposed ? 1 : 0,
                                               " -DB_TRANSPOSED=", product.b_transposed ? 1 : 0,
                                               " -DTILE_ROWS=", kTileRows, " -DTILES=", kTiles,
                                               " -DK_BLOCK=", kKBlock))});
}

Prepared ready(const Linear& op, const Op& all, const Preparation& with) {
  return matrix_product({.rows = op.rows,
                         .columns = op.out,
                         .k = op.in,
                         .b_transposed = true,
                         .bias = op.bias,
                         .a = input(0),
                         .b = input(1),
                         .c = output(0)},
                        all, with);
}

Prepared ready(const LinearGradInput& op, const Op& all, const Preparation& with) {
  return matrix_product({.rows = op.rows,
                         .columns = op.in,
                         .k = op.out,
                         .a = input(0),
                         .b = input(1),
                         .c = output(0)},
                        all, with);
}

Prepared ready(const LinearGradWeight& op, const Op& all, const Preparation& with) {
  return matrix_product({.rows = op.out,
                         .columns = op.in,
                         .k = op.rows,
                         .a_transposed = true,
                         .add = true,
                         .a = input(0),
                         .b = input(1),
                         .c = output(0)},
                        all, with);
}

}  // namespace hethub::opencl

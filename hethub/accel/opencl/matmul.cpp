#include <algorithm>

#include <clblast_c.h>

#include "hethub/accel/opencl/kernels.h"
#include "hethub/accel/opencl/prepare.h"
#include "hethub/accel/opencl/queue.h"
#include "hethub/accel/opencl/status.h"
#include "hethub/base/error.h"
#include "hethub/base/text.h"

namespace hethub::opencl {
namespace {

// c[rows, columns] (+)= a[rows, k] · b[k, columns]; both are row-major as stored.
struct Product {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t k = 0;
  bool a_transposed = false;  // stored as [k, rows]
  bool b_transposed = false;  // stored as [columns, k]
  bool add = false;           // to what is in c
  bool bias = false;          // input 2, added to every row
  Argument a = {};
  Argument b = {};
  Argument c = {};

  std::int64_t a_stride() const { return a_transposed ? rows : k; }
  std::int64_t b_stride() const { return b_transposed ? k : columns; }
};

constexpr std::int64_t kTileRows = 12;
constexpr std::int64_t kTiles = 8;
constexpr std::int64_t kPanel = 32;
constexpr std::int64_t kKBlock = 512;

cl_program matmul_program(const Product& product, const Preparation& with) {
  return with.programs.get(
      {"matmul", kMatmulSource,
       build_options(with.limits, text(" -DA_TRANSPOSED=", product.a_transposed ? 1 : 0,
                                       " -DB_TRANSPOSED=", product.b_transposed ? 1 : 0,
                                       " -DTILE_ROWS=", kTileRows, " -DTILES=", kTiles,
                                       " -DK_BLOCK=", kKBlock))});
}

// A part of a product whose packed b fits the workspace.
struct Block {
  std::int64_t column = 0;
  std::int64_t columns = 0;
  std::int64_t k_begin = 0;
  std::int64_t k_count = 0;
};

Launch pack_launch(const Product& product, const Block& block, const Op& all,
                   const Preparation& with) {
  Launch launch(matmul_program(product, with), "matmul_pack", {product.b, workspace()},
                groups((block.columns + kPanel - 1) / kPanel, 1), all.name);
  launch.with(cl_long{product.b_stride()})
      .with(cl_long{block.column})
      .with(cl_long{block.columns})
      .with(cl_long{block.k_begin})
      .with(cl_long{block.k_count});
  return launch;
}

Launch multiply_launch(const Product& product, const Block& block, const Op& all,
                       const Preparation& with) {
  // Rows first; columns are split only as far as it takes to occupy every compute unit.
  const std::int64_t row_parts = (product.rows + kTiles * kTileRows - 1) / (kTiles * kTileRows);
  const std::int64_t panels = (block.columns + kPanel - 1) / kPanel;
  const std::int64_t wanted = with.limits.compute_units > 1 ? 4 * with.limits.compute_units : 1;
  const std::int64_t column_parts =
      std::clamp<std::int64_t>((wanted + row_parts - 1) / row_parts, 1, panels);
  const std::int64_t panels_each = (panels + column_parts - 1) / column_parts;
  const bool first = block.k_begin == 0;
  Grid grid = groups(row_parts, 1);
  grid.global[1] = static_cast<std::size_t>((panels + panels_each - 1) / panels_each);
  // Without a bias its parameter still needs a buffer.
  Launch launch(matmul_program(product, with), "matmul",
                {product.a, workspace(), product.c, product.bias ? input(2) : product.a}, grid,
                all.name);
  launch.with(cl_long{product.rows})
      .with(cl_long{block.column})
      .with(cl_long{block.columns})
      .with(cl_long{block.k_begin})
      .with(cl_long{block.k_count})
      .with(cl_long{product.a_stride()})
      .with(cl_long{product.columns})
      .with(cl_long{panels_each})
      .with(cl_int{product.add || !first})
      .with(cl_int{product.bias && first});
  return launch;
}

// Our kernel: b is packed block by block into the workspace, so each block is two launches. The
// sum over k runs in the same order whatever the number of compute units.
Prepared kernel_product(const Product& product, const Op& all, const Preparation& with) {
  const std::int64_t k_block = std::min(product.k, kKBlock);
  const std::int64_t room = facts_of(all).workspace_bytes / (4 * k_block * kPanel);
  const std::int64_t columns_block = std::max<std::int64_t>(room, 1) * kPanel;
  std::vector<Launch> launches;
  for (std::int64_t column = 0; column < product.columns; column += columns_block) {
    for (std::int64_t k = 0; k < product.k; k += k_block) {
      const Block block{.column = column,
                        .columns = std::min(columns_block, product.columns - column),
                        .k_begin = k,
                        .k_count = std::min(k_block, product.k - k)};
      launches.push_back(pack_launch(product, block, all, with));
      launches.push_back(multiply_launch(product, block, all, with));
    }
  }
  return std::make_unique<LaunchList>(std::move(launches));
}

// CLBlast's product. Always its direct kernel: the other one copies all three matrices to memory
// of its own, more than a workspace holds.
class ClblastProduct final : public OpenclOp {
 public:
  ClblastProduct(Product product, std::string subject, std::vector<Launch> before)
      : product_(product), subject_(std::move(subject)), before_(std::move(before)) {}

 private:
  void enqueue_all(cl_command_queue queue, const Operands& operands) override {
    for (Launch& launch : before_) {
      launch.enqueue(queue, operands);
    }
    const View a = view_of(product_.a, operands);
    const View b = view_of(product_.b, operands);
    const View c = view_of(product_.c, operands);
    const CLBlastStatusCode status = CLBlastSgemm(
        CLBlastLayoutRowMajor, product_.a_transposed ? CLBlastTransposeYes : CLBlastTransposeNo,
        product_.b_transposed ? CLBlastTransposeYes : CLBlastTransposeNo, product_.rows,
        product_.columns, product_.k, 1.0F, memory_of(a, subject_), a.offset / sizeof(float),
        product_.a_stride(), memory_of(b, subject_), b.offset / sizeof(float), product_.b_stride(),
        product_.add || product_.bias ? 1.0F : 0.0F, memory_of(c, subject_),
        c.offset / sizeof(float), product_.columns, &queue, nullptr);
    check(static_cast<cl_int>(status), "CLBlastSgemm", subject_);
  }

  Product product_;
  std::string subject_;
  std::vector<Launch> before_;
};

Prepared clblast_product(const Product& product, const Op& all, const Preparation& with) {
  const char* name = "XGEMM_MIN_INDIRECT_SIZE";
  const std::size_t never = std::size_t{1} << 40;
  check(static_cast<cl_int>(CLBlastOverrideParameters(with.device, "GemmRoutine",
                                                      CLBlastPrecisionSingle, 1, &name, &never)),
        "CLBlastOverrideParameters", all.name);
  std::vector<Launch> before;
  if (product.bias) {
    before.emplace_back(matmul_program(product, with), "spread_bias",
                        std::vector<Argument>{input(2), product.c}, groups(product.rows, 1),
                        all.name);
    before.back().with(cl_long{product.columns});
  }
  return std::make_unique<ClblastProduct>(product, all.name, std::move(before));
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

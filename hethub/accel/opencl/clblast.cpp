#include <algorithm>
#include <cmath>
#include <variant>

#include <clblast_c.h>

#include "hethub/accel/opencl/matmul.h"
#include "hethub/accel/opencl/queue.h"
#include "hethub/accel/opencl/status.h"

namespace hethub::opencl {
namespace {

// One call of the library on floats; strides are of what is stored.
struct Gemm {
  Product product = {};
  std::int64_t a_stride = 0;
  std::int64_t b_stride = 0;
  std::int64_t c_stride = 0;

  void enqueue(cl_command_queue queue, const Operands& operands, std::string_view subject) const {
    const View a = view_of(product.a, operands);
    const View b = view_of(product.b, operands);
    const View c = view_of(product.c, operands);
    const CLBlastStatusCode status = CLBlastSgemm(
        CLBlastLayoutRowMajor, product.a_transposed ? CLBlastTransposeYes : CLBlastTransposeNo,
        product.b_transposed ? CLBlastTransposeYes : CLBlastTransposeNo, product.rows,
        product.columns, product.k, 1.0F, memory_of(a, subject), a.offset / sizeof(float), a_stride,
        memory_of(b, subject), b.offset / sizeof(float), b_stride, product.add ? 1.0F : 0.0F,
        memory_of(c, subject), c.offset / sizeof(float), c_stride, &queue, nullptr);
    check(static_cast<cl_int>(status), "CLBlastSgemm", subject);
  }
};

using Step = std::variant<Launch, Gemm>;

// Kernels of ours and calls of the library, in order.
class Steps final : public OpenclOp {
 public:
  Steps(std::string subject, std::vector<Step> steps)
      : subject_(std::move(subject)), steps_(std::move(steps)) {}

 private:
  void enqueue_all(cl_command_queue queue, const Operands& operands) override {
    for (Step& step : steps_) {
      if (auto* launch = std::get_if<Launch>(&step)) {
        launch->enqueue(queue, operands);
      } else {
        std::get<Gemm>(step).enqueue(queue, operands, subject_);
      }
    }
  }

  std::string subject_;
  std::vector<Step> steps_;
};

// The library's direct kernel alone: the other one copies all three matrices to memory of its own,
// more than a workspace holds.
void choose_direct(const Op& all, const Preparation& with) {
  const char* name = "XGEMM_MIN_INDIRECT_SIZE";
  const std::size_t never = std::size_t{1} << 20;  // the library cubes it, in 64 bits
  check(static_cast<cl_int>(CLBlastOverrideParameters(with.device, "GemmRoutine",
                                                      CLBlastPrecisionSingle, 1, &name, &never)),
        "CLBlastOverrideParameters", all.name);
}

// Rows of a bias into sums of that many columns.
Launch spread_bias(const Product& product, Argument sums, std::int64_t rows, std::int64_t column,
                   std::int64_t columns, const Op& all, const Preparation& with) {
  Argument bias = input(2);
  bias.offset = column * size_of(all.dtype);
  Launch launch(matmul_program(product, all, with), "spread_bias", {bias, sums}, groups(rows, 1),
                all);
  launch.with(cl_long{columns});
  return launch;
}

// Part of a matrix as it is stored.
struct Part {
  std::int64_t row = 0;
  std::int64_t column = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

Part part_of(bool transposed, std::int64_t row, std::int64_t column, std::int64_t rows,
             std::int64_t columns) {
  return transposed ? Part{column, row, columns, rows} : Part{row, column, rows, columns};
}

// A product of narrow operands: blocks of them as floats in the workspace, a third of it for each
// of a, b and, if the result is narrow too, its sums.
class Blocks {
 public:
  Blocks(const Product& product, const Op& all, const Preparation& with)
      : product_(product),
        all_(all),
        with_(with),
        side_(static_cast<std::int64_t>(
            std::sqrt(static_cast<double>(facts_of(all).workspace_bytes / 12)))) {}

  std::vector<Step> steps() {
    for (std::int64_t row = 0; row < product_.rows; row += side_) {
      for (std::int64_t column = 0; column < product_.columns; column += side_) {
        add_block(row, column, std::min(side_, product_.rows - row),
                  std::min(side_, product_.columns - column));
      }
    }
    return std::move(steps_);
  }

 private:
  Argument third(int number) const { return workspace(4 * side_ * side_ * number); }

  void add_block(std::int64_t row, std::int64_t column, std::int64_t rows, std::int64_t columns) {
    const bool narrow = rounds(all_);
    Argument sums = third(2);
    if (!narrow) {
      sums = product_.c;
      sums.offset += 4 * (row * product_.columns + column);
    }
    if (product_.bias) {
      steps_.emplace_back(spread_bias(product_, sums, rows, column, columns, all_, with_));
    }
    for (std::int64_t k = 0; k < product_.k; k += side_) {
      const std::int64_t depth = std::min(side_, product_.k - k);
      const Part a = part_of(product_.a_transposed, row, k, rows, depth);
      const Part b = part_of(product_.b_transposed, k, column, depth, columns);
      move("widen_block", product_.a, product_.a_stride(), a, third(0));
      move("widen_block", product_.b, product_.b_stride(), b, third(1));
      Product part = product_;
      part.rows = rows;
      part.columns = columns;
      part.k = depth;
      part.add = product_.add || product_.bias || k > 0;
      part.a = third(0);
      part.b = third(1);
      part.c = sums;
      steps_.emplace_back(Gemm{part, a.columns, b.columns, narrow ? columns : product_.columns});
    }
    if (narrow) {
      move("narrow_block", product_.c, product_.columns, {row, column, rows, columns}, sums);
    }
  }

  // Between a part of a matrix and floats in the workspace.
  void move(const char* kernel, Argument matrix, std::int64_t stride, const Part& part,
            Argument floats) {
    matrix.offset = (part.row * stride + part.column) * size_of(all_.dtype);
    const bool narrows = matrix.from == Argument::From::kOutput;
    Launch launch(matmul_program(product_, all_, with_), kernel,
                  narrows ? std::vector{floats, matrix} : std::vector{matrix, floats},
                  groups(part.rows, 1), all_);
    launch.with(cl_long{stride}).with(cl_long{part.columns});
    steps_.emplace_back(std::move(launch));
  }

  const Product& product_;
  const Op& all_;
  const Preparation& with_;
  std::int64_t side_;
  std::vector<Step> steps_ = {};
};

}  // namespace

Prepared clblast_product(const Product& product, const Op& all, const Preparation& with) {
  choose_direct(all, with);
  if (all.dtype != DType::kF32) {
    return std::make_unique<Steps>(all.name, Blocks(product, all, with).steps());
  }
  std::vector<Step> steps;
  if (product.bias) {
    steps.emplace_back(
        spread_bias(product, product.c, product.rows, 0, product.columns, all, with));
  }
  Gemm gemm{product, product.a_stride(), product.b_stride(), product.columns};
  gemm.product.add = product.add || product.bias;
  steps.emplace_back(gemm);
  return std::make_unique<Steps>(all.name, std::move(steps));
}

}  // namespace hethub::opencl

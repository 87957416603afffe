#pragma once

#include "hethub/accel/opencl/prepare.h"

namespace hethub::opencl {

/// c[rows, columns] (+)= a[rows, k] · b[k, columns]; both are row-major as stored.
struct Product {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t k = 0;
  bool a_transposed = false;  ///< stored as [k, rows]
  bool b_transposed = false;  ///< stored as [columns, k]
  bool add = false;           ///< to what is in c
  bool bias = false;          ///< input 2, added to every row
  Argument a = {};
  Argument b = {};
  Argument c = {};

  std::int64_t a_stride() const { return a_transposed ? rows : k; }
  std::int64_t b_stride() const { return b_transposed ? k : columns; }
};

/// Whether the op's result is narrower than the floats it is summed in, so that a sum which is not
/// complete must lie elsewhere.
bool rounds(const Op& op);

/// matmul.cl, built for the product.
cl_program matmul_program(const Product& product, const Op& all, const Preparation& with);

/// The product by CLBlast, of floats: operands of a narrower dtype become floats in the workspace,
/// block by block.
Prepared clblast_product(const Product& product, const Op& all, const Preparation& with);

}  // namespace hethub::opencl

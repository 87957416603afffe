#pragma once

#include <cstdint>
#include <memory>

#include <oneapi/dnnl/dnnl_types.h>

#include "hethub/accel/cpu/product.h"

namespace hethub {

/// The matrix library's context; it outlives the products made with it.
class MatrixLibrary {
 public:
  MatrixLibrary();
  ~MatrixLibrary();
  MatrixLibrary(const MatrixLibrary&) = delete;
  MatrixLibrary& operator=(const MatrixLibrary&) = delete;

  dnnl_engine* engine() const { return engine_; }
  dnnl_stream* stream() const { return stream_; }

 private:
  dnnl_engine* engine_ = nullptr;
  dnnl_stream* stream_ = nullptr;
};

/// A product that is ready to run. Threads: one at a time.
class PreparedProduct {
 public:
  /// Throws kUnsupported if the library has no implementation on this processor, or each needs more
  /// workspace; kInternal if the library fails.
  PreparedProduct(const MatrixLibrary& library, const MatrixProduct& product);
  ~PreparedProduct();
  PreparedProduct(const PreparedProduct&) = delete;
  PreparedProduct& operator=(const PreparedProduct&) = delete;

  /// Allocates nothing.
  void run(const MatrixOperands& operands);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace hethub

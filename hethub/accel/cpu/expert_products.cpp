#include "hethub/accel/cpu/expert_products.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include <oneapi/dnnl/dnnl.h>

#include "hethub/accel/cpu/library_memory.h"
#include "hethub/base/error.h"

namespace hethub {
namespace {

std::byte* address_of(const View& view) {
  return view.buffer == nullptr ? nullptr : view.buffer->host_data() + view.offset;
}

// A matrix whose rows lie `stride` elements apart.
struct Matrix {
  const float* data = nullptr;
  std::int64_t stride = 0;
  bool transposed = false;
};

struct Sizes {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
};

// c[m, n] = beta · c + a[m, k] · b[k, n].
void multiply(const Sizes& sizes, const Matrix& a, const Matrix& b, float beta, float* c,
              std::int64_t stride) {
  const LibraryMemory no_allocation;
  const dnnl_status_t status =
      dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', sizes.m, sizes.n, sizes.k,
                 1.0F, a.data, a.stride, b.data, b.stride, beta, c, stride);
  require(status == dnnl_success, [&] {
    return ErrorParts{
        .what = text("product of an expert ", sizes.m, " x ", sizes.k, " x ", sizes.n),
        .found = text("oneDNN status ", static_cast<int>(status)),
        .expected = "success",
        .fix = "set DNNL_VERBOSE=2 and run again to see what it refused"};
  });
}

// Rows of `columns` elements that lie `stride` apart, packed as f32.
void widen(const std::uint16_t* from, std::int64_t stride, std::int64_t rows, std::int64_t columns,
           float* to) {
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      to[row * columns + column] =
          std::bit_cast<float>(static_cast<std::uint32_t>(from[row * stride + column]) << 16U);
    }
  }
}

std::uint16_t rounded(float value) {
  const auto all = std::bit_cast<std::uint32_t>(value);
  if ((all & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<std::uint16_t>((all >> 16U) | 0x40U);
  return static_cast<std::uint16_t>((all + 0x7FFFU + ((all >> 16U) & 1U)) >> 16U);
}

void narrow(const float* from, std::int64_t rows, std::int64_t columns, std::uint16_t* to,
            std::int64_t stride) {
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      to[row * stride + column] = rounded(from[row * columns + column]);
    }
  }
}

// The slots of one expert.
struct Slots {
  std::int64_t expert = 0;
  std::int64_t begin = 0;
  std::int64_t size = 0;
};

// Calls each(slots) for every expert with slots. Starts that cannot be are not followed.
template <typename Each>
std::int64_t for_experts(const void* starts, std::int64_t experts, std::int64_t slots,
                         const Each& each) {
  const auto* start = static_cast<const std::int32_t*>(starts);
  std::int64_t begin = 0;
  for (std::int64_t expert = 0; expert < experts; ++expert) {
    const std::int64_t end = std::clamp<std::int64_t>(start[expert + 1], begin, slots);
    if (end > begin) each(Slots{expert, begin, end - begin});
    begin = end;
  }
  return begin;
}

// y[slots, made] = x[slots, read] times each expert's matrix w[out, in], which is transposed in
// the forward product (made is out) and not in that of the gradient (made is in).
struct RowProduct {
  std::int64_t slots = 0;
  std::int64_t read = 0;
  std::int64_t made = 0;
  std::int64_t experts = 0;
  bool transposed = false;

  std::int64_t row_of_w() const { return transposed ? read : made; }

  void run(const void* x, const void* w, const void* starts, void* y, DType dtype,
           std::byte* workspace) const {
    const std::int64_t used = for_experts(starts, experts, slots, [&](const Slots& of) {
      if (dtype == DType::kF32) {
        whole(of, static_cast<const float*>(x), static_cast<const float*>(w),
              static_cast<float*>(y));
      } else {
        in_blocks(of, static_cast<const std::uint16_t*>(x), static_cast<const std::uint16_t*>(w),
                  static_cast<std::uint16_t*>(y), workspace);
      }
    });
    const std::int64_t bytes = size_of(dtype) * made;
    std::memset(static_cast<std::byte*>(y) + used * bytes, 0,
                static_cast<std::size_t>((slots - used) * bytes));
  }

  void whole(const Slots& of, const float* x, const float* w, float* y) const {
    multiply({of.size, made, read}, {x + of.begin * read, read},
             {w + of.expert * read * made, row_of_w(), transposed}, 0, y + of.begin * made, made);
  }

  // Of blocks of the matrix's share of `made`, and of the rows.
  void in_blocks(const Slots& of, const std::uint16_t* x, const std::uint16_t* w, std::uint16_t* y,
                 std::byte* workspace) const {
    auto* matrix = reinterpret_cast<float*>(workspace);
    float* from = matrix + kExpertBlock;
    float* to = from + kExpertRows * read;
    const std::int64_t most = std::clamp<std::int64_t>(kExpertBlock / read, 1, made);
    for (std::int64_t first = 0; first < made; first += most) {
      const std::int64_t size = std::min(most, made - first);
      const std::uint16_t* own = w + of.expert * read * made;
      if (transposed) {
        widen(own + first * read, read, size, read, matrix);
      } else {
        widen(own + first, made, read, size, matrix);
      }
      for (std::int64_t row = 0; row < of.size; row += kExpertRows) {
        const std::int64_t rows = std::min(kExpertRows, of.size - row);
        const std::int64_t at = of.begin + row;
        widen(x + at * read, read, rows, read, from);
        multiply({rows, size, read}, {from, read}, {matrix, transposed ? read : size, transposed},
                 0, to, size);
        narrow(to, rows, size, y + at * made + first, made);
      }
    }
  }
};

class RowProductOp final : public CpuOp {
 public:
  RowProductOp(const RowProduct& product, DType dtype) : product_(product), dtype_(dtype) {}

  void run(std::span<const View> inputs, std::span<const View> outputs,
           const View& workspace) override {
    product_.run(address_of(inputs[0]), address_of(inputs[1]), address_of(inputs[2]),
                 address_of(outputs[0]), dtype_, address_of(workspace));
  }

 private:
  RowProduct product_;
  DType dtype_;
};

class WeightProductOp final : public CpuOp {
 public:
  WeightProductOp(const ExpertLinearGradWeight& op, DType dtype) : op_(op), dtype_(dtype) {}

  void run(std::span<const View> inputs, std::span<const View> outputs,
           const View& workspace) override {
    auto* dw = reinterpret_cast<float*>(address_of(outputs[0]));
    for_experts(address_of(inputs[2]), op_.experts, op_.slots, [&](const Slots& of) {
      float* const own = dw + of.expert * op_.out * op_.in;
      if (dtype_ == DType::kF32) {
        add(of.size, reinterpret_cast<const float*>(address_of(inputs[0])) + of.begin * op_.out,
            reinterpret_cast<const float*>(address_of(inputs[1])) + of.begin * op_.in, own);
      } else {
        in_blocks(of, reinterpret_cast<const std::uint16_t*>(address_of(inputs[0])),
                  reinterpret_cast<const std::uint16_t*>(address_of(inputs[1])), own,
                  reinterpret_cast<float*>(address_of(workspace)));
      }
    });
  }

 private:
  void add(std::int64_t rows, const float* dy, const float* x, float* dw) const {
    multiply({op_.out, op_.in, rows}, {dy, op_.out, true}, {x, op_.in}, 1, dw, op_.in);
  }

  void in_blocks(const Slots& of, const std::uint16_t* dy, const std::uint16_t* x, float* dw,
                 float* workspace) const {
    float* const wide_dy = workspace;
    float* const wide_x = workspace + kExpertRows * op_.out;
    for (std::int64_t row = 0; row < of.size; row += kExpertRows) {
      const std::int64_t rows = std::min(kExpertRows, of.size - row);
      const std::int64_t at = of.begin + row;
      widen(dy + at * op_.out, op_.out, rows, op_.out, wide_dy);
      widen(x + at * op_.in, op_.in, rows, op_.in, wide_x);
      add(rows, wide_dy, wide_x, dw);
    }
  }

  ExpertLinearGradWeight op_;
  DType dtype_;
};

// One row of each block must fit.
void require_fits(const Op& op, std::int64_t in, std::int64_t out) {
  if (op.dtype == DType::kF32 || std::max(in, out) <= kExpertBlock) return;
  throw Error(ErrorCode::kUnsupported, {.what = text("cpu: op ", op.name),
                                        .found = text("an expert's matrix of ", out, " x ", in),
                                        .expected = text("sides of at most ", kExpertBlock),
                                        .fix = "set the plan's dtype to f32"});
}

}  // namespace

std::unique_ptr<CpuOp> expert_product(const Op& op, const ExpertLinear& body) {
  require_fits(op, body.in, body.out);
  return std::make_unique<RowProductOp>(
      RowProduct{body.slots, body.in, body.out, body.experts, true}, op.dtype);
}

std::unique_ptr<CpuOp> expert_product(const Op& op, const ExpertLinearGradInput& body) {
  require_fits(op, body.in, body.out);
  return std::make_unique<RowProductOp>(
      RowProduct{body.slots, body.out, body.in, body.experts, false}, op.dtype);
}

std::unique_ptr<CpuOp> expert_product(const Op& op, const ExpertLinearGradWeight& body) {
  return std::make_unique<WeightProductOp>(body, op.dtype);
}

}  // namespace hethub

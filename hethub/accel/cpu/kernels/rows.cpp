// Ops that pick or turn rows: embedding, its gradient, rotary positions.

#include "hethub/accel/cpu/kernels/operands.h"
#include "hethub/accel/cpu/kernels/parallel.h"
#include "hethub/accel/cpu/kernels/run.h"

namespace hethub::HETHUB_LEVEL {
namespace {

template <typename T>
void embedding(const Embedding& op, const Arguments& arguments) {
  const std::int32_t* ids = integers(arguments, 0);
  const T* table = input<T>(arguments, 1);
  T* y = output<T>(arguments, 0);
  parallel_ranges(arguments.threads, op.rows, rows_worth_a_thread(op.width),
                  [&](std::int64_t first, std::int64_t last, int /*thread*/) {
                    const auto bytes = static_cast<std::size_t>(op.width) * sizeof(T);
                    for (std::int64_t row = first; row < last; ++row) {
                      const std::int64_t id = ids[row] - op.first;
                      if (id >= 0 && id < op.vocab) {
                        __builtin_memcpy(y + row * op.width, table + id * op.width, bytes);
                      } else {
                        __builtin_memset(y + row * op.width, 0, bytes);
                      }
                    }
                  });
}

// Threads share out the columns, so that each sum has its rows in order.
template <typename T>
void embedding_grad(const EmbeddingGrad& op, const Arguments& arguments) {
  const std::int32_t* ids = integers(arguments, 0);
  const T* dy = input<T>(arguments, 1);
  float* dtable = output(arguments, 0);
  const std::int64_t least = 16 + rows_worth_a_thread(op.rows);
  parallel_ranges(arguments.threads, op.width, least,
                  [&](std::int64_t first, std::int64_t last, int /*thread*/) {
                    for (std::int64_t row = 0; row < op.rows; ++row) {
                      const std::int64_t id = ids[row] - op.first;
                      if (id < 0 || id >= op.vocab) continue;
                      float* total = dtable + id * op.width;
                      const T* term = dy + row * op.width;
#pragma omp simd
                      for (std::int64_t j = first; j < last; ++j) {
                        total[j] += term[j];
                      }
                    }
                  });
}

template <typename T>
void rope(const Rope& op, const Arguments& arguments) {
  const T* x_all = input<T>(arguments, 0);
  const std::int32_t* positions = integers(arguments, 1);
  const float* table = input(arguments, 2);
  T* y_all = output<T>(arguments, 0);
  const std::int64_t half = op.head_dim / 2;
  const std::int64_t width = op.heads * op.head_dim;
  const float sign = op.inverse ? -1.0F : 1.0F;
  const auto each_row = [&](std::int64_t first, std::int64_t last, int /*thread*/) {
    for (std::int64_t head_row = first * op.heads; head_row < last * op.heads; ++head_row) {
      const float* angle = table + positions[head_row / op.heads] * op.head_dim;
      const T* x = x_all + head_row * op.head_dim;
      T* y = y_all + head_row * op.head_dim;
#pragma omp simd
      for (std::int64_t j = 0; j < half; ++j) {
        const float c = angle[j];
        const float s = sign * angle[half + j];
        const float low = x[j];
        const float high = x[j + half];
        y[j] = low * c - high * s;
        y[j + half] = high * c + low * s;
      }
    }
  };
  parallel_ranges(arguments.threads, op.rows, rows_worth_a_thread(width), each_row);
}

}  // namespace

void run_embedding(const Embedding& op, const Arguments& arguments) {
  in_type_of(arguments, [&]<typename T>(T /*element*/) { embedding<T>(op, arguments); });
}

void run_embedding_grad(const EmbeddingGrad& op, const Arguments& arguments) {
  in_type_of(arguments, [&]<typename T>(T /*element*/) { embedding_grad<T>(op, arguments); });
}

void run_rope(const Rope& op, const Arguments& arguments) {
  in_type_of(arguments, [&]<typename T>(T /*element*/) { rope<T>(op, arguments); });
}

}  // namespace hethub::HETHUB_LEVEL

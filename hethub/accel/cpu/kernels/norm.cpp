// Norms, biases and their gradients: what sums over rows or columns.

#include "hethub/accel/cpu/kernels/operands.h"
#include "hethub/accel/cpu/kernels/parallel.h"
#include "hethub/accel/cpu/kernels/run.h"

namespace hethub::HETHUB_LEVEL {
namespace {

// Columns that one thread sums at a time: a row's part is four cache lines.
constexpr std::int64_t kColumns = 64;

// total[column] += Σ over rows of term(row, column), in double, rows in order.
template <typename Term>
inline void add_column_sums(const Arguments& arguments, std::int64_t rows, std::int64_t width,
                            float* total, const Term& term) {
  const std::int64_t blocks = (width + kColumns - 1) / kColumns;
  const std::int64_t least = rows_worth_a_thread(rows * kColumns);
  parallel_ranges(arguments.threads, blocks, least,
                  [&](std::int64_t first, std::int64_t last, int /*thread*/) {
                    for (std::int64_t block = first; block < last; ++block) {
                      const std::int64_t start = block * kColumns;
                      const std::int64_t size = width - start < kColumns ? width - start : kColumns;
                      double sums[kColumns] = {};
                      for (std::int64_t row = 0; row < rows; ++row) {
#pragma omp simd
                        for (std::int64_t j = 0; j < size; ++j) {
                          sums[j] += static_cast<double>(term(row, start + j));
                        }
                      }
                      for (std::int64_t j = 0; j < size; ++j) {
                        total[start + j] = static_cast<float>(total[start + j] + sums[j]);
                      }
                    }
                  });
}

template <typename T>
void bias_grad(const BiasGrad& op, const Arguments& arguments) {
  const T* dy = input<T>(arguments, 0);
  const std::int64_t width = op.width;
  add_column_sums(arguments, op.rows, op.width, output(arguments, 0),
                  [=](std::int64_t row, std::int64_t column) { return dy[row * width + column]; });
}

template <typename T>
void rms_norm_grad_gain(const RmsNormGradGain& op, const Arguments& arguments) {
  const T* dy = input<T>(arguments, 0);
  const T* x = input<T>(arguments, 1);
  const float* rstd = input(arguments, 2);
  const std::int64_t width = op.width;
  add_column_sums(arguments, op.rows, op.width, output(arguments, 0),
                  [=](std::int64_t row, std::int64_t column) {
                    return dy[row * width + column] * x[row * width + column] * rstd[row];
                  });
}

template <typename T>
void layer_norm_grad_gain(const LayerNormGradGain& op, const Arguments& arguments) {
  const T* dy = input<T>(arguments, 0);
  const T* x = input<T>(arguments, 1);
  const float* mean = input(arguments, 2);
  const float* rstd = input(arguments, 3);
  const std::int64_t width = op.width;
  add_column_sums(arguments, op.rows, op.width, output(arguments, 0),
                  [=](std::int64_t row, std::int64_t column) {
                    const float centred = x[row * width + column] - mean[row];
                    return dy[row * width + column] * centred * rstd[row];
                  });
}

template <typename T>
void add_bias(const AddBias& op, const Arguments& arguments) {
  const T* x = input<T>(arguments, 0);
  const T* bias = input<T>(arguments, 1);
  T* y = output<T>(arguments, 0);
  const auto each_row = [&](std::int64_t first, std::int64_t last, int /*thread*/) {
    for (std::int64_t row = first; row < last; ++row) {
      const std::int64_t at = row * op.width;
#pragma omp simd
      for (std::int64_t j = 0; j < op.width; ++j) {
        y[at + j] = x[at + j] + bias[j];
      }
    }
  };
  parallel_ranges(arguments.threads, op.rows, rows_worth_a_thread(op.width), each_row);
}

template <typename T>
void layer_norm(const LayerNorm& op, const Arguments& arguments) {
  const T* all = input<T>(arguments, 0);
  const T* gain = input<T>(arguments, 1);
  const T* bias = input<T>(arguments, 2);
  T* y_all = output<T>(arguments, 0);
  float* means = output(arguments, 1);
  float* rstd = output(arguments, 2);
  const auto each_row = [&](std::int64_t first, std::int64_t last, int /*thread*/) {
    for (std::int64_t row = first; row < last; ++row) {
      const T* x = all + row * op.width;
      T* y = y_all + row * op.width;
      double sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t j = 0; j < op.width; ++j) {
        sum += static_cast<double>(x[j]);
      }
      const double mean = sum / static_cast<double>(op.width);
      double squares = 0;
#pragma omp simd reduction(+ : squares)
      for (std::int64_t j = 0; j < op.width; ++j) {
        const double centred = x[j] - mean;
        squares += centred * centred;
      }
      const double variance = squares / static_cast<double>(op.width);
      const auto r = static_cast<float>(1.0 / __builtin_sqrt(variance + op.eps));
      const auto m = static_cast<float>(mean);
      means[row] = m;
      rstd[row] = r;
#pragma omp simd
      for (std::int64_t j = 0; j < op.width; ++j) {
        y[j] = (x[j] - m) * r * gain[j] + bias[j];
      }
    }
  };
  parallel_ranges(arguments.threads, op.rows, rows_worth_a_thread(op.width), each_row);
}

template <typename T>
void layer_norm_grad_input(const LayerNormGradInput& op, const Arguments& arguments) {
  const T* dy_all = input<T>(arguments, 0);
  const T* x_all = input<T>(arguments, 1);
  const T* gain = input<T>(arguments, 2);
  const float* means = input(arguments, 3);
  const float* rstd = input(arguments, 4);
  T* dx_all = output<T>(arguments, 0);
  const auto each_row = [&](std::int64_t first, std::int64_t last, int /*thread*/) {
    for (std::int64_t row = first; row < last; ++row) {
      const T* dy = dy_all + row * op.width;
      const T* x = x_all + row * op.width;
      T* dx = dx_all + row * op.width;
      const float mean = means[row];
      const float r = rstd[row];
      double sum = 0;
      double along = 0;
#pragma omp simd reduction(+ : sum, along)
      for (std::int64_t j = 0; j < op.width; ++j) {
        const float g = dy[j] * gain[j];
        sum += static_cast<double>(g);
        along += static_cast<double>(g) * ((x[j] - mean) * r);
      }
      const auto level = static_cast<float>(sum / static_cast<double>(op.width));
      const auto pull = static_cast<float>(along / static_cast<double>(op.width));
#pragma omp simd
      for (std::int64_t j = 0; j < op.width; ++j) {
        dx[j] = r * (dy[j] * gain[j] - level - (x[j] - mean) * r * pull);
      }
    }
  };
  parallel_ranges(arguments.threads, op.rows, rows_worth_a_thread(op.width), each_row);
}

template <typename T>
void rms_norm(const RmsNorm& op, const Arguments& arguments) {
  const T* all = input<T>(arguments, 0);
  const T* gain = input<T>(arguments, 1);
  T* y_all = output<T>(arguments, 0);
  float* rstd = output(arguments, 1);
  const auto each_row = [&](std::int64_t first, std::int64_t last, int /*thread*/) {
    for (std::int64_t row = first; row < last; ++row) {
      const T* x = all + row * op.width;
      T* y = y_all + row * op.width;
      double squares = 0;
#pragma omp simd reduction(+ : squares)
      for (std::int64_t j = 0; j < op.width; ++j) {
        squares += static_cast<double>(x[j]) * x[j];
      }
      const double mean = squares / static_cast<double>(op.width);
      const auto r = static_cast<float>(1.0 / __builtin_sqrt(mean + op.eps));
      rstd[row] = r;
#pragma omp simd
      for (std::int64_t j = 0; j < op.width; ++j) {
        y[j] = x[j] * r * gain[j];
      }
    }
  };
  parallel_ranges(arguments.threads, op.rows, rows_worth_a_thread(op.width), each_row);
}

template <typename T>
void rms_norm_grad_input(const RmsNormGradInput& op, const Arguments& arguments) {
  const T* dy_all = input<T>(arguments, 0);
  const T* x_all = input<T>(arguments, 1);
  const T* gain = input<T>(arguments, 2);
  const float* rstd = input(arguments, 3);
  T* dx_all = output<T>(arguments, 0);
  const auto each_row = [&](std::int64_t first, std::int64_t last, int /*thread*/) {
    for (std::int64_t row = first; row < last; ++row) {
      const T* dy = dy_all + row * op.width;
      const T* x = x_all + row * op.width;
      T* dx = dx_all + row * op.width;
      double sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t j = 0; j < op.width; ++j) {
        sum += static_cast<double>(dy[j] * gain[j]) * x[j];
      }
      const float r = rstd[row];
      const auto pull = static_cast<float>(sum / static_cast<double>(op.width) * r * r);
#pragma omp simd
      for (std::int64_t j = 0; j < op.width; ++j) {
        dx[j] = r * (dy[j] * gain[j] - x[j] * pull);
      }
    }
  };
  parallel_ranges(arguments.threads, op.rows, rows_worth_a_thread(op.width), each_row);
}

}  // namespace

void run_bias_grad(const BiasGrad& op, const Arguments& arguments) {
  in_type_of(arguments, [&]<typename T>(T /*element*/) { bias_grad<T>(op, arguments); });
}

void run_rms_norm_grad_gain(const RmsNormGradGain& op, const Arguments& arguments) {
  in_type_of(arguments, [&]<typename T>(T /*element*/) { rms_norm_grad_gain<T>(op, arguments); });
}

void run_add_bias(const AddBias& op, const Arguments& arguments) {
  in_type_of(arguments, [&]<typename T>(T /*element*/) { add_bias<T>(op, arguments); });
}

void run_layer_norm(const LayerNorm& op, const Arguments& arguments) {
  in_type_of(arguments, [&]<typename T>(T /*element*/) { layer_norm<T>(op, arguments); });
}

void run_layer_norm_grad_input(const LayerNormGradInput& op, const Arguments& arguments) {
  in_type_of(arguments,
             [&]<typename T>(T /*element*/) { layer_norm_grad_input<T>(op, arguments); });
}

void run_layer_norm_grad_gain(const LayerNormGradGain& op, const Arguments& arguments) {
  in_type_of(arguments, [&]<typename T>(T /*element*/) { layer_norm_grad_gain<T>(op, arguments); });
}

void run_rms_norm(const RmsNorm& op, const Arguments& arguments) {
  in_type_of(arguments, [&]<typename T>(T /*element*/) { rms_norm<T>(op, arguments); });
}

void run_rms_norm_grad_input(const RmsNormGradInput& op, const Arguments& arguments) {
  in_type_of(arguments, [&]<typename T>(T /*element*/) { rms_norm_grad_input<T>(op, arguments); });
}

}  // namespace hethub::HETHUB_LEVEL

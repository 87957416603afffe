// Cross entropy over a row of logits, and its gradient.

#include "hethub/accel/cpu/kernels/math.h"
#include "hethub/accel/cpu/kernels/operands.h"
#include "hethub/accel/cpu/kernels/parallel.h"
#include "hethub/accel/cpu/kernels/run.h"

namespace hethub::HETHUB_LEVEL {
namespace {

constexpr std::int32_t kIgnored = -100;

template <typename T>
inline float largest(const T* x, std::int64_t count) {
  float most = x[0];
#pragma omp simd reduction(max : most)
  for (std::int64_t j = 0; j < count; ++j) {
    most = x[j] > most ? x[j] : most;
  }
  return most;
}

// log Σ exp(x), the sum in double.
template <typename T>
inline double log_sum_exp_of(const T* x, std::int64_t count) {
  const float most = largest(x, count);
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t j = 0; j < count; ++j) {
    sum += static_cast<double>(exp_of(x[j] - most));
  }
  return most + __builtin_log(sum);
}

template <typename T>
void cross_entropy(const CrossEntropy& op, const Arguments& arguments) {
  const T* logits = input<T>(arguments, 0);
  const std::int32_t* labels = integers(arguments, 1);
  float* losses = output(arguments, 0);
  float* lse = output(arguments, 1);
  const auto each_row = [&](std::int64_t first, std::int64_t last, int /*thread*/) {
    for (std::int64_t row = first; row < last; ++row) {
      const T* x = logits + row * op.vocab;
      const double whole = log_sum_exp_of(x, op.vocab);
      const std::int32_t label = labels[row];
      lse[row] = static_cast<float>(whole);
      losses[row] = label == kIgnored ? 0.0F : static_cast<float>(whole - x[label]);
    }
  };
  parallel_ranges(arguments.threads, op.rows, rows_worth_a_thread(op.vocab), each_row);
}

template <typename T>
void log_sum_exp(const LogSumExp& op, const Arguments& arguments) {
  const T* x = input<T>(arguments, 0);
  float* lse = output(arguments, 0);
  const auto each_row = [&](std::int64_t first, std::int64_t last, int /*thread*/) {
    for (std::int64_t row = first; row < last; ++row) {
      lse[row] = static_cast<float>(log_sum_exp_of(x + row * op.width, op.width));
    }
  };
  parallel_ranges(arguments.threads, op.rows, rows_worth_a_thread(op.width), each_row);
}

template <typename T>
void cross_entropy_part(const CrossEntropyPart& op, const Arguments& arguments) {
  const T* logits = input<T>(arguments, 0);
  const std::int32_t* labels = integers(arguments, 1);
  const float* lses = input(arguments, 2);
  float* losses = output(arguments, 0);
  float* lse = output(arguments, 1);
  for (std::int64_t row = 0; row < op.rows; ++row) {
    float most = lses[row];
    for (std::int64_t part = 1; part < op.parts; ++part) {
      const float other = lses[part * op.rows + row];
      most = other > most ? other : most;
    }
    double sum = 0;
    for (std::int64_t part = 0; part < op.parts; ++part) {
      sum += __builtin_exp(static_cast<double>(lses[part * op.rows + row]) - most);
    }
    const double whole = most + __builtin_log(sum);
    const std::int64_t label = labels[row] - op.first;
    const bool here = labels[row] != kIgnored && label >= 0 && label < op.vocab;
    lse[row] = static_cast<float>(whole);
    losses[row] = here ? static_cast<float>(whole - logits[row * op.vocab + label]) : 0.0F;
  }
}

template <typename T>
void cross_entropy_grad(const CrossEntropyGrad& op, const Arguments& arguments) {
  const T* logits = input<T>(arguments, 0);
  const std::int32_t* labels = integers(arguments, 1);
  const float* lse = input(arguments, 2);
  T* dlogits = output<T>(arguments, 0);
  const auto each_row = [&](std::int64_t first, std::int64_t last, int /*thread*/) {
    for (std::int64_t row = first; row < last; ++row) {
      const T* x = logits + row * op.vocab;
      T* dx = dlogits + row * op.vocab;
      const std::int32_t label = labels[row];
      const float counted = label == kIgnored ? 0.0F : 1.0F;
      const float whole = lse[row];
      const std::int64_t column = label - op.first;
      const bool here = label != kIgnored && column >= 0 && column < op.vocab;
      const float slope = counted * (1.0F + 2.0F * static_cast<float>(op.z) * whole);
      const float at_label = here ? slope * exp_of(x[column] - whole) - 1.0F : 0.0F;
#pragma omp simd
      for (std::int64_t j = 0; j < op.vocab; ++j) {
        dx[j] = slope * exp_of(x[j] - whole);
      }
      if (here) dx[column] = at_label;
    }
  };
  parallel_ranges(arguments.threads, op.rows, rows_worth_a_thread(op.vocab), each_row);
}

}  // namespace

void run_cross_entropy(const CrossEntropy& op, const Arguments& arguments) {
  in_type_of(arguments, [&]<typename T>(T /*element*/) { cross_entropy<T>(op, arguments); });
}

void run_log_sum_exp(const LogSumExp& op, const Arguments& arguments) {
  in_type_of(arguments, [&]<typename T>(T /*element*/) { log_sum_exp<T>(op, arguments); });
}

void run_cross_entropy_part(const CrossEntropyPart& op, const Arguments& arguments) {
  in_type_of(arguments, [&]<typename T>(T /*element*/) { cross_entropy_part<T>(op, arguments); });
}

void run_cross_entropy_grad(const CrossEntropyGrad& op, const Arguments& arguments) {
  in_type_of(arguments, [&]<typename T>(T /*element*/) { cross_entropy_grad<T>(op, arguments); });
}

}  // namespace hethub::HETHUB_LEVEL

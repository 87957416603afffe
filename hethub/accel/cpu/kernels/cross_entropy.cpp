// Cross entropy over a row of logits, and its gradient.

#include "hethub/accel/cpu/kernels/math.h"
#include "hethub/accel/cpu/kernels/operands.h"
#include "hethub/accel/cpu/kernels/parallel.h"
#include "hethub/accel/cpu/kernels/run.h"

namespace hethub::HETHUB_LEVEL {
namespace {

constexpr std::int32_t kIgnored = -100;

inline float largest(const float* x, std::int64_t count) {
  float most = x[0];
#pragma omp simd reduction(max : most)
  for (std::int64_t j = 0; j < count; ++j) {
    most = x[j] > most ? x[j] : most;
  }
  return most;
}

// log Σ exp(x), the sum in double.
inline double log_sum_exp(const float* x, std::int64_t count) {
  const float most = largest(x, count);
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t j = 0; j < count; ++j) {
    sum += static_cast<double>(exp_of(x[j] - most));
  }
  return most + __builtin_log(sum);
}

}  // namespace

void run_cross_entropy(const CrossEntropy& op, const Arguments& arguments) {
  const float* logits = input(arguments, 0);
  const std::int32_t* labels = integers(arguments, 1);
  float* losses = output(arguments, 0);
  float* lse = output(arguments, 1);
  const auto each_row = [&](std::int64_t first, std::int64_t last, int /*thread*/) {
    for (std::int64_t row = first; row < last; ++row) {
      const float* x = logits + row * op.vocab;
      const double whole = log_sum_exp(x, op.vocab);
      const std::int32_t label = labels[row];
      lse[row] = static_cast<float>(whole);
      losses[row] = label == kIgnored ? 0.0F : static_cast<float>(whole - x[label]);
    }
  };
  parallel_ranges(arguments.threads, op.rows, rows_worth_a_thread(op.vocab), each_row);
}

void run_log_sum_exp(const LogSumExp& op, const Arguments& arguments) {
  const float* x = input(arguments, 0);
  float* lse = output(arguments, 0);
  const auto each_row = [&](std::int64_t first, std::int64_t last, int /*thread*/) {
    for (std::int64_t row = first; row < last; ++row) {
      lse[row] = static_cast<float>(log_sum_exp(x + row * op.width, op.width));
    }
  };
  parallel_ranges(arguments.threads, op.rows, rows_worth_a_thread(op.width), each_row);
}

void run_cross_entropy_part(const CrossEntropyPart& op, const Arguments& arguments) {
  const float* logits = input(arguments, 0);
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

void run_cross_entropy_grad(const CrossEntropyGrad& op, const Arguments& arguments) {
  const float* logits = input(arguments, 0);
  const std::int32_t* labels = integers(arguments, 1);
  const float* lse = input(arguments, 2);
  float* dlogits = output(arguments, 0);
  const auto each_row = [&](std::int64_t first, std::int64_t last, int /*thread*/) {
    for (std::int64_t row = first; row < last; ++row) {
      const float* x = logits + row * op.vocab;
      float* dx = dlogits + row * op.vocab;
      const std::int32_t label = labels[row];
      const float counted = label == kIgnored ? 0.0F : 1.0F;
      const float whole = lse[row];
#pragma omp simd
      for (std::int64_t j = 0; j < op.vocab; ++j) {
        dx[j] = counted * exp_of(x[j] - whole);
      }
      const std::int64_t column = label - op.first;
      if (label != kIgnored && column >= 0 && column < op.vocab) dx[column] -= 1.0F;
    }
  };
  parallel_ranges(arguments.threads, op.rows, rows_worth_a_thread(op.vocab), each_row);
}

}  // namespace hethub::HETHUB_LEVEL

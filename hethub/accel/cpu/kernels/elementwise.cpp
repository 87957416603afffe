// Ops that work element by element, and the sum of squares.

#include "hethub/accel/cpu/kernels/math.h"
#include "hethub/accel/cpu/kernels/operands.h"
#include "hethub/accel/cpu/kernels/parallel.h"
#include "hethub/accel/cpu/kernels/run.h"

namespace hethub::HETHUB_LEVEL {
namespace {

constexpr std::int64_t kLeastShare = 8192;  // elements worth a thread

// Runs each(i) for i < count in vectors. Operands are the same memory or apart, never shifted.
template <typename Each>
inline void for_elements(const Arguments& arguments, std::int64_t count, const Each& each) {
  parallel_ranges(arguments.threads, count, kLeastShare,
                  [&](std::int64_t first, std::int64_t last, int /*thread*/) {
                    // A copy on this thread's stack: the compiler then knows no store changes it.
                    const Each body = each;
#pragma omp simd
                    for (std::int64_t i = first; i < last; ++i) {
                      body(i);
                    }
                  });
}

template <typename T>
void silu_mul(const SiluMul& op, const Arguments& arguments) {
  const T* gate = input<T>(arguments, 0);
  const T* up = input<T>(arguments, 1);
  T* y = output<T>(arguments, 0);
  for_elements(arguments, op.rows * op.width,
               [=](std::int64_t i) { y[i] = gate[i] * sigmoid(gate[i]) * up[i]; });
}

template <typename T>
void silu_mul_grad(const SiluMulGrad& op, const Arguments& arguments) {
  const T* dy = input<T>(arguments, 0);
  const T* gate = input<T>(arguments, 1);
  const T* up = input<T>(arguments, 2);
  T* dgate = output<T>(arguments, 0);
  T* dup = output<T>(arguments, 1);
  for_elements(arguments, op.rows * op.width, [=](std::int64_t i) {
    const float s = sigmoid(gate[i]);
    const float silu = gate[i] * s;
    const float slope = s + silu * (1.0F - s);
    const float at_gate = dy[i] * up[i] * slope;
    const float at_up = dy[i] * silu;
    dgate[i] = at_gate;
    dup[i] = at_up;
  });
}

// Of GELU's approximation: x · sigmoid(twice the argument of its tanh).
constexpr float kGeluSlope = 1.5957691216F;  // 2 · sqrt(2 / pi)
constexpr float kGeluCubic = 0.044715F;

template <typename T>
void gelu(const Gelu& op, const Arguments& arguments) {
  const T* x = input<T>(arguments, 0);
  T* y = output<T>(arguments, 0);
  for_elements(arguments, op.rows * op.width, [=](std::int64_t i) {
    const float v = x[i];
    y[i] = v * sigmoid(kGeluSlope * v * (1.0F + kGeluCubic * v * v));
  });
}

template <typename T>
void gelu_grad(const GeluGrad& op, const Arguments& arguments) {
  const T* dy = input<T>(arguments, 0);
  const T* x = input<T>(arguments, 1);
  T* dx = output<T>(arguments, 0);
  for_elements(arguments, op.rows * op.width, [=](std::int64_t i) {
    const float v = x[i];
    const float s = sigmoid(kGeluSlope * v * (1.0F + kGeluCubic * v * v));
    const float slope = kGeluSlope * (1.0F + 3.0F * kGeluCubic * v * v);
    dx[i] = dy[i] * (s + v * s * (1.0F - s) * slope);
  });
}

template <typename T>
void add(const Add& op, const Arguments& arguments) {
  const T* a = input<T>(arguments, 0);
  const T* b = input<T>(arguments, 1);
  T* y = output<T>(arguments, 0);
  for_elements(arguments, op.count, [=](std::int64_t i) { y[i] = a[i] + b[i]; });
}

template <typename T>
void convert(const Convert& op, const Arguments& arguments) {
  const float* x = input(arguments, 0);
  T* y = output<T>(arguments, 0);
  for_elements(arguments, op.count, [=](std::int64_t i) { y[i] = x[i]; });
}

template <typename T>
void fill(const Fill& op, const Arguments& arguments) {
  T* x = output<T>(arguments, 0);
  const auto value = static_cast<float>(op.value);
  for_elements(arguments, op.count, [=](std::int64_t i) { x[i] = value; });
}

// Ranges that depend on the count alone, and their sums added in order: any number of threads gives
// the same bits.
template <typename T>
void sum_squares(const SumSquares& op, const Arguments& arguments) {
  constexpr std::int64_t kRanges = 512;  // doubles in the workspace
  const T* x = input<T>(arguments, 0);
  auto* sums = static_cast<double*>(arguments.workspace);
  const std::int64_t ranges =
      op.count / kLeastShare < kRanges ? op.count / kLeastShare + 1 : kRanges;
  parallel_ranges(arguments.threads, ranges, 1,
                  [&](std::int64_t first, std::int64_t last, int /*thread*/) {
                    for (std::int64_t range = first; range < last; ++range) {
                      double sum = 0;
                      const std::int64_t end = op.count * (range + 1) / ranges;
#pragma omp simd reduction(+ : sum)
                      for (std::int64_t i = op.count * range / ranges; i < end; ++i) {
                        const double value = x[i];
                        sum += value * value;
                      }
                      sums[range] = sum;
                    }
                  });
  double total = 0;
  for (std::int64_t range = 0; range < ranges; ++range) {
    total += sums[range];
  }
  output(arguments, 0)[0] = static_cast<float>(total);
}

}  // namespace

void run_silu_mul(const SiluMul& op, const Arguments& arguments) {
  in_type_of(arguments, [&]<typename T>(T /*element*/) { silu_mul<T>(op, arguments); });
}

void run_silu_mul_grad(const SiluMulGrad& op, const Arguments& arguments) {
  in_type_of(arguments, [&]<typename T>(T /*element*/) { silu_mul_grad<T>(op, arguments); });
}

void run_gelu(const Gelu& op, const Arguments& arguments) {
  in_type_of(arguments, [&]<typename T>(T /*element*/) { gelu<T>(op, arguments); });
}

void run_gelu_grad(const GeluGrad& op, const Arguments& arguments) {
  in_type_of(arguments, [&]<typename T>(T /*element*/) { gelu_grad<T>(op, arguments); });
}

void run_add(const Add& op, const Arguments& arguments) {
  in_type_of(arguments, [&]<typename T>(T /*element*/) { add<T>(op, arguments); });
}

void run_fill(const Fill& op, const Arguments& arguments) {
  in_type_of(arguments, [&]<typename T>(T /*element*/) { fill<T>(op, arguments); });
}

void run_convert(const Convert& op, const Arguments& arguments) {
  in_type_of(arguments, [&]<typename T>(T /*element*/) { convert<T>(op, arguments); });
}

void run_adamw(const AdamW& op, const Arguments& arguments) {
  const float* gradient = input(arguments, 3);
  const float* scalars = input(arguments, 4);
  float* p = output(arguments, 0);
  float* m = output(arguments, 1);
  float* v = output(arguments, 2);
  const auto scalar = [&](AdamWScalar name) { return scalars[static_cast<int>(name)]; };
  const float rate = scalar(AdamWScalar::kLearningRate);
  const float beta1 = scalar(AdamWScalar::kBeta1);
  const float beta2 = scalar(AdamWScalar::kBeta2);
  const float epsilon = scalar(AdamWScalar::kEpsilon);
  const float scale = scalar(AdamWScalar::kGradientScale);
  const float decay = op.decay ? rate * scalar(AdamWScalar::kWeightDecay) : 0.0F;
  const float correction1 = 1.0F / scalar(AdamWScalar::kBiasCorrection1);
  const float correction2 = 1.0F / scalar(AdamWScalar::kBiasCorrection2);
  for_elements(arguments, op.count, [=](std::int64_t i) {
    const float g = gradient[i] * scale;
    const float mean = beta1 * m[i] + (1.0F - beta1) * g;
    const float square = beta2 * v[i] + (1.0F - beta2) * (g * g);
    const float kept = p[i] - decay * p[i];
    const float step =
        rate * (mean * correction1) / (__builtin_sqrtf(square * correction2) + epsilon);
    m[i] = mean;
    v[i] = square;
    p[i] = kept - step;
  });
}

void run_sum_squares(const SumSquares& op, const Arguments& arguments) {
  in_type_of(arguments, [&]<typename T>(T /*element*/) { sum_squares<T>(op, arguments); });
}

}  // namespace hethub::HETHUB_LEVEL

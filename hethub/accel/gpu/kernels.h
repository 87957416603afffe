#pragma once

// Kernels of every op but the matrix products' libraries, one source for CUDA, HIP and the CPU of
// the tests. Sizes and positions are long; fp32 throughout. "vendor.h" is the vendor folder's.

#include "vendor.h"

namespace hethub::gpu {

constexpr int kThreads = 256;     ///< of a block in kernels that work element by element
constexpr int kRowThreads = 128;  ///< of a block that shares a row
constexpr int kKeys = 64;         ///< keys, or queries, that a block of attention takes at once
constexpr int kMostHeadDim = 256;
constexpr int kHeadParts = kMostHeadDim / kKeys;  ///< elements of a head that a thread owns
constexpr int kTile = 16;                         ///< side of the tiles of the matrix product
constexpr int kNotCounted = -100;

HETHUB_DEVICE long item_index() { return block_index() * block_threads() + thread_index(); }

HETHUB_DEVICE float not_a_number() { return nanf(""); }

// One value over the block, in a fixed order; every thread gets it, and all must call it.
template <typename T>
HETHUB_DEVICE T block_sum(T value, T* scratch) {
  scratch[thread_index()] = value;
  sync();
  for (int step = block_threads() / 2; step > 0; step /= 2) {
    if (thread_index() < step) scratch[thread_index()] += scratch[thread_index() + step];
    sync();
  }
  const T sum = scratch[0];
  sync();
  return sum;
}

HETHUB_DEVICE float block_most(float value, float* scratch) {
  scratch[thread_index()] = value;
  sync();
  for (int step = block_threads() / 2; step > 0; step /= 2) {
    if (thread_index() < step) {
      scratch[thread_index()] = fmaxf(scratch[thread_index()], scratch[thread_index() + step]);
    }
    sync();
  }
  const float most = scratch[0];
  sync();
  return most;
}

// ---- element by element -----------------------------------------------------------------------

HETHUB_KERNEL add(const float* a, const float* b, float* y, long count) {
  const long i = item_index();
  if (i < count) y[i] = a[i] + b[i];
}

HETHUB_KERNEL convert(const float* x, float* y, long count) {
  const long i = item_index();
  if (i < count) y[i] = x[i];
}

HETHUB_KERNEL fill(float* x, float value, long count) {
  const long i = item_index();
  if (i < count) x[i] = value;
}

HETHUB_KERNEL spread_bias(const float* bias, float* y, long rows, long width) {
  const long i = item_index();
  if (i < rows * width) y[i] = bias[i % width];
}

HETHUB_DEVICE float sigmoid(float x) { return 1.0F / (1.0F + expf(-x)); }

HETHUB_KERNEL silu_mul(const float* gate, const float* up, float* y, long count) {
  const long i = item_index();
  if (i < count) y[i] = gate[i] * sigmoid(gate[i]) * up[i];
}

HETHUB_KERNEL silu_mul_grad(const float* dy, const float* gate, const float* up, float* dgate,
                            float* dup, long count) {
  const long i = item_index();
  if (i >= count) return;
  const float d = dy[i];
  const float g = gate[i];
  const float u = up[i];
  const float s = sigmoid(g);
  dgate[i] = d * u * s * (1.0F + g * (1.0F - s));
  dup[i] = d * g * s;
}

// GELU's approximation: x · sigmoid(twice the argument of its tanh).
constexpr float kGeluSlope = 1.5957691216F;  // 2 · sqrt(2 / pi)
constexpr float kGeluCubic = 0.044715F;

HETHUB_KERNEL gelu(const float* x, float* y, long count) {
  const long i = item_index();
  if (i < count) y[i] = x[i] * sigmoid(kGeluSlope * x[i] * (1.0F + kGeluCubic * x[i] * x[i]));
}

HETHUB_KERNEL gelu_grad(const float* dy, const float* x, float* dx, long count) {
  const long i = item_index();
  if (i >= count) return;
  const float v = x[i];
  const float s = sigmoid(kGeluSlope * v * (1.0F + kGeluCubic * v * v));
  const float slope = kGeluSlope * (1.0F + 3.0F * kGeluCubic * v * v);
  dx[i] = dy[i] * (s + v * s * (1.0F - s) * slope);
}

HETHUB_KERNEL add_bias(const float* x, const float* bias, float* y, long count, long width) {
  const long i = item_index();
  if (i < count) y[i] = x[i] + bias[i % width];
}

// scalars: learning rate, beta1, beta2, epsilon, decay, gradient scale, 1-beta1^t, 1-beta2^t.
HETHUB_KERNEL adamw(float* parameter, float* first, float* second, const float* gradient,
                    const float* scalars, long count, bool decay) {
  const long i = item_index();
  if (i >= count) return;
  const float g = gradient[i] * scalars[5];
  const float m = scalars[1] * first[i] + (1.0F - scalars[1]) * g;
  const float v = scalars[2] * second[i] + (1.0F - scalars[2]) * g * g;
  float p = parameter[i];
  if (decay) p -= scalars[0] * scalars[4] * p;
  p -= scalars[0] * (m / scalars[6]) / (sqrtf(v / scalars[7]) + scalars[3]);
  parameter[i] = p;
  first[i] = m;
  second[i] = v;
}

// A position outside the table gives NaN: never another's memory, and nothing that looks right.
HETHUB_KERNEL rope(const float* x, const int* positions, const float* table, float* y, long rows,
                   long heads, long head_dim, long table_rows, float sign) {
  const long half = head_dim / 2;
  const long i = item_index();
  if (i >= rows * heads * half) return;
  const long head = i / half;
  const long j = i % half;
  const long p = positions[head / heads];
  const bool known = p >= 0 && p < table_rows;
  const float c = known ? table[p * head_dim + j] : not_a_number();
  const float s = known ? sign * table[p * head_dim + half + j] : not_a_number();
  const float a = x[head * head_dim + j];
  const float b = x[head * head_dim + half + j];
  y[head * head_dim + j] = a * c - b * s;
  y[head * head_dim + half + j] = b * c + a * s;
}

// The table's rows are first .. first + vocab - 1 of `whole`. An id of the others gives zeros, one
// outside them all NaN.
HETHUB_KERNEL embedding(const int* ids, const float* table, float* y, long rows, long vocab,
                        long width, long first, long whole) {
  const long i = item_index();
  if (i >= rows * width) return;
  const long id = ids[i / width];
  const long at = id - first;
  float value = id >= 0 && id < whole ? 0.0F : not_a_number();
  if (at >= 0 && at < vocab) value = table[at * width + i % width];
  y[i] = value;
}

// A thread owns a column and takes the rows in order: the sum has one order.
HETHUB_KERNEL embedding_grad(const int* ids, const float* dy, float* dtable, long rows, long vocab,
                             long width, long first) {
  const long column = item_index();
  if (column >= width) return;
  for (long row = 0; row < rows; ++row) {
    const long at = ids[row] - first;
    if (at >= 0 && at < vocab) dtable[at * width + column] += dy[row * width + column];
  }
}

// ---- rows and columns -------------------------------------------------------------------------

// total[width] += Σ over rows of dy · x · rstd, or of dy alone if x is null. A thread owns a
// column; 64 rows make a part, so that rounding grows with neither the rows nor their parts alone.
HETHUB_KERNEL sum_rows(const float* dy, const float* x, const float* rstd, float* total, long rows,
                       long width) {
  constexpr long kPart = 64;
  const long column = item_index();
  if (column >= width) return;
  float sum = 0;
  for (long from = 0; from < rows; from += kPart) {
    float part = 0;
    for (long row = from; row < rows && row < from + kPart; ++row) {
      const long at = row * width + column;
      part += x == nullptr ? dy[at] : dy[at] * x[at] * rstd[row];
    }
    sum += part;
  }
  total[column] += sum;
}

HETHUB_KERNEL rms_norm(const float* x, const float* gain, float* y, float* rstd, long width,
                       float eps) {
  HETHUB_SHARED(float, scratch, kRowThreads);
  const long row = block_index();
  float sum = 0;
  for (long c = thread_index(); c < width; c += block_threads()) {
    sum += x[row * width + c] * x[row * width + c];
  }
  const float r = 1.0F / sqrtf(block_sum(sum, scratch) / static_cast<float>(width) + eps);
  for (long c = thread_index(); c < width; c += block_threads()) {
    y[row * width + c] = x[row * width + c] * r * gain[c];
  }
  if (thread_index() == 0) rstd[row] = r;
}

HETHUB_KERNEL rms_norm_grad_input(const float* dy, const float* x, const float* gain,
                                  const float* rstd, float* dx, long width) {
  HETHUB_SHARED(float, scratch, kRowThreads);
  const long row = block_index();
  float sum = 0;
  for (long c = thread_index(); c < width; c += block_threads()) {
    sum += dy[row * width + c] * gain[c] * x[row * width + c];
  }
  const float r = rstd[row];
  const float factor = r * r * (block_sum(sum, scratch) / static_cast<float>(width));
  for (long c = thread_index(); c < width; c += block_threads()) {
    const long at = row * width + c;
    dx[at] = r * (dy[at] * gain[c] - x[at] * factor);
  }
}

HETHUB_KERNEL layer_norm(const float* x, const float* gain, const float* bias, float* y,
                         float* means, float* rstd, long width, float eps) {
  HETHUB_SHARED(float, scratch, kRowThreads);
  const long row = block_index();
  float sum = 0;
  for (long c = thread_index(); c < width; c += block_threads()) {
    sum += x[row * width + c];
  }
  const float mean = block_sum(sum, scratch) / static_cast<float>(width);
  float squares = 0;
  for (long c = thread_index(); c < width; c += block_threads()) {
    const float centred = x[row * width + c] - mean;
    squares += centred * centred;
  }
  const float r = 1.0F / sqrtf(block_sum(squares, scratch) / static_cast<float>(width) + eps);
  for (long c = thread_index(); c < width; c += block_threads()) {
    y[row * width + c] = (x[row * width + c] - mean) * r * gain[c] + bias[c];
  }
  if (thread_index() != 0) return;
  means[row] = mean;
  rstd[row] = r;
}

HETHUB_KERNEL layer_norm_grad_input(const float* dy, const float* x, const float* gain,
                                    const float* means, const float* rstd, float* dx, long width) {
  HETHUB_SHARED(float, scratch, kRowThreads);
  const long row = block_index();
  const float mean = means[row];
  const float r = rstd[row];
  float sum = 0;
  float along = 0;
  for (long c = thread_index(); c < width; c += block_threads()) {
    const float g = dy[row * width + c] * gain[c];
    sum += g;
    along += g * (x[row * width + c] - mean) * r;
  }
  const float level = block_sum(sum, scratch) / static_cast<float>(width);
  const float pull = block_sum(along, scratch) / static_cast<float>(width);
  for (long c = thread_index(); c < width; c += block_threads()) {
    const long at = row * width + c;
    dx[at] = r * (dy[at] * gain[c] - level - (x[at] - mean) * r * pull);
  }
}

// dgain[width] += Σ over rows of dy · (x - mean) · rstd, in parts as sum_rows.
HETHUB_KERNEL layer_norm_grad_gain(const float* dy, const float* x, const float* means,
                                   const float* rstd, float* dgain, long rows, long width) {
  constexpr long kPart = 64;
  const long column = item_index();
  if (column >= width) return;
  float sum = 0;
  for (long from = 0; from < rows; from += kPart) {
    float part = 0;
    for (long row = from; row < rows && row < from + kPart; ++row) {
      const long at = row * width + column;
      part += dy[at] * (x[at] - means[row]) * rstd[row];
    }
    sum += part;
  }
  dgain[column] += sum;
}

// lse of each row; with labels, the losses too.
HETHUB_KERNEL cross_entropy(const float* logits, const int* labels, float* losses, float* lse,
                            long vocab) {
  HETHUB_SHARED(float, scratch, kRowThreads);
  const long row = block_index();
  const float* in = logits + row * vocab;
  float most = -INFINITY;
  for (long c = thread_index(); c < vocab; c += block_threads()) {
    most = fmaxf(most, in[c]);
  }
  most = block_most(most, scratch);
  float sum = 0;
  for (long c = thread_index(); c < vocab; c += block_threads()) {
    sum += expf(in[c] - most);
  }
  const float log_sum = logf(block_sum(sum, scratch));
  if (thread_index() != 0) return;
  lse[row] = most + log_sum;
  if (labels == nullptr) return;
  const int label = labels[row];
  float loss = 0;
  if (label != kNotCounted) {
    loss = label >= 0 && label < vocab ? log_sum + (most - in[label]) : not_a_number();
  }
  losses[row] = loss;
}

// A thread owns a row: it is no more than a number for each part.
HETHUB_KERNEL cross_entropy_part(const float* logits, const int* labels, const float* lses,
                                 float* losses, float* lse, long rows, long vocab, long first,
                                 long whole, long parts) {
  const long row = item_index();
  if (row >= rows) return;
  float most = lses[row];
  for (long part = 1; part < parts; ++part) {
    most = fmaxf(most, lses[part * rows + row]);
  }
  float sum = 0;
  for (long part = 0; part < parts; ++part) {
    sum += expf(lses[part * rows + row] - most);
  }
  const float log_sum = logf(sum);
  const long label = labels[row];
  const long column = label - first;
  float loss = 0;
  if (label != kNotCounted && (label < 0 || label >= whole)) loss = not_a_number();
  if (label != kNotCounted && column >= 0 && column < vocab) {
    loss = log_sum + (most - logits[row * vocab + column]);
  }
  lse[row] = most + log_sum;
  losses[row] = loss;
}

HETHUB_KERNEL cross_entropy_grad(const float* logits, const int* labels, const float* lse,
                                 float* dlogits, long rows, long vocab, long first, float z) {
  const long i = item_index();
  if (i >= rows * vocab) return;
  const long row = i / vocab;
  const int label = labels[row];
  const float share = expf(logits[i] - lse[row]) * (1.0F + 2.0F * z * lse[row]);
  const float slope = share - (label - first == i % vocab ? 1.0F : 0.0F);
  dlogits[i] = label == kNotCounted ? 0.0F : slope;
}

// Sums in double, one for each block; then the sum of these.
HETHUB_KERNEL sum_squares_parts(const float* x, double* parts, long count, long blocks) {
  HETHUB_SHARED(double, scratch, kThreads);
  double sum = 0;
  for (long i = item_index(); i < count; i += blocks * block_threads()) {
    sum += static_cast<double>(x[i]) * x[i];
  }
  const double whole = block_sum(sum, scratch);
  if (thread_index() == 0) parts[block_index()] = whole;
}

HETHUB_KERNEL sum_parts(const double* parts, float* sum, long count) {
  HETHUB_SHARED(double, scratch, kThreads);
  double own = 0;
  for (long i = thread_index(); i < count; i += block_threads()) {
    own += parts[i];
  }
  const double whole = block_sum(own, scratch);
  if (thread_index() == 0) *sum = static_cast<float>(whole);
}

// ---- matrix product, where the vendor's library is not there -----------------------------------

struct MatrixSizes {
  long m = 0;
  long k = 0;
  long n = 0;
  bool a_transposed = false;
  bool b_transposed = false;
  bool accumulate = false;
};

// c[m, n] = a · b, or c += a · b. A block owns one tile of c and takes k in order.
HETHUB_KERNEL matrix_product(const float* a, const float* b, float* c, MatrixSizes size) {
  HETHUB_SHARED(float, left, kTile* kTile);
  HETHUB_SHARED(float, right, kTile* kTile);
  const int x = thread_index() % kTile;
  const int y = thread_index() / kTile;
  const long across = (size.n + kTile - 1) / kTile;
  const long row = block_index() / across * kTile + y;
  const long column = block_index() % across * kTile + x;
  float sum = 0;
  for (long from = 0; from < size.k; from += kTile) {
    const long ka = from + x;
    const long kb = from + y;
    const bool has_a = row < size.m && ka < size.k;
    const bool has_b = column < size.n && kb < size.k;
    left[y * kTile + x] =
        has_a ? a[size.a_transposed ? ka * size.m + row : row * size.k + ka] : 0.0F;
    right[y * kTile + x] =
        has_b ? b[size.b_transposed ? column * size.k + kb : kb * size.n + column] : 0.0F;
    sync();
    for (int k = 0; k < kTile; ++k) {
      sum += left[y * kTile + k] * right[k * kTile + x];
    }
    sync();
  }
  if (row >= size.m || column >= size.n) return;
  const long at = row * size.n + column;
  c[at] = size.accumulate ? c[at] + sum : sum;
}

}  // namespace hethub::gpu

// The loss, its gradient, and the norm of a bucket.

#define ROWS __kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void
#define EACH_VECTOR(c, width) \
  for (long c = (long)get_local_id(0) * WIDTH; c < width; c += LANES * WIDTH)

// `read_v` with what is not there at minus infinity, whose exponential is 0.
fv read_logits(const __global elem* p, long left) {
  if (left >= WIDTH) return JOIN(take, WIDTH)(p);
  float part[WIDTH];
  for (int i = 0; i < WIDTH; ++i) {
    part[i] = i < left ? TAKE(p, i) : -INFINITY;
  }
  return VLOAD(part);
}

// sum += x, with what rounding loses kept in `lost` (Kahan).
#define ADD_EXACTLY(sum, lost, x) \
  {                               \
    const fv term = (x) - lost;   \
    const fv next = sum + term;   \
    lost = (next - sum) - term;   \
    sum = next;                   \
  }

// The largest of a row, and log Σ exp(x - it), the sum without what rounding loses.
#define LOG_SUM_EXP(in, vocab, top, log_sum)                          \
  fv most = (fv)(-INFINITY);                                          \
  EACH_VECTOR(c, vocab) {                                             \
    const fv x = read_logits(in + c, vocab - c);                      \
    most = MAX(x, most);                                              \
  }                                                                   \
  const float top = group_max(max_of(most), scratch);                 \
  fv sum = (fv)(0.0f);                                                \
  fv lost = (fv)(0.0f);                                               \
  EACH_VECTOR(c, vocab) {                                             \
    const fv e = exp_v(read_logits(in + c, vocab - c) - top);         \
    ADD_EXACTLY(sum, lost, e);                                        \
  }                                                                   \
  const float log_sum = log(group_sum(sum_of(sum), scratch));

ROWS cross_entropy(const __global elem* logits, ulong logits0, const __global int* labels,
                   ulong labels0, __global float* losses, ulong losses0, __global float* lse,
                   ulong lse0, long vocab) {
  __local float scratch[LANES];
  const long row = get_group_id(0);
  const __global elem* in = logits + logits0 + row * vocab;
  LOG_SUM_EXP(in, vocab, top, log_sum)
  if (get_local_id(0) != 0) return;
  const int label = labels[labels0 + row];
  lse[lse0 + row] = top + log_sum;
  float loss = 0.0f;
  if (label != -100) {
    loss = label >= 0 && label < vocab ? log_sum + (top - TAKE(in, label)) : NAN;
  }
  losses[losses0 + row] = loss;
}

ROWS log_sum_exp(const __global elem* x, ulong x0, __global float* lse, ulong lse0, long width) {
  __local float scratch[LANES];
  const long row = get_group_id(0);
  const __global elem* in = x + x0 + row * width;
  LOG_SUM_EXP(in, width, top, log_sum)
  if (get_local_id(0) == 0) lse[lse0 + row] = top + log_sum;
}

// One work-item a row: a row is no more than a number for each part.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void cross_entropy_part(
    const __global elem* logits, ulong logits0, const __global int* labels, ulong labels0,
    const __global float* lses, ulong lses0, __global float* losses, ulong losses0,
    __global float* lse, ulong lse0, long rows, long vocab, long first, long of, long parts) {
  const long row = get_group_id(0);
  const __global float* in = lses + lses0 + row;
  float top = in[0];
  for (long part = 1; part < parts; ++part) top = fmax(top, in[part * rows]);
  float sum = 0.0f;
  for (long part = 0; part < parts; ++part) sum += exp(in[part * rows] - top);
  const float log_sum = log(sum);
  const long label = labels[labels0 + row];
  const long column = label - first;
  float loss = 0.0f;
  if (label != -100 && (label < 0 || label >= of)) loss = NAN;
  if (label != -100 && column >= 0 && column < vocab) {
    loss = log_sum + (top - TAKE(logits, logits0 + row * vocab + column));
  }
  lse[lse0 + row] = top + log_sum;
  losses[losses0 + row] = loss;
}

ROWS cross_entropy_grad(const __global elem* logits, ulong logits0, const __global int* labels,
                        ulong labels0, const __global float* lse, ulong lse0,
                        __global elem* dlogits, ulong dlogits0, long vocab, long first,
                        float z) {
  const long row = get_group_id(0);
  const __global elem* in = logits + logits0 + row * vocab;
  __global elem* out = dlogits + dlogits0 + row * vocab;
  const int label = labels[labels0 + row];
  const long column = label - first;
  const float shift = lse[lse0 + row];
  const float slope = 1.0f + 2.0f * z * shift;
  EACH_VECTOR(c, vocab) {
    const long left = vocab - c;
    fv slopes = slope * exp_v(read_v(in + c, left) - shift);
    if (label == -100) slopes = (fv)(0.0f);
    if (label != -100 && column >= c && column < c + WIDTH) {
      float part[WIDTH];
      VSTORE(slopes, part);
      part[column - c] -= 1.0f;
      slopes = VLOAD(part);
    }
    write_v(slopes, out + c, left);
  }
}

// Σ x² of one part of x per group, `part` elements long.
ROWS sum_squares(const __global elem* x, ulong x0, __global float* parts, ulong parts0, long n,
                 long part) {
  __local float scratch[LANES];
  const long begin = (long)get_group_id(0) * part;
  const long end = min(begin + part, n);
  const long stride = LANES * WIDTH;
  fv sum = (fv)(0.0f);
  fv lost = (fv)(0.0f);
  for (long from = begin + (long)get_local_id(0) * WIDTH; from < end; from += 8 * stride) {
    fv some = (fv)(0.0f);
    for (long i = from; i < min(from + 8 * stride, end); i += stride) {
      const fv v = read_v(x + x0 + i, end - i);
      some = FMA(v, v, some);
    }
    ADD_EXACTLY(sum, lost, some);
  }
  const float total = group_sum(sum_of(sum), scratch);
  if (get_local_id(0) == 0) parts[parts0 + get_group_id(0)] = total;
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void sum_parts(
    const __global float* parts, ulong parts0, __global float* result, ulong result0, long n) {
  float sum = 0.0f;
  float lost = 0.0f;
  for (long i = 0; i < n; ++i) {
    const float term = parts[parts0 + i] - lost;
    const float next = sum + term;
    lost = (next - sum) - term;
    sum = next;
  }
  result[result0] = sum;
}

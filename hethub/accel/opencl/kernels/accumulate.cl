// The reduction step of collectives. The build options set also:
//   STORED   the type in memory; LONG: it is an integer
//   ADDED    the type it is added as

#if defined(DOUBLE)
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

#if !defined(HALF) && !defined(BF16)
#undef TAKE
#undef GIVE
#define TAKE(p, i) ((ADDED)(p)[i])
#define GIVE(v, p, i) (p)[i] = (STORED)(v)
#endif

#if defined(LONG)
#define DIVIDE(sum) sum /= divisor
#else
#define DIVIDE(sum) \
  if (divisor != 1) sum *= (ADDED)(1) / (ADDED)(divisor)
#endif

// All terms of an element before the next element.
#define COMBINE_ALL(EXPRESSION)                           \
  for (long i = first; i < last; ++i) {                   \
    ADDED a = TAKE(t, i);                                 \
    for (long term = 0; term < terms; ++term) {           \
      const ADDED b = TAKE(x + x0 + term * stride, i);    \
      a = EXPRESSION;                                     \
    }                                                     \
    DIVIDE(a);                                            \
    GIVE(a, t, i);                                        \
  }

// Each work-item does WIDTH elements. `reduction`: 0 sum, 1 min, 2 max, 3 product.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void accumulate(
    __global STORED* total, ulong total0, const __global STORED* x, ulong x0, long n, long terms,
    long stride, long divisor, int reduction) {
  const long first = (long)get_global_id(0) * WIDTH;
  const long last = min(first + WIDTH, n);
  __global STORED* t = total + total0;
  if (reduction == 0) {
    COMBINE_ALL(a + b)
  } else if (reduction == 1) {
    COMBINE_ALL(b < a ? b : a)
  } else if (reduction == 2) {
    COMBINE_ALL(a < b ? b : a)
  } else {
    COMBINE_ALL(a * b)
  }
}

#if defined(PLAIN_FLOATS)
// One term of floats, a vector at a time.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void accumulate_floats(
    __global float* total, ulong total0, const __global float* x, ulong x0, long n) {
  const long i = (long)get_global_id(0) * WIDTH;
  const long left = n - i;
  if (left <= 0) return;
  __global float* t = total + total0 + i;
  write_v(read_v(t, left) + read_v(x + x0 + i, left), t, left);
}
#endif

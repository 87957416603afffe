// What every kernel shares. The build options set:
//   WIDTH  floats in a vector (4, 8 or 16)
//   LANES  work-items that share a row (1 where a work-item is a loop, as on CPUs)
//   ITEMS  work-items of a group in kernels that work element by element
//   BF16, HALF  the op's dtype, if it is not f32
// Buffers come as a base and an offset in elements, since OpenCL has no pointer into a buffer.

#define JOIN2(a, b) a##b
#define JOIN(a, b) JOIN2(a, b)

typedef JOIN(float, WIDTH) fv;
typedef JOIN(int, WIDTH) iv;
#define VLOAD(p) JOIN(vload, WIDTH)(0, p)
#define VSTORE(v, p) JOIN(vstore, WIDTH)(v, 0, p)

// Fused where the device has an instruction for it (FP_CONTRACT is on by default). fma() would be a
// slow call on others, and mad() stays two instructions on some.
#define FMA(a, b, c) ((a) * (b) + (c))

// The larger, and b where a is no number. fmax() would have to sort NaNs out, which costs a call.
#define MAX(a, b) ((a) > (b) ? (a) : (b))

// exp(x) to about 1 ulp for every x <= 88; 0 below -87.3. After Cephes' expf: x = n·ln2 + r with
// |r| <= ln2/2, a polynomial in r, and 2^n put together as bits. Written for vectors: a driver's
// own exp may be a scalar call.
#define DEFINE_EXP(NAME, F, I, AS_F, AS_I)                                   \
  F NAME(F x) {                                                              \
    const F shifted = FMA((x), (F)(1.44269504088896341f), (F)(12582912.0f)); \
    const F n = shifted - 12582912.0f;                                       \
    F r = FMA(n, (F)(-0.693359375f), (x));                                   \
    r = FMA(n, (F)(2.12194440e-4f), r);                                      \
    F p = (F)(1.9875691500e-4f);                                             \
    p = FMA(p, r, (F)(1.3981999507e-3f));                                    \
    p = FMA(p, r, (F)(8.3334519073e-3f));                                    \
    p = FMA(p, r, (F)(4.1665795894e-2f));                                    \
    p = FMA(p, r, (F)(1.6666665459e-1f));                                    \
    p = FMA(p, r, (F)(5.0000001201e-1f));                                    \
    p = FMA(p, r * r, r) + 1.0f;                                             \
    const F power = AS_F((AS_I(shifted) + 127) << 23);                       \
    return (x) < -87.3f ? (F)(0.0f) : p * power;                             \
  }
DEFINE_EXP(exp_v, fv, iv, JOIN(as_float, WIDTH), JOIN(as_int, WIDTH))

// An element of the op's dtype as memory holds it; kernels compute on floats. What an op leaves in
// f32 whatever its dtype (sums, gradients of parameters, logs of sums) is float in every build.
// takeN and giveN are of N elements at once.
#if defined(BF16)
typedef ushort elem;
#define TAKE(p, i) as_float((uint)(p)[i] << 16)
#define GIVE(v, p, i) (p)[i] = bf16_of(v)
// To the nearest, ties to even; what is no number stays none.
#define BF16_OF(bits)                                               \
  ((bits & 0x7FFFFFFFu) > 0x7F800000u ? ((bits >> 16) | 0x40u)      \
                                      : ((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16))
ushort bf16_of(float value) {
  const uint bits = as_uint(value);
  return (ushort)BF16_OF(bits);
}
#define DEFINE_VECTORS(N)                                                                  \
  JOIN(float, N) JOIN(take, N)(const __global elem* p) {                                   \
    return JOIN(as_float, N)(JOIN(convert_uint, N)(JOIN(vload, N)(0, p)) << 16);           \
  }                                                                                        \
  void JOIN(give, N)(JOIN(float, N) v, __global elem* p) {                                 \
    const JOIN(uint, N) bits = JOIN(as_uint, N)(v);                                        \
    JOIN(vstore, N)(JOIN(convert_ushort, N)(BF16_OF(bits)), 0, p);                         \
  }
#elif defined(HALF)
typedef ushort elem;
#define TAKE(p, i) vload_half(i, (const __global half*)(p))
#define GIVE(v, p, i) vstore_half_rte(v, i, (__global half*)(p))
#define DEFINE_VECTORS(N)                                                                  \
  JOIN(float, N) JOIN(take, N)(const __global elem* p) {                                   \
    return JOIN(vload_half, N)(0, (const __global half*)p);                                \
  }                                                                                        \
  void JOIN(give, N)(JOIN(float, N) v, __global elem* p) {                                 \
    JOIN(JOIN(vstore_half, N), _rte)(v, 0, (__global half*)p);                             \
  }
#else
typedef float elem;
#define TAKE(p, i) (p)[i]
#define GIVE(v, p, i) (p)[i] = (v)
#define DEFINE_VECTORS(N)                                                                  \
  JOIN(float, N) JOIN(take, N)(const __global elem* p) { return JOIN(vload, N)(0, p); }    \
  void JOIN(give, N)(JOIN(float, N) v, __global elem* p) { JOIN(vstore, N)(v, 0, p); }
#endif
DEFINE_VECTORS(16)
#if WIDTH != 16
DEFINE_VECTORS(WIDTH)
#endif

// The next WIDTH elements, or the `left` that there are and zeros.
fv read_v(const __global elem* p, long left) {
  if (left >= WIDTH) return JOIN(take, WIDTH)(p);
  float part[WIDTH];
  for (int i = 0; i < WIDTH; ++i) {
    part[i] = i < left ? TAKE(p, i) : 0.0f;
  }
  return VLOAD(part);
}

void write_v(fv v, __global elem* p, long left) {
  if (left >= WIDTH) {
    JOIN(give, WIDTH)(v, p);
    return;
  }
  float part[WIDTH];
  VSTORE(v, part);
  for (int i = 0; i < left; ++i) {
    GIVE(part[i], p, i);
  }
}

// The same of floats.
fv read_f(const __global float* p, long left) {
  if (left >= WIDTH) return VLOAD(p);
  float part[WIDTH];
  for (int i = 0; i < WIDTH; ++i) {
    part[i] = i < left ? p[i] : 0.0f;
  }
  return VLOAD(part);
}

void write_f(fv v, __global float* p, long left) {
  if (left >= WIDTH) {
    VSTORE(v, p);
    return;
  }
  float part[WIDTH];
  VSTORE(v, part);
  for (int i = 0; i < left; ++i) {
    p[i] = part[i];
  }
}

float sum_of(fv v) {
#if WIDTH == 16
  const float8 a = v.lo + v.hi;
  const float4 b = a.lo + a.hi;
#elif WIDTH == 8
  const float4 b = v.lo + v.hi;
#else
  const float4 b = v;
#endif
  return (b.x + b.z) + (b.y + b.w);
}

float max_of(fv v) {
#if WIDTH == 16
  const float8 a = MAX(v.lo, v.hi);
  const float4 b = MAX(a.lo, a.hi);
#elif WIDTH == 8
  const float4 b = MAX(v.lo, v.hi);
#else
  const float4 b = v;
#endif
  const float2 c = MAX(b.lo, b.hi);
  return MAX(c.x, c.y);
}

// One value over the group, in a fixed order; every work-item gets it. All must call it.
#if LANES == 1
#define group_sum(x, scratch) (x)
#define group_max(x, scratch) (x)
#else
float group_sum(float x, __local float* scratch) {
  const int lane = get_local_id(0);
  scratch[lane] = x;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int s = LANES / 2; s > 0; s /= 2) {
    if (lane < s) scratch[lane] += scratch[lane + s];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  x = scratch[0];
  barrier(CLK_LOCAL_MEM_FENCE);
  return x;
}

float group_max(float x, __local float* scratch) {
  const int lane = get_local_id(0);
  scratch[lane] = x;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int s = LANES / 2; s > 0; s /= 2) {
    if (lane < s) scratch[lane] = MAX(scratch[lane], scratch[lane + s]);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  x = scratch[0];
  barrier(CLK_LOCAL_MEM_FENCE);
  return x;
}
#endif

// Ops that work element by element. A work-item does one vector, the last one what is left.

#define ELEMENTWISE __kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void
#define BEGIN                                    \
  const long i = (long)get_global_id(0) * WIDTH; \
  const long left = n - i;                       \
  if (left <= 0) return

ELEMENTWISE add(const __global elem* a, ulong a0, const __global elem* b, ulong b0,
                __global elem* y, ulong y0, long n) {
  BEGIN;
  write_v(read_v(a + a0 + i, left) + read_v(b + b0 + i, left), y + y0 + i, left);
}

ELEMENTWISE convert(const __global float* x, ulong x0, __global elem* y, ulong y0, long n) {
  BEGIN;
  write_v(read_f(x + x0 + i, left), y + y0 + i, left);
}

ELEMENTWISE fill(__global elem* x, ulong x0, long n, float value) {
  BEGIN;
  write_v((fv)(value), x + x0 + i, left);
}

// exp(-88) is still a normal number; below it the product is 0 to single precision anyway.
fv sigmoid(fv x) { return 1.0f / (1.0f + exp_v(x < -88.0f ? (fv)(88.0f) : -x)); }

ELEMENTWISE silu_mul(const __global elem* gate, ulong gate0, const __global elem* up, ulong up0,
                     __global elem* y, ulong y0, long n) {
  BEGIN;
  const fv g = read_v(gate + gate0 + i, left);
  write_v(g * sigmoid(g) * read_v(up + up0 + i, left), y + y0 + i, left);
}

ELEMENTWISE silu_mul_grad(const __global elem* dy, ulong dy0, const __global elem* gate,
                          ulong gate0, const __global elem* up, ulong up0, __global elem* dgate,
                          ulong dgate0, __global elem* dup, ulong dup0, long n) {
  BEGIN;
  const fv d = read_v(dy + dy0 + i, left);
  const fv g = read_v(gate + gate0 + i, left);
  const fv u = read_v(up + up0 + i, left);
  const fv s = sigmoid(g);
  write_v(d * u * s * (1.0f + g * (1.0f - s)), dgate + dgate0 + i, left);
  write_v(d * g * s, dup + dup0 + i, left);
}

// GELU's approximation: x · sigmoid(twice the argument of its tanh).
#define GELU_SLOPE 1.5957691216f
#define GELU_CUBIC 0.044715f

ELEMENTWISE gelu(const __global elem* x, ulong x0, __global elem* y, ulong y0, long n) {
  BEGIN;
  const fv v = read_v(x + x0 + i, left);
  write_v(v * sigmoid(GELU_SLOPE * v * (1.0f + GELU_CUBIC * v * v)), y + y0 + i, left);
}

ELEMENTWISE gelu_grad(const __global elem* dy, ulong dy0, const __global elem* x, ulong x0,
                      __global elem* dx, ulong dx0, long n) {
  BEGIN;
  const fv v = read_v(x + x0 + i, left);
  const fv s = sigmoid(GELU_SLOPE * v * (1.0f + GELU_CUBIC * v * v));
  const fv slope = GELU_SLOPE * (1.0f + 3.0f * GELU_CUBIC * v * v);
  write_v(read_v(dy + dy0 + i, left) * (s + v * s * (1.0f - s) * slope), dx + dx0 + i, left);
}

// scalars: learning rate, beta1, beta2, epsilon, decay, gradient scale, 1-beta1^t, 1-beta2^t.
ELEMENTWISE adamw(__global float* parameter, ulong parameter0, __global float* first, ulong first0,
                  __global float* second, ulong second0, const __global float* gradient,
                  ulong gradient0, const __global float* scalars, ulong scalars0, long n,
                  int decay) {
  BEGIN;
  const __global float* s = scalars + scalars0;
  __global float* pp = parameter + parameter0 + i;
  __global float* pm = first + first0 + i;
  __global float* pv = second + second0 + i;
  const fv g = read_f(gradient + gradient0 + i, left) * s[5];
  const fv m = s[1] * read_f(pm, left) + (1.0f - s[1]) * g;
  const fv v = s[2] * read_f(pv, left) + (1.0f - s[2]) * g * g;
  fv p = read_f(pp, left);
  if (decay) p -= s[0] * s[4] * p;
  p -= s[0] * (m / s[6]) / (sqrt(v / s[7]) + s[3]);
  write_f(p, pp, left);
  write_f(m, pm, left);
  write_f(v, pv, left);
}

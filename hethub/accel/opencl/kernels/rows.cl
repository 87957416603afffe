// Ops on rows and on columns. A row belongs to one group, whose lanes share its vectors; a block
// of COLUMNS vectors of columns belongs to one group, whose lanes share the rows.

#define ROWS __kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void
#define ITEMWISE __kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void
#define EACH_VECTOR(c, width) \
  for (long c = (long)get_local_id(0) * WIDTH; c < width; c += LANES * WIDTH)

// Of the first `left` elements, which are there; 0 for the others.
fv centred_squares(fv v, long left) {
  float part[WIDTH];
  VSTORE(v, part);
  for (int i = 0; i < WIDTH; ++i) {
    part[i] = i < left ? part[i] * part[i] : 0.0f;
  }
  return VLOAD(part);
}

ROWS rms_norm(const __global elem* x, ulong x0, const __global elem* gain, ulong gain0,
              __global elem* y, ulong y0, __global float* rstd, ulong rstd0, long width,
              float eps) {
  __local float scratch[LANES];
  const long row = get_group_id(0);
  const __global elem* in = x + x0 + row * width;
  __global elem* out = y + y0 + row * width;
  fv sum = (fv)(0.0f);
  EACH_VECTOR(c, width) {
    const fv v = read_v(in + c, width - c);
    sum = FMA(v, v, sum);
  }
  const float r = 1.0f / sqrt(group_sum(sum_of(sum), scratch) / (float)width + eps);
  EACH_VECTOR(c, width) {
    const long left = width - c;
    write_v(read_v(in + c, left) * r * read_v(gain + gain0 + c, left), out + c, left);
  }
  if (get_local_id(0) == 0) rstd[rstd0 + row] = r;
}

ROWS rms_norm_grad_input(const __global elem* dy, ulong dy0, const __global elem* x, ulong x0,
                         const __global elem* gain, ulong gain0, const __global float* rstd,
                         ulong rstd0, __global elem* dx, ulong dx0, long width) {
  __local float scratch[LANES];
  const long row = get_group_id(0);
  const __global elem* d = dy + dy0 + row * width;
  const __global elem* in = x + x0 + row * width;
  __global elem* out = dx + dx0 + row * width;
  fv sum = (fv)(0.0f);
  EACH_VECTOR(c, width) {
    const long left = width - c;
    sum = FMA(read_v(d + c, left) * read_v(gain + gain0 + c, left), read_v(in + c, left), sum);
  }
  const float r = rstd[rstd0 + row];
  const float f = r * r * (group_sum(sum_of(sum), scratch) / (float)width);
  EACH_VECTOR(c, width) {
    const long left = width - c;
    const fv g = read_v(d + c, left) * read_v(gain + gain0 + c, left);
    write_v(r * (g - read_v(in + c, left) * f), out + c, left);
  }
}

ROWS layer_norm(const __global elem* x, ulong x0, const __global elem* gain, ulong gain0,
                const __global elem* bias, ulong bias0, __global elem* y, ulong y0,
                __global float* mean, ulong mean0, __global float* rstd, ulong rstd0, long width,
                float eps) {
  __local float scratch[LANES];
  const long row = get_group_id(0);
  const __global elem* in = x + x0 + row * width;
  __global elem* out = y + y0 + row * width;
  fv sum = (fv)(0.0f);
  EACH_VECTOR(c, width) { sum += read_v(in + c, width - c); }
  const float m = group_sum(sum_of(sum), scratch) / (float)width;
  fv squares = (fv)(0.0f);
  EACH_VECTOR(c, width) {
    const long left = width - c;
    const fv centred = read_v(in + c, left) - m;
    if (left >= WIDTH) {
      squares = FMA(centred, centred, squares);
    } else {
      squares += centred_squares(centred, left);
    }
  }
  const float r = 1.0f / sqrt(group_sum(sum_of(squares), scratch) / (float)width + eps);
  EACH_VECTOR(c, width) {
    const long left = width - c;
    const fv n = (read_v(in + c, left) - m) * r;
    write_v(n * read_v(gain + gain0 + c, left) + read_v(bias + bias0 + c, left), out + c, left);
  }
  if (get_local_id(0) == 0) {
    mean[mean0 + row] = m;
    rstd[rstd0 + row] = r;
  }
}

// Where a row ends within a vector, the gain read as 0 leaves out what is past it.
ROWS layer_norm_grad_input(const __global elem* dy, ulong dy0, const __global elem* x, ulong x0,
                           const __global elem* gain, ulong gain0, const __global float* mean,
                           ulong mean0, const __global float* rstd, ulong rstd0,
                           __global elem* dx, ulong dx0, long width) {
  __local float scratch[LANES];
  const long row = get_group_id(0);
  const __global elem* d = dy + dy0 + row * width;
  const __global elem* in = x + x0 + row * width;
  __global elem* out = dx + dx0 + row * width;
  const float m = mean[mean0 + row];
  const float r = rstd[rstd0 + row];
  fv sum = (fv)(0.0f);
  fv along = (fv)(0.0f);
  EACH_VECTOR(c, width) {
    const long left = width - c;
    const fv g = read_v(d + c, left) * read_v(gain + gain0 + c, left);
    sum += g;
    along = FMA(g, (read_v(in + c, left) - m) * r, along);
  }
  const float level = group_sum(sum_of(sum), scratch) / (float)width;
  const float pull = group_sum(sum_of(along), scratch) / (float)width;
  EACH_VECTOR(c, width) {
    const long left = width - c;
    const fv g = read_v(d + c, left) * read_v(gain + gain0 + c, left);
    write_v(r * (g - level - (read_v(in + c, left) - m) * r * pull), out + c, left);
  }
}

ITEMWISE add_bias(const __global elem* x, ulong x0, const __global elem* bias, ulong bias0,
                  __global elem* y, ulong y0, long rows, long width) {
  const long vectors = (width + WIDTH - 1) / WIDTH;
  const long item = get_global_id(0);
  if (item >= rows * vectors) return;
  const long row = item / vectors;
  const long c = (item - row * vectors) * WIDTH;
  const fv v = read_v(x + x0 + row * width + c, width - c) + read_v(bias + bias0 + c, width - c);
  write_v(v, y + y0 + row * width + c, width - c);
}

// Sums over rows. Lanes take every LANES-th row; 64 rows make a part, and parts are added up, so
// that rounding grows with neither the rows nor their parts alone.
#define PART_ROWS 64
#define SUM_COLUMNS(TERM, RESULT)                                               \
  __local float scratch[LANES];                                                 \
  const long column = (long)get_group_id(0) * COLUMNS * WIDTH;                  \
  fv total[COLUMNS];                                                            \
  for (int c = 0; c < COLUMNS; ++c) total[c] = (fv)(0.0f);                      \
  for (long from = get_local_id(0); from < rows; from += PART_ROWS * LANES) {   \
    fv part[COLUMNS];                                                           \
    for (int c = 0; c < COLUMNS; ++c) part[c] = (fv)(0.0f);                     \
    const long to = min(from + PART_ROWS * LANES, rows);                        \
    for (long row = from; row < to; row += LANES) {                             \
      for (int c = 0; c < COLUMNS; ++c) {                                       \
        const long at = column + c * WIDTH;                                     \
        const long left = width - at;                                           \
        if (left > 0) part[c] += TERM;                                          \
      }                                                                         \
    }                                                                           \
    for (int c = 0; c < COLUMNS; ++c) total[c] += part[c];                      \
  }                                                                             \
  for (int c = 0; c < COLUMNS; ++c) {                                           \
    const long at = column + c * WIDTH;                                         \
    const long left = width - at;                                               \
    const fv sum = over_lanes(total[c], scratch);                               \
    __global float* out = RESULT + at;                                         \
    if (left > 0 && get_local_id(0) == 0) write_f(read_f(out, left) + sum, out, left); \
  }

#if LANES == 1
#define over_lanes(v, scratch) (v)
#else
fv over_lanes(fv v, __local float* scratch) {
  float part[WIDTH];
  VSTORE(v, part);
  for (int i = 0; i < WIDTH; ++i) {
    part[i] = group_sum(part[i], scratch);
  }
  return VLOAD(part);
}
#endif

ROWS rms_norm_grad_gain(const __global elem* dy, ulong dy0, const __global elem* x, ulong x0,
                        const __global float* rstd, ulong rstd0, __global float* dgain,
                        ulong dgain0, long rows, long width) {
  SUM_COLUMNS(read_v(dy + dy0 + row * width + at, left) *
                  read_v(x + x0 + row * width + at, left) * rstd[rstd0 + row],
              dgain + dgain0)
}

ROWS layer_norm_grad_gain(const __global elem* dy, ulong dy0, const __global elem* x, ulong x0,
                          const __global float* mean, ulong mean0, const __global float* rstd,
                          ulong rstd0, __global float* dgain, ulong dgain0, long rows,
                          long width) {
  SUM_COLUMNS(read_v(dy + dy0 + row * width + at, left) *
                  (read_v(x + x0 + row * width + at, left) - mean[mean0 + row]) *
                  rstd[rstd0 + row],
              dgain + dgain0)
}

ROWS bias_grad(const __global elem* dy, ulong dy0, __global float* db, ulong db0, long rows,
               long width) {
  SUM_COLUMNS(read_v(dy + dy0 + row * width + at, left), db + db0)
}

ITEMWISE rope(const __global elem* x, ulong x0, const __global int* positions, ulong positions0,
              const __global float* table, ulong table0, __global elem* y, ulong y0, long rows,
              long heads, long head_dim, long table_rows, float sign) {
  const long item = get_global_id(0);
  if (item >= rows * heads) return;
  const long half_dim = head_dim / 2;
  const long position = positions[positions0 + item / heads];
  const bool known = position >= 0 && position < table_rows;
  const __global float* cosines = table + table0 + (known ? position : 0) * head_dim;
  const __global elem* in = x + x0 + item * head_dim;
  __global elem* out = y + y0 + item * head_dim;
  for (long j = 0; j < half_dim; j += WIDTH) {
    const long left = half_dim - j;
    const fv a = read_v(in + j, left);
    const fv b = read_v(in + half_dim + j, left);
    const fv c = known ? read_f(cosines + j, left) : (fv)(NAN);
    const fv s = sign * read_f(cosines + half_dim + j, left);
    write_v(a * c - b * s, out + j, left);
    write_v(b * c + a * s, out + half_dim + j, left);
  }
}

// An id outside the whole table gives NaN: never another's memory, and never a row that looks right.
// One of another part of the table gives zeros.
ITEMWISE embedding(const __global int* ids, ulong ids0, const __global elem* table, ulong table0,
                   __global elem* y, ulong y0, long rows, long vocab, long width, long first,
                   long whole) {
  const long vectors = (width + WIDTH - 1) / WIDTH;
  const long item = get_global_id(0);
  if (item >= rows * vectors) return;
  const long row = item / vectors;
  const long c = (item - row * vectors) * WIDTH;
  const long id = ids[ids0 + row];
  const long at = id - first;
  const bool known = id >= 0 && id < whole;
  const bool here = at >= 0 && at < vocab;
  const fv none = known ? (fv)(0.0f) : (fv)(NAN);
  const fv v = known && here ? read_v(table + table0 + at * width + c, width - c) : none;
  write_v(v, y + y0 + row * width + c, width - c);
}

// A work-item owns a vector of columns and takes the rows in order: the sum has one order.
ITEMWISE embedding_grad(const __global int* ids, ulong ids0, const __global elem* dy, ulong dy0,
                        __global float* dtable, ulong dtable0, long rows, long vocab,
                        long width, long first) {
  const long from = (long)get_global_id(0) * COLUMNS * WIDTH;
  const long to = min(from + COLUMNS * WIDTH, width);
  if (from >= width) return;
  for (long row = 0; row < rows; ++row) {
    const long id = ids[ids0 + row] - first;
    if (id < 0 || id >= vocab) continue;
    for (long c = from; c < to; c += WIDTH) {
      __global float* out = dtable + dtable0 + id * width + c;
      const fv d = read_v(dy + dy0 + row * width + c, width - c);
      write_f(read_f(out, width - c) + d, out, width - c);
    }
  }
}

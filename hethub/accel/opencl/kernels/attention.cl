// Causal attention without a seq × seq buffer. Set when built:
//   HEAD_DIM, DOCUMENTS (0 or 1), and TILE_WIDTH × TILE_VECTORS, the positions of a tile.
// A work-item owns a tile of positions (queries, or keys for dk and dv), one position per vector
// component, so that maxima, sums and masks need no exchange between components. It walks over the
// other side's rows in blocks of ROWS, whose elements are broadcast.
// Source: Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018; Dao,
// "FlashAttention-2", 2023, for the gradients from the stored lse.

#define ROWS 8
#define TILE (TILE_WIDTH * TILE_VECTORS)
#if TILE_WIDTH == 1
typedef float tv;
typedef int ti;
DEFINE_EXP(exp_t, float, int, as_float, as_int)
#else
typedef JOIN(float, TILE_WIDTH) tv;
typedef JOIN(int, TILE_WIDTH) ti;
DEFINE_EXP(exp_t, tv, ti, JOIN(as_float, TILE_WIDTH), JOIN(as_int, TILE_WIDTH))
#endif

#define GRID __kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void
#define EACH_U _Pragma("unroll") for (int u = 0; u < TILE_VECTORS; ++u)
#define EACH_ROW _Pragma("unroll") for (int r = 0; r < ROWS; ++r)

// tile[d][position] of rows first .. last; positions past `last` repeat it.
void load_tile(tv* tile, const __global elem* base, long stride, long first, long last) {
  for (int t = 0; t < TILE; ++t) {
    const __global elem* row = base + min(first + t, last) * stride;
    float* out = (float*)tile + t;
    for (int d = 0; d < HEAD_DIM; ++d) {
      out[d * TILE] = TAKE(row, d);
    }
  }
}

void store_tile(const tv* tile, __global elem* base, long stride, long first, long last) {
  for (int t = 0; t < TILE && first + t <= last; ++t) {
    __global elem* row = base + (first + t) * stride;
    const float* in = (const float*)tile + t;
    for (int d = 0; d < HEAD_DIM; ++d) {
      GIVE(in[d * TILE], row, d);
    }
  }
}

void clear_tile(tv* tile) {
  for (int i = 0; i < HEAD_DIM * TILE_VECTORS; ++i) {
    tile[i] = (tv)(0.0f);
  }
}

// The rows of the other side are read where they are, or, of a narrow dtype where a work-item is a
// loop, made floats a block at a time: else each element would be widened alone.
#if LANES == 1 && (defined(BF16) || defined(HALF))
#define COPY_OF_ROWS(name) float name[ROWS * HEAD_DIM]
typedef const float* Rows;
#define ROW_TAKE(p, i) (p)[i]

Rows load_rows(float* rows, const __global elem* base, long* at) {
  EACH_ROW {
    for (long d = 0; d < HEAD_DIM; d += WIDTH) {
      const fv v = read_v(base + at[r] + d, HEAD_DIM - d);
      if (HEAD_DIM - d >= WIDTH) {
        VSTORE(v, rows + r * HEAD_DIM + d);
        continue;
      }
      float part[WIDTH];
      VSTORE(v, part);
      for (int i = 0; d + i < HEAD_DIM; ++i) rows[r * HEAD_DIM + d + i] = part[i];
    }
  }
  return rows;
}
#define ROW(r) ((r) * HEAD_DIM)
#else
#define COPY_OF_ROWS(name)
typedef const __global elem* Rows;
#define ROW_TAKE(p, i) TAKE(p, i)
#define load_rows(rows, base, at) (base)
#define ROW(r) at[r]
#endif

// s[r][position] = Σ over d of tile[d][position] · row r[d], with row r at base + at[r].
void products(tv* s, const tv* tile, Rows base, const long* at) {
  tv sum[ROWS * TILE_VECTORS];
  EACH_ROW EACH_U { sum[r * TILE_VECTORS + u] = (tv)(0.0f); }
  for (int d = 0; d < HEAD_DIM; ++d) {
    EACH_ROW {
      const tv b = (tv)(ROW_TAKE(base, ROW(r) + d));
      EACH_U {
        sum[r * TILE_VECTORS + u] = FMA(tile[d * TILE_VECTORS + u], b, sum[r * TILE_VECTORS + u]);
      }
    }
  }
  EACH_ROW EACH_U { s[r * TILE_VECTORS + u] = sum[r * TILE_VECTORS + u]; }
}

// tile[d][position] = tile[d][position] · factor[position] + Σ over r of p[r][position] · row r[d].
void add_rows(tv* tile, const tv* factor, const tv* p, Rows base, const long* at) {
  for (int d = 0; d < HEAD_DIM; ++d) {
    tv sum[TILE_VECTORS];
    EACH_U { sum[u] = tile[d * TILE_VECTORS + u] * factor[u]; }
    EACH_ROW {
      const tv b = (tv)(ROW_TAKE(base, ROW(r) + d));
      EACH_U { sum[u] = FMA(p[r * TILE_VECTORS + u], b, sum[u]); }
    }
    EACH_U { tile[d * TILE_VECTORS + u] = sum[u]; }
  }
}

// What the tile's queries see: positions low .. position of each.
typedef struct {
  ti position[TILE_VECTORS];
  ti low[TILE_VECTORS];
  long least_low;
  long most_low;
} Span;

long low_of(long position, long window, const __global int* starts) {
  long low = window > 0 ? position - window + 1 : 0;
#if DOCUMENTS
  low = max(low, (long)starts[position]);
#endif
  return clamp(low, 0L, position);
}

void span_of(Span* span, long first, long last, long window, const __global int* starts) {
  span->least_low = last;
  span->most_low = 0;
  for (int t = 0; t < TILE; ++t) {
    const long position = min(first + t, last);
    const long low = low_of(position, window, starts);
    ((int*)span->position)[t] = (int)position;
    ((int*)span->low)[t] = (int)low;
    span->least_low = min(span->least_low, low);
    span->most_low = max(span->most_low, low);
  }
}

#if DOCUMENTS
#define STARTS_PARAMETER const __global int *starts, ulong starts0,
#define STARTS (starts + starts0 + batch * seq)
#else
#define STARTS_PARAMETER
#define STARTS 0
#endif

GRID attention(const __global elem* q, ulong q0, const __global elem* k, ulong k0,
               const __global elem* v, ulong v0, STARTS_PARAMETER __global elem* y, ulong y0,
               __global float* lse, ulong lse0, long seq, long heads, long kv_heads, long window,
               float scale) {
  const long first = (long)get_global_id(0) * TILE;
  if (first >= seq) return;
  const long last = min(first + TILE, seq) - 1;
  const long head = get_global_id(1);
  const long batch = get_global_id(2);
  const long q_stride = heads * HEAD_DIM;
  const long kv_stride = kv_heads * HEAD_DIM;
  const long q_at = batch * seq * q_stride + head * HEAD_DIM;
  const long kv_at = batch * seq * kv_stride + head / (heads / kv_heads) * HEAD_DIM;
  const __global elem* keys = k + k0 + kv_at;
  const __global elem* values = v + v0 + kv_at;

  Span span;
  span_of(&span, first, last, window, STARTS);
  tv query[HEAD_DIM * TILE_VECTORS];
  tv out[HEAD_DIM * TILE_VECTORS];
  tv most[TILE_VECTORS];
  tv sum[TILE_VECTORS];
  load_tile(query, q + q0 + q_at, q_stride, first, last);
  clear_tile(out);
  EACH_U {
    most[u] = (tv)(-1e30f);
    sum[u] = (tv)(0.0f);
  }
  for (long j = span.least_low; j <= last; j += ROWS) {
    long at[ROWS];
    tv s[ROWS * TILE_VECTORS];
    tv factor[TILE_VECTORS];
    EACH_ROW { at[r] = min(j + r, last) * kv_stride; }
    COPY_OF_ROWS(copy);
    products(s, query, load_rows(copy, keys, at), at);
    const bool masked = j + ROWS - 1 > first || j < span.most_low;
    EACH_U {
      tv top = most[u];
      EACH_ROW {
        tv x = s[r * TILE_VECTORS + u] * scale;
        if (masked) {
          const ti key = (ti)((int)j + r);
          x = (key <= span.position[u] && key >= span.low[u]) ? x : (tv)(-INFINITY);
        }
        s[r * TILE_VECTORS + u] = x;
        top = MAX(x, top);
      }
      factor[u] = exp_t(most[u] - top);
      most[u] = top;
      tv part = (tv)(0.0f);
      EACH_ROW {
        const tv p = exp_t(s[r * TILE_VECTORS + u] - top);
        s[r * TILE_VECTORS + u] = p;
        part += p;
      }
      sum[u] = FMA(sum[u], factor[u], part);
    }
    add_rows(out, factor, s, load_rows(copy, values, at), at);
  }
  for (int d = 0; d < HEAD_DIM; ++d) {
    EACH_U { out[d * TILE_VECTORS + u] /= sum[u]; }
  }
  store_tile(out, y + y0 + q_at, q_stride, first, last);
  EACH_U { most[u] += log(sum[u]); }
  for (int t = 0; t < TILE && first + t <= last; ++t) {
    lse[lse0 + (batch * heads + head) * seq + first + t] = ((const float*)most)[t];
  }
}

// delta[batch, head, position] = Σ over d of dy · y.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void attention_delta(
    const __global elem* dy, ulong dy0, const __global elem* y, ulong y0, __global float* delta,
    ulong delta0, long rows, long seq, long heads) {
  const long item = get_global_id(0);
  if (item >= rows * heads) return;
  const long row = item / heads;
  const long head = item - row * heads;
  const __global elem* a = dy + dy0 + item * HEAD_DIM;
  const __global elem* b = y + y0 + item * HEAD_DIM;
  fv sum = (fv)(0.0f);
  for (long d = 0; d < HEAD_DIM; d += WIDTH) {
    sum = FMA(read_v(a + d, HEAD_DIM - d), read_v(b + d, HEAD_DIM - d), sum);
  }
  delta[delta0 + (row / seq * heads + head) * seq + row % seq] = sum_of(sum);
}

GRID attention_grad_query(const __global elem* dy, ulong dy0, const __global elem* q, ulong q0,
                          const __global elem* k, ulong k0, const __global elem* v, ulong v0,
                          const __global float* lse, ulong lse0,
                          STARTS_PARAMETER const __global float* delta, ulong delta0,
                          __global elem* dq, ulong dq0, long seq, long heads, long kv_heads,
                          long window, float scale) {
  const long first = (long)get_global_id(0) * TILE;
  if (first >= seq) return;
  const long last = min(first + TILE, seq) - 1;
  const long head = get_global_id(1);
  const long batch = get_global_id(2);
  const long q_stride = heads * HEAD_DIM;
  const long kv_stride = kv_heads * HEAD_DIM;
  const long q_at = batch * seq * q_stride + head * HEAD_DIM;
  const long kv_at = batch * seq * kv_stride + head / (heads / kv_heads) * HEAD_DIM;
  const long row_at = (batch * heads + head) * seq;

  Span span;
  span_of(&span, first, last, window, STARTS);
  tv query[HEAD_DIM * TILE_VECTORS];
  tv dout[HEAD_DIM * TILE_VECTORS];
  tv dquery[HEAD_DIM * TILE_VECTORS];
  tv logs[TILE_VECTORS];
  tv deltas[TILE_VECTORS];
  tv one[TILE_VECTORS];
  load_tile(query, q + q0 + q_at, q_stride, first, last);
  load_tile(dout, dy + dy0 + q_at, q_stride, first, last);
  clear_tile(dquery);
  for (int t = 0; t < TILE; ++t) {
    ((float*)logs)[t] = lse[lse0 + row_at + min(first + t, last)];
    ((float*)deltas)[t] = delta[delta0 + row_at + min(first + t, last)];
  }
  EACH_U { one[u] = (tv)(1.0f); }
  for (long j = span.least_low; j <= last; j += ROWS) {
    long at[ROWS];
    tv s[ROWS * TILE_VECTORS];
    tv dp[ROWS * TILE_VECTORS];
    EACH_ROW { at[r] = min(j + r, last) * kv_stride; }
    COPY_OF_ROWS(copy);
    products(dp, dout, load_rows(copy, v + v0 + kv_at, at), at);
    const Rows keys = load_rows(copy, k + k0 + kv_at, at);
    products(s, query, keys, at);
    const bool masked = j + ROWS - 1 > first || j < span.most_low;
    EACH_ROW EACH_U {
      const int i = r * TILE_VECTORS + u;
      tv p = exp_t(s[i] * scale - logs[u]);
      if (masked) {
        const ti key = (ti)((int)j + r);
        p = (key <= span.position[u] && key >= span.low[u]) ? p : (tv)(0.0f);
      }
      s[i] = p * (dp[i] - deltas[u]) * scale;
    }
    add_rows(dquery, one, s, keys, at);
  }
  store_tile(dquery, dq + dq0 + q_at, q_stride, first, last);
}

// A tile of keys; every query head that reads them, in order, and every query that sees them.
GRID attention_grad_key(const __global elem* dy, ulong dy0, const __global elem* q, ulong q0,
                        const __global elem* k, ulong k0, const __global elem* v, ulong v0,
                        const __global float* lse, ulong lse0,
                        STARTS_PARAMETER const __global float* delta, ulong delta0,
                        __global elem* dk, ulong dk0, __global elem* dv, ulong dv0, long seq,
                        long heads, long kv_heads, long window, float scale) {
  const long first = (long)get_global_id(0) * TILE;
  if (first >= seq) return;
  const long last = min(first + TILE, seq) - 1;
  const long kv_head = get_global_id(1);
  const long batch = get_global_id(2);
  const long group = heads / kv_heads;
  const long q_stride = heads * HEAD_DIM;
  const long kv_stride = kv_heads * HEAD_DIM;
  const long kv_at = batch * seq * kv_stride + kv_head * HEAD_DIM;
  const long end = window > 0 ? min(seq, last + window) : seq;

  tv key[HEAD_DIM * TILE_VECTORS];
  tv value[HEAD_DIM * TILE_VECTORS];
  tv dkey[HEAD_DIM * TILE_VECTORS];
  tv dvalue[HEAD_DIM * TILE_VECTORS];
  tv one[TILE_VECTORS];
  ti position[TILE_VECTORS];
  load_tile(key, k + k0 + kv_at, kv_stride, first, last);
  load_tile(value, v + v0 + kv_at, kv_stride, first, last);
  clear_tile(dkey);
  clear_tile(dvalue);
  for (int t = 0; t < TILE; ++t) {
    ((int*)position)[t] = (int)(first + t);
  }
  EACH_U { one[u] = (tv)(1.0f); }
  for (long head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    const long q_at = batch * seq * q_stride + head * HEAD_DIM;
    const long row_at = (batch * heads + head) * seq;
    for (long i = first; i < end; i += ROWS) {
      long at[ROWS];
      int query[ROWS];
      int low[ROWS];
      float logs[ROWS];
      float deltas[ROWS];
      long least_low = seq;
      long most_low = 0;
      EACH_ROW {
        const long row = min(i + r, seq - 1);
        const long from = i + r < end ? low_of(row, window, STARTS) : seq;
        at[r] = row * q_stride;
        query[r] = (int)row;
        low[r] = (int)from;
        logs[r] = lse[lse0 + row_at + row];
        deltas[r] = delta[delta0 + row_at + row];
        least_low = min(least_low, from);
        most_low = max(most_low, from);
      }
      if (least_low > last) continue;
      const bool masked = i < last || most_low > first;
      tv s[ROWS * TILE_VECTORS];
      tv dp[ROWS * TILE_VECTORS];
      COPY_OF_ROWS(query_copy);
      COPY_OF_ROWS(dout_copy);
      const Rows query_rows = load_rows(query_copy, q + q0 + q_at, at);
      const Rows dout_rows = load_rows(dout_copy, dy + dy0 + q_at, at);
      products(s, key, query_rows, at);
      products(dp, value, dout_rows, at);
      EACH_ROW EACH_U {
        const int e = r * TILE_VECTORS + u;
        tv p = exp_t(s[e] * scale - logs[r]);
        if (masked) {
          p = (position[u] <= (ti)(query[r]) && position[u] >= (ti)(low[r])) ? p : (tv)(0.0f);
        }
        s[e] = p;
        dp[e] = p * (dp[e] - deltas[r]) * scale;
      }
      add_rows(dvalue, one, s, dout_rows, at);
      add_rows(dkey, one, dp, query_rows, at);
    }
  }
  store_tile(dkey, dk + dk0 + kv_at, kv_stride, first, last);
  store_tile(dvalue, dv + dv0 + kv_at, kv_stride, first, last);
}

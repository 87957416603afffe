// c[rows, columns] (+)= a[rows, k] · b[k, columns] in floats, for devices whose work-items are loops
// with wide vectors (CPUs); below, what a library's product of floats needs. Set when built:
//   A_TRANSPOSED  a is stored as [k, rows];  B_TRANSPOSED  b is stored as [columns, k]
//   TILE_ROWS × 32 is the block of c that stays in registers; K_BLOCK the most k of one launch;
//   TILES the tiles of rows a work-item packs at once
// Source of the blocking: Goto and van de Geijn, "Anatomy of high-performance matrix
// multiplication", ACM TOMS 2008.

#define SINGLE __kernel __attribute__((reqd_work_group_size(1, 1, 1))) void
#define PANEL 32

// Packs columns [column, column + columns) and rows [k_begin, k_begin + k_count) of b into panels
// of 32 columns, each [k_count][32] and padded with zeros. A work-item does one panel.
SINGLE matmul_pack(const __global elem* b, ulong b0, __global float* packed, ulong packed0,
                   long stride, long column, long columns, long k_begin, long k_count) {
  const long panel = get_global_id(0);
  const long here = min(columns - panel * PANEL, (long)PANEL);
  __global float* out = packed + packed0 + panel * k_count * PANEL;
#if B_TRANSPOSED
  const __global elem* in = b + b0 + (column + panel * PANEL) * stride + k_begin;
  if (here == PANEL) {
    for (long k = 0; k < k_count; ++k) {
      for (int c = 0; c < PANEL; ++c) {
        out[k * PANEL + c] = TAKE(in, c * stride + k);
      }
    }
    return;
  }
  for (long k = 0; k < k_count; ++k) {
    for (long c = 0; c < PANEL; ++c) {
      out[k * PANEL + c] = c < here ? TAKE(in, c * stride + k) : 0.0f;
    }
  }
#else
  const __global elem* in = b + b0 + k_begin * stride + column + panel * PANEL;
  if (here == PANEL) {
    for (long k = 0; k < k_count; ++k) {
      vstore16(take16(in + k * stride), 0, out + k * PANEL);
      vstore16(take16(in + k * stride + 16), 1, out + k * PANEL);
    }
    return;
  }
  for (long k = 0; k < k_count; ++k) {
    for (long c = 0; c < PANEL; ++c) {
      out[k * PANEL + c] = c < here ? TAKE(in, k * stride + c) : 0.0f;
    }
  }
#endif
}

// One tile of a: [k][TILE_ROWS], rows that are not there as zeros.
void pack_rows(float* tile, const __global elem* a, long stride, long rows, long k_count) {
#if A_TRANSPOSED
  if (rows >= TILE_ROWS) {
    for (long k = 0; k < k_count; ++k) {
      _Pragma("unroll") for (int r = 0; r < TILE_ROWS; ++r) {
        tile[k * TILE_ROWS + r] = TAKE(a, k * stride + r);
      }
    }
    return;
  }
  for (long k = 0; k < k_count; ++k) {
    for (int r = 0; r < TILE_ROWS; ++r) {
      tile[k * TILE_ROWS + r] = r < rows ? TAKE(a, k * stride + r) : 0.0f;
    }
  }
#else
  for (int r = 0; r < TILE_ROWS; ++r) {
    for (long k = 0; k < k_count; ++k) {
      tile[k * TILE_ROWS + r] = r < rows ? TAKE(a, r * stride + k) : 0.0f;
    }
  }
#endif
}

// Where a row of a tile goes: to what is summed in floats, or, of the last k, to c.
typedef struct {
  __global float* sums;
  __global elem* c;
  int add;
  int last;
} Row;

void put(Row to, float16 v, long at, long left) {
  if (left >= 16) {
    if (to.add) v += vload16(0, to.sums + at);
    if (to.last) {
      give16(v, to.c + at);
    } else {
      vstore16(v, 0, to.sums + at);
    }
    return;
  }
  float part[16];
  vstore16(v, 0, part);
  for (int i = 0; i < left; ++i) {
    const float x = to.add ? to.sums[at + i] + part[i] : part[i];
    if (to.last) {
      GIVE(x, to.c, at + i);
    } else {
      to.sums[at + i] = x;
    }
  }
}

#define EACH_TILE_ROW _Pragma("unroll") for (int r = 0; r < TILE_ROWS; ++r)

// The tile from one tile of a and one panel of b; its rows are `stride` apart in the sums, and
// `c_stride` in c.
void multiply(Row to, long stride, long c_stride, long rows, long columns, const float* a,
              const __global float* b, long k_count, float16 bias0, float16 bias1) {
  float16 left[TILE_ROWS];
  float16 right[TILE_ROWS];
  EACH_TILE_ROW {
    left[r] = bias0;
    right[r] = bias1;
  }
  for (long k = 0; k < k_count; ++k) {
    const float16 b0 = vload16(2 * k, b);
    const float16 b1 = vload16(2 * k + 1, b);
    EACH_TILE_ROW {
      const float16 x = (float16)(a[k * TILE_ROWS + r]);
      left[r] = FMA(x, b0, left[r]);
      right[r] = FMA(x, b1, right[r]);
    }
  }
  EACH_TILE_ROW {
    if (r < rows) {
      const Row row = {to.sums + r * stride, to.c + r * c_stride, to.add, to.last};
      put(row, left[r], 0, columns);
      if (columns > 16) put(row, right[r], 16, columns - 16);
    }
  }
}

// A work-item owns TILES · TILE_ROWS rows of first_row .. rows - 1 and `panels` panels of columns.
// The sums begin at sums0; what is in them is added to if `add`, and goes to c if `last`.
SINGLE matmul(const __global elem* a, ulong a0, const __global float* packed, ulong packed0,
              __global float* sums, ulong sums0, __global elem* c, ulong c0,
              const __global elem* bias, ulong bias0, long first_row, long rows, long column,
              long columns, long k_begin, long k_count, long a_stride, long sums_stride,
              long c_stride, long panels, int add, int last, int with_bias) {
  const long row = first_row + (long)get_global_id(0) * TILES * TILE_ROWS;
  const long first_panel = (long)get_global_id(1) * panels;
  const long end_panel = min(first_panel + panels, (columns + PANEL - 1) / PANEL);
  float tiles[TILES * TILE_ROWS * K_BLOCK];
  const int count = (int)min((long)TILES, (rows - row + TILE_ROWS - 1) / TILE_ROWS);
  for (int t = 0; t < count; ++t) {
    const long r = row + t * TILE_ROWS;
#if A_TRANSPOSED
    const __global elem* in = a + a0 + k_begin * a_stride + r;
#else
    const __global elem* in = a + a0 + r * a_stride + k_begin;
#endif
    pack_rows(tiles + t * TILE_ROWS * K_BLOCK, in, a_stride, rows - r, k_count);
  }
  for (long panel = first_panel; panel < end_panel; ++panel) {
    const long at = panel * PANEL;
    const long left = columns - at;
    float16 first = (float16)(0.0f);
    float16 second = (float16)(0.0f);
    if (with_bias) {
      float some[PANEL];
      for (int i = 0; i < PANEL; ++i) {
        some[i] = i < left ? TAKE(bias, bias0 + column + at + i) : 0.0f;
      }
      first = vload16(0, some);
      second = vload16(1, some);
    }
    for (int t = 0; t < count; ++t) {
      const long r = row + t * TILE_ROWS;
      const Row to = {sums + sums0 + (r - first_row) * sums_stride + at,
                      c + c0 + r * c_stride + column + at, add, last};
      multiply(to, sums_stride, c_stride, rows - r, left, tiles + t * TILE_ROWS * K_BLOCK,
               packed + packed0 + panel * k_count * PANEL, k_count, first, second);
    }
  }
}

// sums[row, :] = bias, for a library's product that adds to what is there.
SINGLE spread_bias(const __global elem* bias, ulong bias0, __global float* sums, ulong sums0,
                   long width) {
  const long row = get_global_id(0);
  for (long c = 0; c < width; ++c) {
    sums[sums0 + row * width + c] = TAKE(bias, bias0 + c);
  }
}

// A block of a matrix as floats, and back. A work-item has one row.
SINGLE widen_block(const __global elem* from, ulong from0, __global float* to, ulong to0,
                   long stride, long columns) {
  const long row = get_global_id(0);
  const __global elem* in = from + from0 + row * stride;
  for (long c = 0; c < columns; c += WIDTH) {
    write_f(read_v(in + c, columns - c), to + to0 + row * columns + c, columns - c);
  }
}

SINGLE narrow_block(const __global float* from, ulong from0, __global elem* to, ulong to0,
                    long stride, long columns) {
  const long row = get_global_id(0);
  __global elem* out = to + to0 + row * stride;
  for (long c = 0; c < columns; c += WIDTH) {
    write_v(read_f(from + from0 + row * columns + c, columns - c), out + c, columns - c);
  }
}

// c[rows, columns] (+)= a[rows, k] · b[k, columns], fp32, for devices whose work-items are loops
// with wide vectors (CPUs). Set when built:
//   A_TRANSPOSED  a is stored as [k, rows];  B_TRANSPOSED  b is stored as [columns, k]
//   TILE_ROWS × 32 is the block of c that stays in registers; K_BLOCK the most k of one launch;
//   TILES the tiles of rows a work-item packs at once
// Source of the blocking: Goto and van de Geijn, "Anatomy of high-performance matrix
// multiplication", ACM TOMS 2008.

#define SINGLE __kernel __attribute__((reqd_work_group_size(1, 1, 1))) void
#define PANEL 32

// Packs columns [column, column + columns) and rows [k_begin, k_begin + k_count) of b into panels
// of 32 columns, each [k_count][32] and padded with zeros. A work-item does one panel.
SINGLE matmul_pack(const __global float* b, ulong b0, __global float* packed, ulong packed0,
                   long stride, long column, long columns, long k_begin, long k_count) {
  const long panel = get_global_id(0);
  const long here = min(columns - panel * PANEL, (long)PANEL);
  __global float* out = packed + packed0 + panel * k_count * PANEL;
#if B_TRANSPOSED
  const __global float* in = b + b0 + (column + panel * PANEL) * stride + k_begin;
  if (here == PANEL) {
    for (long k = 0; k < k_count; ++k) {
      for (int c = 0; c < PANEL; ++c) {
        out[k * PANEL + c] = in[c * stride + k];
      }
    }
    return;
  }
  for (long k = 0; k < k_count; ++k) {
    for (long c = 0; c < PANEL; ++c) {
      out[k * PANEL + c] = c < here ? in[c * stride + k] : 0.0f;
    }
  }
#else
  const __global float* in = b + b0 + k_begin * stride + column + panel * PANEL;
  if (here == PANEL) {
    for (long k = 0; k < k_count; ++k) {
      vstore16(vload16(0, in + k * stride), 0, out + k * PANEL);
      vstore16(vload16(1, in + k * stride), 1, out + k * PANEL);
    }
    return;
  }
  for (long k = 0; k < k_count; ++k) {
    for (long c = 0; c < PANEL; ++c) {
      out[k * PANEL + c] = c < here ? in[k * stride + c] : 0.0f;
    }
  }
#endif
}

// One tile of a: [k][TILE_ROWS], rows that are not there as zeros.
void pack_rows(float* tile, const __global float* a, long stride, long rows, long k_count) {
#if A_TRANSPOSED
  if (rows >= TILE_ROWS) {
    for (long k = 0; k < k_count; ++k) {
      _Pragma("unroll") for (int r = 0; r < TILE_ROWS; ++r) {
        tile[k * TILE_ROWS + r] = a[k * stride + r];
      }
    }
    return;
  }
  for (long k = 0; k < k_count; ++k) {
    for (int r = 0; r < TILE_ROWS; ++r) {
      tile[k * TILE_ROWS + r] = r < rows ? a[k * stride + r] : 0.0f;
    }
  }
#else
  for (int r = 0; r < TILE_ROWS; ++r) {
    for (long k = 0; k < k_count; ++k) {
      tile[k * TILE_ROWS + r] = r < rows ? a[r * stride + k] : 0.0f;
    }
  }
#endif
}

void put(__global float* c, float16 v, long left, bool add) {
  if (left >= 16) {
    vstore16(add ? vload16(0, c) + v : v, 0, c);
    return;
  }
  float part[16];
  vstore16(v, 0, part);
  for (int i = 0; i < left; ++i) {
    c[i] = add ? c[i] + part[i] : part[i];
  }
}

#define EACH_TILE_ROW _Pragma("unroll") for (int r = 0; r < TILE_ROWS; ++r)

// c's tile from one tile of a and one panel of b.
void multiply(__global float* c, long stride, long rows, long columns, const float* a,
              const __global float* b, long k_count, float16 bias0, float16 bias1, bool add) {
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
      put(c + r * stride, left[r], columns, add);
      if (columns > 16) put(c + r * stride + 16, right[r], columns - 16, add);
    }
  }
}

// A work-item owns TILES · TILE_ROWS rows and `panels` panels of columns.
SINGLE matmul(const __global float* a, ulong a0, const __global float* packed, ulong packed0,
              __global float* c, ulong c0, const __global float* bias, ulong bias0, long rows,
              long column, long columns, long k_begin, long k_count, long a_stride, long c_stride,
              long panels, int add, int with_bias) {
  const long row = (long)get_global_id(0) * TILES * TILE_ROWS;
  const long first_panel = (long)get_global_id(1) * panels;
  const long end_panel = min(first_panel + panels, (columns + PANEL - 1) / PANEL);
  float tiles[TILES * TILE_ROWS * K_BLOCK];
  const int count = (int)min((long)TILES, (rows - row + TILE_ROWS - 1) / TILE_ROWS);
  for (int t = 0; t < count; ++t) {
    const long r = row + t * TILE_ROWS;
#if A_TRANSPOSED
    const __global float* in = a + a0 + k_begin * a_stride + r;
#else
    const __global float* in = a + a0 + r * a_stride + k_begin;
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
        some[i] = i < left ? bias[bias0 + column + at + i] : 0.0f;
      }
      first = vload16(0, some);
      second = vload16(1, some);
    }
    for (int t = 0; t < count; ++t) {
      const long r = row + t * TILE_ROWS;
      multiply(c + c0 + r * c_stride + column + at, c_stride, rows - r, left,
               tiles + t * TILE_ROWS * K_BLOCK, packed + packed0 + panel * k_count * PANEL, k_count,
               first, second, add);
    }
  }
}

// y[row, :] = bias, for a library's product that adds to what is there.
SINGLE spread_bias(const __global float* bias, ulong bias0, __global float* y, ulong y0,
                   long width) {
  const long row = get_global_id(0);
  for (long c = 0; c < width; ++c) {
    y[y0 + row * width + c] = bias[bias0 + c];
  }
}

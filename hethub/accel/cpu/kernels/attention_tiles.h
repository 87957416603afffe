#pragma once

#include "hethub/accel/cpu/kernels/kernels.h"
#include "hethub/accel/cpu/kernels/math.h"
#include "hethub/accel/cpu/kernels/tile.h"

// What attention and its gradient share: the tiles, the mask, and a thread's scratch.
namespace hethub::HETHUB_LEVEL {
namespace {

constexpr std::int64_t kTile = 64;  // positions in a tile, of queries and of keys

/// The sizes of an attention, and where its rows are.
struct Layout {
  Attention op = {};
  const std::int32_t* starts = nullptr;  ///< null: every document starts at 0
  std::int64_t query_row = 0;            ///< elements from one position's queries to the next's
  std::int64_t key_row = 0;
  std::int64_t depth = 0;  ///< head_dim rounded up to whole vectors
  float scale = 1;
};

inline Layout layout_of(const Attention& op, const std::int32_t* starts) {
  Layout layout;
  layout.op = op;
  layout.starts = op.documents ? starts : nullptr;
  layout.query_row = op.heads * op.head_dim;
  layout.key_row = op.kv_heads * op.head_dim;
  layout.depth = round_up_to_lanes(op.head_dim);
  layout.scale = static_cast<float>(1.0 / __builtin_sqrt(static_cast<double>(op.head_dim)));
  return layout;
}

/// The first position that position i of a sequence sees.
inline std::int64_t first_seen(const Layout& layout, std::int64_t batch, std::int64_t i) {
  const std::int64_t start =
      layout.starts == nullptr ? 0 : layout.starts[batch * layout.op.seq + i];
  const std::int64_t bound = layout.op.window > 0 ? i - layout.op.window + 1 : 0;
  const std::int64_t later = start > bound ? start : bound;
  return later < 0 ? 0 : later;
}

/// The first position that any of `rows` positions from `from` sees.
inline std::int64_t first_seen_by(const Layout& layout, std::int64_t batch, std::int64_t from,
                                  std::int64_t rows) {
  std::int64_t least = from;
  for (std::int64_t i = from; i < from + rows; ++i) {
    const std::int64_t first = first_seen(layout, batch, i);
    least = first < least ? first : least;
  }
  return least;
}

/// The columns [first, last) of a tile of keys that one position sees.
struct Seen {
  std::int64_t first = 0;
  std::int64_t last = 0;
};

inline Seen seen_in_tile(const Layout& layout, std::int64_t batch, std::int64_t i, std::int64_t key,
                         std::int64_t keys) {
  const std::int64_t first = first_seen(layout, batch, i) - key;
  const std::int64_t last = i + 1 - key;
  return {first < 0 ? 0 : first, last > keys ? keys : last};
}

/// Hands out parts of a thread's scratch.
struct Scratch {
  float* next = nullptr;
  float* take(std::int64_t floats) {
    float* part = next;
    next += floats;
    return part;
  }
};

/// How many threads the workspace has scratch for.
inline int threads_with_scratch(const Arguments& arguments, std::int64_t bytes,
                                std::int64_t floats_each) {
  const std::int64_t fit = bytes / (floats_each * static_cast<std::int64_t>(sizeof(float)));
  return static_cast<int>(fit < arguments.threads ? fit : arguments.threads);
}

}  // namespace
}  // namespace hethub::HETHUB_LEVEL

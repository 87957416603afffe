#pragma once

#include "hethub/accel/cpu/kernels/attention_tiles.h"
#include "hethub/accel/cpu/kernels/operands.h"

// What the gradients of attention of all levels share: the operands, and each row's sums.
namespace hethub::HETHUB_LEVEL {
namespace {

/// What a gradient of attention reads and writes, by the names of the formulas.
template <typename T>
struct Operands {
  const T* dy = nullptr;
  const T* q = nullptr;
  const T* k = nullptr;
  const T* v = nullptr;
  const T* y = nullptr;
  const float* lse = nullptr;
  float* pulls = nullptr;    ///< Σ dy∘y of each head and row, laid out as lse
  float* dq_sums = nullptr;  ///< dq itself where that is f32, else in the workspace
  T* dq = nullptr;
  T* dk = nullptr;
  T* dv = nullptr;
  float* scratch = nullptr;  ///< what of the workspace is left for the threads
  std::int64_t scratch_bytes = 0;

  static constexpr bool rounds() { return sizeof(T) < sizeof(float); }
};

/// The operands of one run. The workspace: pulls, dq's sums if they are not dq, then scratch.
template <typename T>
inline Operands<T> operands_of(const Attention& op, const Arguments& arguments) {
  const std::int64_t rows = round_up_to_lanes(op.batch * op.heads * op.seq);
  const std::int64_t elements = op.batch * op.seq * op.heads * op.head_dim;
  const std::int64_t sums = Operands<T>::rounds() ? round_up_to_lanes(elements) : 0;
  auto* pulls = static_cast<float*>(arguments.workspace);
  return {
      .dy = input<T>(arguments, 0),
      .q = input<T>(arguments, 1),
      .k = input<T>(arguments, 2),
      .v = input<T>(arguments, 3),
      .y = input<T>(arguments, 4),
      .lse = input(arguments, 5),
      .pulls = pulls,
      .dq_sums = Operands<T>::rounds() ? pulls + rows : static_cast<float*>(arguments.outputs[0]),
      .dq = output<T>(arguments, 0),
      .dk = output<T>(arguments, 1),
      .dv = output<T>(arguments, 2),
      .scratch = pulls + rows + sums,
      .scratch_bytes =
          arguments.workspace_bytes - (rows + sums) * static_cast<std::int64_t>(sizeof(float))};
}

template <typename T>
inline void write_row(const float* from, std::int64_t count, T* to) {
#pragma omp simd
  for (std::int64_t d = 0; d < count; ++d) {
    to[d] = from[d];
  }
}

/// Σ dy∘y of each row of one head group, and zeros in dq's sums.
template <typename T>
inline void begin_group(const Layout& layout, const Operands<T>& operands, std::int64_t batch,
                        std::int64_t kv_head) {
  const Attention& op = layout.op;
  const std::int64_t group = op.heads / op.kv_heads;
  for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    for (std::int64_t i = 0; i < op.seq; ++i) {
      const std::int64_t offset = (batch * op.seq + i) * layout.query_row + head * op.head_dim;
      const T* dy = operands.dy + offset;
      const T* y = operands.y + offset;
      float* dq = operands.dq_sums + offset;
      float sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t d = 0; d < op.head_dim; ++d) {
        sum += dy[d] * y[d];
        dq[d] = 0;
      }
      operands.pulls[(batch * op.heads + head) * op.seq + i] = sum;
    }
  }
}

/// Rounds dq's sums of one head group.
template <typename T>
inline void end_group(const Layout& layout, const Operands<T>& operands, std::int64_t batch,
                      std::int64_t kv_head) {
  const Attention& op = layout.op;
  const std::int64_t group = op.heads / op.kv_heads;
  for (std::int64_t i = 0; i < op.seq; ++i) {
    const std::int64_t offset =
        (batch * op.seq + i) * layout.query_row + kv_head * group * op.head_dim;
    write_row(operands.dq_sums + offset, group * op.head_dim, operands.dq + offset);
  }
}

}  // namespace
}  // namespace hethub::HETHUB_LEVEL

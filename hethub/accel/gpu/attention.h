#pragma once

// Attention without a matrix of scores in memory: a block owns one query (or, for the gradients of
// keys and values, one key) of one head and goes through what it sees, kKeys at a time.

#include "hethub/accel/gpu/kernels.h"

namespace hethub::gpu {

struct AttentionSizes {
  long batch = 0;
  long seq = 0;
  long heads = 0;
  long kv_heads = 0;
  long head_dim = 0;
  long window = 0;
  const int* starts = nullptr;  ///< null without documents
  float scale = 0;
};

// Where the vector of a position of a head begins.
HETHUB_DEVICE long vector_at(const AttentionSizes& size, long batch, long position, long head,
                             long heads) {
  return ((batch * size.seq + position) * heads + head) * size.head_dim;
}

// The first position that a query sees.
HETHUB_DEVICE long low_of(const AttentionSizes& size, long batch, long query) {
  long low = size.window > 0 && query >= size.window ? query - size.window + 1 : 0;
  if (size.starts != nullptr) {
    const long start = size.starts[batch * size.seq + query];
    low = start > low ? start : low;
  }
  return low;
}

HETHUB_DEVICE float dot(const float* a, const float* b, long count) {
  float sum = 0;
  for (long d = 0; d < count; ++d) {
    sum += a[d] * b[d];
  }
  return sum;
}

// Which query head, of which sequence, at which position, a block owns.
struct Owned {
  long batch = 0;
  long head = 0;
  long position = 0;
};

HETHUB_DEVICE Owned owned(const AttentionSizes& size, long heads) {
  const long at = block_index() / size.seq;
  return {at / heads, at % heads, block_index() % size.seq};
}

HETHUB_KERNEL attention(const float* q, const float* k, const float* v, float* y, float* lse,
                        AttentionSizes size) {
  HETHUB_SHARED(float, shares, kKeys);
  HETHUB_SHARED(float, scratch, kKeys);
  const Owned own = owned(size, size.heads);
  const long kv_head = own.head / (size.heads / size.kv_heads);
  const long query_at = vector_at(size, own.batch, own.position, own.head, size.heads);
  float out[kHeadParts] = {};
  float most = -INFINITY;
  float sum = 0;
  for (long from = low_of(size, own.batch, own.position); from <= own.position; from += kKeys) {
    const long key = from + thread_index();
    float score = -INFINITY;
    if (key <= own.position) {
      const long key_at = vector_at(size, own.batch, key, kv_head, size.kv_heads);
      score = dot(q + query_at, k + key_at, size.head_dim) * size.scale;
    }
    const float top = fmaxf(most, block_most(score, scratch));
    const float factor = expf(most - top);
    const float share = expf(score - top);
    shares[thread_index()] = share;
    sum = sum * factor + block_sum(share, scratch);
    most = top;
    for (int part = 0; part < kHeadParts; ++part) {
      const long d = thread_index() + part * kKeys;
      if (d >= size.head_dim) break;
      out[part] *= factor;
      for (long i = 0; i < kKeys && from + i <= own.position; ++i) {
        out[part] +=
            shares[i] * v[vector_at(size, own.batch, from + i, kv_head, size.kv_heads) + d];
      }
    }
    sync();
  }
  for (int part = 0; part < kHeadParts; ++part) {
    const long d = thread_index() + part * kKeys;
    if (d < size.head_dim) y[query_at + d] = out[part] / sum;
  }
  if (thread_index() == 0) {
    lse[(own.batch * size.heads + own.head) * size.seq + own.position] = most + logf(sum);
  }
}

// delta[batch, heads, seq] = Σ over a head of dy · y.
HETHUB_KERNEL attention_delta(const float* dy, const float* y, float* delta, AttentionSizes size) {
  const long i = item_index();
  if (i >= size.batch * size.heads * size.seq) return;
  const long at = i / size.seq;
  const long vector = vector_at(size, at / size.heads, i % size.seq, at % size.heads, size.heads);
  delta[i] = dot(dy + vector, y + vector, size.head_dim);
}

struct AttentionInputs {
  const float* dy = nullptr;
  const float* q = nullptr;
  const float* k = nullptr;
  const float* v = nullptr;
  const float* lse = nullptr;
  const float* delta = nullptr;
};

// What one pair of a query and a key gives: its share, and the gradient of its score.
struct Pair {
  float share = 0;
  float slope = 0;
};

HETHUB_DEVICE Pair pair_of(const AttentionInputs& in, const AttentionSizes& size, long query_at,
                           long key_at, long row) {
  const float score = dot(in.q + query_at, in.k + key_at, size.head_dim) * size.scale;
  const float share = expf(score - in.lse[row]);
  const float gradient = dot(in.dy + query_at, in.v + key_at, size.head_dim);
  return {share, share * (gradient - in.delta[row]) * size.scale};
}

HETHUB_KERNEL attention_grad_query(AttentionInputs in, float* dq, AttentionSizes size) {
  HETHUB_SHARED(float, slopes, kKeys);
  const Owned own = owned(size, size.heads);
  const long kv_head = own.head / (size.heads / size.kv_heads);
  const long query_at = vector_at(size, own.batch, own.position, own.head, size.heads);
  float out[kHeadParts] = {};
  for (long from = low_of(size, own.batch, own.position); from <= own.position; from += kKeys) {
    const long key = from + thread_index();
    Pair pair = {};
    if (key <= own.position) {
      pair = pair_of(in, size, query_at, vector_at(size, own.batch, key, kv_head, size.kv_heads),
                     (own.batch * size.heads + own.head) * size.seq + own.position);
    }
    slopes[thread_index()] = pair.slope;
    sync();
    for (int part = 0; part < kHeadParts; ++part) {
      const long d = thread_index() + part * kKeys;
      if (d >= size.head_dim) break;
      for (long i = 0; i < kKeys && from + i <= own.position; ++i) {
        out[part] +=
            slopes[i] * in.k[vector_at(size, own.batch, from + i, kv_head, size.kv_heads) + d];
      }
    }
    sync();
  }
  for (int part = 0; part < kHeadParts; ++part) {
    const long d = thread_index() + part * kKeys;
    if (d < size.head_dim) dq[query_at + d] = out[part];
  }
}

// Every query head that reads the key, in order, and every query that sees it.
HETHUB_KERNEL attention_grad_key(AttentionInputs in, float* dk, float* dv, AttentionSizes size) {
  HETHUB_SHARED(float, shares, kKeys);
  HETHUB_SHARED(float, slopes, kKeys);
  const Owned own = owned(size, size.kv_heads);
  const long group = size.heads / size.kv_heads;
  const long key_at = vector_at(size, own.batch, own.position, own.head, size.kv_heads);
  const bool windowed = size.window > 0 && own.position + size.window < size.seq;
  const long end = windowed ? own.position + size.window : size.seq;
  float out_k[kHeadParts] = {};
  float out_v[kHeadParts] = {};
  for (long head = own.head * group; head < (own.head + 1) * group; ++head) {
    for (long from = own.position; from < end; from += kKeys) {
      const long query = from + thread_index();
      Pair pair = {};
      if (query < end && low_of(size, own.batch, query) <= own.position) {
        pair = pair_of(in, size, vector_at(size, own.batch, query, head, size.heads), key_at,
                       (own.batch * size.heads + head) * size.seq + query);
      }
      shares[thread_index()] = pair.share;
      slopes[thread_index()] = pair.slope;
      sync();
      for (int part = 0; part < kHeadParts; ++part) {
        const long d = thread_index() + part * kKeys;
        if (d >= size.head_dim) break;
        for (long i = 0; i < kKeys && from + i < end; ++i) {
          const long at = vector_at(size, own.batch, from + i, head, size.heads) + d;
          out_k[part] += slopes[i] * in.q[at];
          out_v[part] += shares[i] * in.dy[at];
        }
      }
      sync();
    }
  }
  for (int part = 0; part < kHeadParts; ++part) {
    const long d = thread_index() + part * kKeys;
    if (d >= size.head_dim) break;
    dk[key_at + d] = out_k[part];
    dv[key_at + d] = out_v[part];
  }
}

}  // namespace hethub::gpu

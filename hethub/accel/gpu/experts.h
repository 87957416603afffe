#pragma once

// Mixtures of experts: the router, what sorts, takes and sums rows, and the experts' products.

#include "hethub/accel/gpu/kernels.h"

namespace hethub::gpu {

// The expert whose logit comes next after that of expert `last`: the largest of those that are
// smaller, or equal and later. The largest of all for `last` -1.
HETHUB_DEVICE int next_choice(const float* logits, long experts, int last) {
  int best = -1;
  for (int expert = 0; expert < experts; ++expert) {
    const float logit = logits[expert];
    const bool comes = last < 0 || logit < logits[last] || (logit == logits[last] && expert > last);
    if (comes && (best < 0 || logit > logits[best])) best = expert;
  }
  return best < 0 ? 0 : best;  // of logits that are no numbers
}

HETHUB_KERNEL route(const float* logits, float* weights, int* choices, long rows, long experts,
                    long top) {
  const long row = item_index();
  if (row >= rows) return;
  const float* logit = logits + row * experts;
  float* weight = weights + row * top;
  int* choice = choices + row * top;
  float sum = 0;
  int before = -1;
  for (long k = 0; k < top; ++k) {
    before = choice[k] = next_choice(logit, experts, before);
    weight[k] = expf(logit[before] - logit[choice[0]]);
    sum += weight[k];
  }
  for (long k = 0; k < top; ++k) {
    weight[k] /= sum;
  }
}

// How many choices of a sequence are of an expert.
HETHUB_KERNEL expert_loads(const int* choices, float* loads, long count, long experts,
                           long sequence_choices) {
  const long i = item_index();
  if (i >= count) return;
  const int* choice = choices + i / experts * sequence_choices;
  long load = 0;
  for (long at = 0; at < sequence_choices; ++at) {
    load += choice[at] == i % experts ? 1 : 0;
  }
  loads[i] = static_cast<float>(load);
}

struct RouteSizes {
  long rows = 0;
  long experts = 0;
  long top = 0;
  long sequence = 0;
  float factor = 0;  // balance · experts / sequence; without it the loads are not read
};

HETHUB_KERNEL route_grad(const float* dweights, const float* logits, const float* weights,
                         const int* choices, const float* loads, float* dlogits, RouteSizes size) {
  const long row = item_index();
  if (row >= size.rows) return;
  const float* dweight = dweights + row * size.top;
  const float* logit = logits + row * size.experts;
  const float* weight = weights + row * size.top;
  const int* choice = choices + row * size.top;
  const float* load = loads + row / size.sequence * size.experts;
  float most = logit[0];
  float sum = 0;
  float loaded = 0;
  if (size.factor != 0) {
    for (long e = 1; e < size.experts; ++e) {
      most = fmaxf(most, logit[e]);
    }
    for (long e = 0; e < size.experts; ++e) {
      const float p = expf(logit[e] - most);
      sum += p;
      loaded += p * load[e];
    }
    loaded /= sum;
  }
  float mean = 0;
  for (long k = 0; k < size.top; ++k) {
    mean += weight[k] * dweight[k];
  }
  for (long e = 0; e < size.experts; ++e) {
    float slope = 0;
    if (size.factor != 0) slope = size.factor * (expf(logit[e] - most) / sum) * (load[e] - loaded);
    for (long k = 0; k < size.top; ++k) {
      if (choice[k] == e) slope += weight[k] * (dweight[k] - mean);
    }
    dlogits[row * size.experts + e] = slope;
  }
}

// A thread has one expert's slots, the last one what is left.
HETHUB_KERNEL sort_choices(const int* choices, int* order, int* starts, long all, long first,
                           long held, long slots) {
  const long expert = item_index();
  if (expert > held) return;
  int* place = order + slots;
  long next = 0;
  for (long i = 0; i < all; ++i) {
    const long of = choices[i] - first;
    next += of >= 0 && of < expert ? 1 : 0;
  }
  starts[expert] = static_cast<int>(next < slots ? next : slots);
  if (expert == held) {
    for (long slot = next; slot < slots; ++slot) {
      order[slot] = -1;
    }
  }
  for (long i = 0; i < all; ++i) {
    const long of = choices[i] - first;
    if (expert == held && (of < 0 || of >= held)) place[i] = -1;
    if (expert == held || of != expert) continue;
    place[i] = next < slots ? static_cast<int>(next) : -1;
    if (next < slots) order[next] = static_cast<int>(i);
    ++next;
  }
}

// Without weights, they are null.
HETHUB_KERNEL take_rows(const float* x, const int* order, const float* weights, float* y,
                        long count, long width, long top) {
  const long i = item_index();
  if (i >= count) return;
  const long choice = order[i / width];
  float value = 0;
  if (choice >= 0) {
    value = x[choice / top * width + i % width];
    if (weights != nullptr) value *= weights[choice];
  }
  y[i] = value;
}

HETHUB_KERNEL sum_rows_of_choices(const float* x, const int* place, const float* weights, float* y,
                                  long count, long width, long top) {
  const long i = item_index();
  if (i >= count) return;
  const long row = i / width;
  float sum = 0;
  for (long choice = row * top; choice < (row + 1) * top; ++choice) {
    if (place[choice] < 0) continue;
    const float value = x[place[choice] * width + i % width];
    sum += weights != nullptr ? value * weights[choice] : value;
  }
  y[i] = sum;
}

// A block has one choice.
HETHUB_KERNEL sum_rows_grad_weight(const float* dy, const float* x, const int* place,
                                   float* dweights, long width, long top) {
  HETHUB_SHARED(float, scratch, kRowThreads);
  const long choice = block_index();
  const long slot = place[choice];
  float sum = 0;
  for (long c = thread_index(); slot >= 0 && c < width; c += block_threads()) {
    sum += dy[choice / top * width + c] * x[slot * width + c];
  }
  const float whole = block_sum(sum, scratch);
  if (thread_index() == 0) dweights[choice] = whole;
}

struct ExpertSizes {
  long slots = 0;
  long read = 0;  // columns of the activation that is read
  long made = 0;  // and of the one that is made
  long experts = 0;
  bool transposed = false;  // whether a matrix holds `made` rows of `read`
};

// y[slots, made] = x[slots, read] · each expert's matrix. A block owns one tile of one expert's
// rows; there are as many as tiles of all slots and one more an expert, and those that are too
// many return. Slots past the last expert's are left as they are.
HETHUB_KERNEL expert_product(const float* x, const float* w, const int* starts, float* y,
                             ExpertSizes size) {
  HETHUB_SHARED(float, left, kTile* kTile);
  HETHUB_SHARED(float, right, kTile* kTile);
  const long across = (size.made + kTile - 1) / kTile;
  long tile = block_index() / across;
  long expert = 0;
  long begin = 0;
  long end = 0;
  for (; expert < size.experts; ++expert) {
    begin = starts[expert];
    end = starts[expert + 1] < size.slots ? starts[expert + 1] : size.slots;
    const long tiles = end > begin ? (end - begin + kTile - 1) / kTile : 0;
    if (tile < tiles) break;
    tile -= tiles;
  }
  if (expert == size.experts) return;
  const int across_in_tile = thread_index() % kTile;
  const int down_in_tile = thread_index() / kTile;
  const long row = begin + tile * kTile + down_in_tile;
  const long column = block_index() % across * kTile + across_in_tile;
  const float* matrix = w + expert * size.read * size.made;
  float sum = 0;
  for (long from = 0; from < size.read; from += kTile) {
    const long ka = from + across_in_tile;
    const long kb = from + down_in_tile;
    const bool has_a = row < end && ka < size.read;
    const bool has_b = column < size.made && kb < size.read;
    left[thread_index()] = has_a ? x[row * size.read + ka] : 0.0F;
    right[thread_index()] =
        has_b ? matrix[size.transposed ? column * size.read + kb : kb * size.made + column] : 0.0F;
    sync();
    for (int k = 0; k < kTile; ++k) {
      sum += left[down_in_tile * kTile + k] * right[k * kTile + across_in_tile];
    }
    sync();
  }
  if (row < end && column < size.made) y[row * size.made + column] = sum;
}

// dw[expert][out, in] += dyᵀ · x over the expert's slots. A block owns one tile of one matrix.
HETHUB_KERNEL expert_weight_product(const float* dy, const float* x, const int* starts, float* dw,
                                    long slots, long in, long out) {
  HETHUB_SHARED(float, left, kTile* kTile);
  HETHUB_SHARED(float, right, kTile* kTile);
  const long across = (in + kTile - 1) / kTile;
  const long down = (out + kTile - 1) / kTile;
  const long expert = block_index() / (across * down);
  const long tile = block_index() % (across * down);
  const int across_in_tile = thread_index() % kTile;
  const int down_in_tile = thread_index() / kTile;
  const long row = tile / across * kTile + down_in_tile;
  const long column = tile % across * kTile + across_in_tile;
  const long row_read = tile / across * kTile + across_in_tile;
  const long end = starts[expert + 1] < slots ? starts[expert + 1] : slots;
  float sum = 0;
  for (long from = starts[expert]; from < end; from += kTile) {
    const long slot = from + down_in_tile;
    left[thread_index()] = slot < end && row_read < out ? dy[slot * out + row_read] : 0.0F;
    right[thread_index()] = slot < end && column < in ? x[slot * in + column] : 0.0F;
    sync();
    for (int k = 0; k < kTile; ++k) {
      sum += left[k * kTile + down_in_tile] * right[k * kTile + across_in_tile];
    }
    sync();
  }
  if (row < out && column < in) dw[(expert * out + row) * in + column] += sum;
}

}  // namespace hethub::gpu

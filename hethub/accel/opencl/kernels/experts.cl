// Mixtures of experts: the router, what sorts, takes and sums rows, and the experts' products.
// Written for any size; blocks of the products are not kept in local memory.

#define ITEMWISE __kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void

// The expert whose logit comes next after that of expert `last`: the largest of those that are
// smaller, or equal and later.
int next_choice(const __global elem* logits, long experts, int last) {
  int best = -1;
  for (int expert = 0; expert < experts; ++expert) {
    const float logit = TAKE(logits, expert);
    const bool comes = last < 0 || logit < TAKE(logits, last) ||
                       (logit == TAKE(logits, last) && expert > last);
    if (comes && (best < 0 || logit > TAKE(logits, best))) best = expert;
  }
  return best < 0 ? 0 : best;
}

ITEMWISE route(const __global elem* logits, ulong logits0, __global float* weights, ulong weights0,
               __global int* choices, ulong choices0, long rows, long experts, long top) {
  const long row = get_global_id(0);
  if (row >= rows) return;
  const __global elem* logit = logits + logits0 + row * experts;
  __global float* weight = weights + weights0 + row * top;
  __global int* choice = choices + choices0 + row * top;
  float sum = 0.0f;
  int before = -1;
  for (long k = 0; k < top; ++k) {
    before = next_choice(logit, experts, before);
    choice[k] = before;
    weight[k] = exp(TAKE(logit, before) - TAKE(logit, choice[0]));
    sum += weight[k];
  }
  for (long k = 0; k < top; ++k) weight[k] /= sum;
}

// How many choices of a sequence are of an expert.
ITEMWISE expert_loads(const __global int* choices, ulong choices0, __global float* loads,
                      ulong loads0, long count, long experts, long sequence_choices) {
  const long item = get_global_id(0);
  if (item >= count) return;
  const __global int* choice = choices + choices0 + item / experts * sequence_choices;
  long load = 0;
  for (long i = 0; i < sequence_choices; ++i) load += choice[i] == item % experts ? 1 : 0;
  loads[loads0 + item] = (float)load;
}

// `factor` is balance · experts / sequence; without it the loads are not read.
ITEMWISE route_grad(const __global float* dweights, ulong dweights0, const __global elem* logits,
                    ulong logits0, const __global float* weights, ulong weights0,
                    const __global int* choices, ulong choices0, const __global float* loads,
                    ulong loads0, __global elem* dlogits, ulong dlogits0, long rows, long experts,
                    long top, long sequence, float factor) {
  const long row = get_global_id(0);
  if (row >= rows) return;
  const __global float* dweight = dweights + dweights0 + row * top;
  const __global elem* logit = logits + logits0 + row * experts;
  const __global float* weight = weights + weights0 + row * top;
  const __global int* choice = choices + choices0 + row * top;
  const __global float* load = loads + loads0 + row / sequence * experts;
  float most = TAKE(logit, 0);
  float sum = 0.0f;
  float loaded = 0.0f;
  if (factor != 0.0f) {
    for (long e = 1; e < experts; ++e) most = MAX(TAKE(logit, e), most);
    for (long e = 0; e < experts; ++e) {
      const float p = exp(TAKE(logit, e) - most);
      sum += p;
      loaded += p * load[e];
    }
    loaded /= sum;
  }
  float mean = 0.0f;
  for (long k = 0; k < top; ++k) mean += weight[k] * dweight[k];
  for (long e = 0; e < experts; ++e) {
    float slope = 0.0f;
    if (factor != 0.0f) slope = factor * (exp(TAKE(logit, e) - most) / sum) * (load[e] - loaded);
    for (long k = 0; k < top; ++k) {
      if (choice[k] == e) slope += weight[k] * (dweight[k] - mean);
    }
    GIVE(slope, dlogits, dlogits0 + row * experts + e);
  }
}

// A work-item has one expert's slots, the last one what is left.
ITEMWISE sort_choices(const __global int* choices, ulong choices0, __global int* order,
                      ulong order0, __global int* starts, ulong starts0, long all, long first,
                      long held, long slots) {
  const long expert = get_global_id(0);
  if (expert > held) return;
  const __global int* choice = choices + choices0;
  __global int* source = order + order0;
  __global int* place = source + slots;
  long next = 0;
  for (long i = 0; i < all; ++i) {
    const long of = choice[i] - first;
    next += of >= 0 && of < expert ? 1 : 0;
  }
  starts[starts0 + expert] = (int)min(next, slots);
  if (expert == held) {
    for (long slot = next; slot < slots; ++slot) source[slot] = -1;
  }
  for (long i = 0; i < all; ++i) {
    const long of = choice[i] - first;
    if (expert == held && (of < 0 || of >= held)) place[i] = -1;
    if (expert == held || of != expert) continue;
    place[i] = next < slots ? (int)next : -1;
    if (next < slots) source[next] = (int)i;
    ++next;
  }
}

ITEMWISE take_rows(const __global elem* x, ulong x0, const __global int* order, ulong order0,
                   const __global float* weights, ulong weights0, __global elem* y, ulong y0,
                   long width, long top, long slots, int weighted) {
  const long vectors = (width + WIDTH - 1) / WIDTH;
  const long item = get_global_id(0);
  if (item >= slots * vectors) return;
  const long slot = item / vectors;
  const long c = (item - slot * vectors) * WIDTH;
  const long choice = order[order0 + slot];
  fv v = (fv)(0.0f);
  if (choice >= 0) {
    v = read_v(x + x0 + choice / top * width + c, width - c);
    if (weighted) v *= weights[weights0 + choice];
  }
  write_v(v, y + y0 + slot * width + c, width - c);
}

ITEMWISE sum_rows(const __global elem* x, ulong x0, const __global int* order, ulong order0,
                  const __global float* weights, ulong weights0, __global elem* y, ulong y0,
                  long rows, long width, long top, long slots, int weighted) {
  const long vectors = (width + WIDTH - 1) / WIDTH;
  const long item = get_global_id(0);
  if (item >= rows * vectors) return;
  const long row = item / vectors;
  const long c = (item - row * vectors) * WIDTH;
  fv sum = (fv)(0.0f);
  for (long choice = row * top; choice < (row + 1) * top; ++choice) {
    const long slot = order[order0 + slots + choice];
    if (slot < 0) continue;
    const fv v = read_v(x + x0 + slot * width + c, width - c);
    sum += weighted ? v * weights[weights0 + choice] : v;
  }
  write_v(sum, y + y0 + row * width + c, width - c);
}

ITEMWISE sum_rows_grad_weight(const __global elem* dy, ulong dy0, const __global elem* x,
                              ulong x0, const __global int* order, ulong order0,
                              __global float* dweights, ulong dweights0, long choices, long width,
                              long top, long slots) {
  const long choice = get_global_id(0);
  if (choice >= choices) return;
  const long slot = order[order0 + slots + choice];
  fv sum = (fv)(0.0f);
  if (slot >= 0) {
    const __global elem* a = dy + dy0 + choice / top * width;
    const __global elem* b = x + x0 + slot * width;
    for (long c = 0; c < width; c += WIDTH) {
      sum = FMA(read_v(a + c, width - c), read_v(b + c, width - c), sum);
    }
  }
  dweights[dweights0 + choice] = sum_of(sum);
}

// Whose slot it is; `experts` for one past the last expert's.
long expert_of(const __global int* starts, long experts, long slot) {
  long expert = 0;
  while (expert < experts && slot >= starts[expert + 1]) ++expert;
  return expert;
}

ITEMWISE expert_linear(const __global elem* x, ulong x0, const __global elem* w, ulong w0,
                       const __global int* starts, ulong starts0, __global elem* y, ulong y0,
                       long slots, long in, long out, long experts) {
  const long item = get_global_id(0);
  if (item >= slots * out) return;
  const long slot = item / out;
  const long expert = expert_of(starts + starts0, experts, slot);
  fv sum = (fv)(0.0f);
  if (expert < experts) {
    const __global elem* a = x + x0 + slot * in;
    const __global elem* b = w + w0 + (expert * out + item % out) * in;
    for (long c = 0; c < in; c += WIDTH) sum = FMA(read_v(a + c, in - c), read_v(b + c, in - c), sum);
  }
  GIVE(sum_of(sum), y, y0 + item);
}

// Terms are summed in parts of 64, and the parts added up.
#define PART 64

ITEMWISE expert_linear_grad_input(const __global elem* dy, ulong dy0, const __global elem* w,
                                  ulong w0, const __global int* starts, ulong starts0,
                                  __global elem* dx, ulong dx0, long slots, long in, long out,
                                  long experts) {
  const long vectors = (in + WIDTH - 1) / WIDTH;
  const long item = get_global_id(0);
  if (item >= slots * vectors) return;
  const long slot = item / vectors;
  const long c = (item - slot * vectors) * WIDTH;
  const long expert = expert_of(starts + starts0, experts, slot);
  fv sum = (fv)(0.0f);
  for (long from = 0; expert < experts && from < out; from += PART) {
    fv part = (fv)(0.0f);
    for (long o = from; o < min(from + PART, out); ++o) {
      part += TAKE(dy, dy0 + slot * out + o) * read_v(w + w0 + (expert * out + o) * in + c, in - c);
    }
    sum += part;
  }
  write_v(sum, dx + dx0 + slot * in + c, in - c);
}

ITEMWISE expert_linear_grad_weight(const __global elem* dy, ulong dy0, const __global elem* x,
                                   ulong x0, const __global int* starts, ulong starts0,
                                   __global float* dw, ulong dw0, long slots, long in, long out,
                                   long experts) {
  const long vectors = (in + WIDTH - 1) / WIDTH;
  const long item = get_global_id(0);
  if (item >= experts * out * vectors) return;
  const long row = item / vectors;  // of all experts' matrices
  const long c = (item - row * vectors) * WIDTH;
  const long expert = row / out;
  const long end = min((long)starts[starts0 + expert + 1], slots);
  __global float* to = dw + dw0 + row * in + c;
  fv sum = (fv)(0.0f);
  for (long from = starts[starts0 + expert]; from < end; from += PART) {
    fv part = (fv)(0.0f);
    for (long slot = from; slot < min(from + PART, end); ++slot) {
      part += TAKE(dy, dy0 + slot * out + row % out) * read_v(x + x0 + slot * in + c, in - c);
    }
    sum += part;
  }
  write_f(read_f(to, in - c) + sum, to, in - c);
}

// Mixtures of experts but for their products: the router, and what sorts, takes and sums rows.

#include "hethub/accel/cpu/kernels/math.h"
#include "hethub/accel/cpu/kernels/operands.h"
#include "hethub/accel/cpu/kernels/parallel.h"
#include "hethub/accel/cpu/kernels/run.h"

namespace hethub::HETHUB_LEVEL {
namespace {

// The expert whose logit comes next after that of expert `last`: the largest of those that are
// smaller, or equal and later. The largest of all for `last` -1.
template <typename T>
inline std::int32_t next_choice(const T* logits, std::int64_t experts, std::int32_t last) {
  std::int32_t best = -1;
  for (std::int32_t expert = 0; expert < experts; ++expert) {
    const float logit = logits[expert];
    const bool comes = last < 0 || logit < logits[last] || (logit == logits[last] && expert > last);
    if (comes && (best < 0 || logit > logits[best])) best = expert;
  }
  return best < 0 ? 0 : best;  // of logits that are no numbers
}

template <typename T>
void route(const Router& op, const Arguments& arguments) {
  const T* all = input<T>(arguments, 0);
  float* weights = output(arguments, 0);
  auto* choices = output<std::int32_t>(arguments, 1);
  const auto each_row = [&](std::int64_t first, std::int64_t last, int /*thread*/) {
    for (std::int64_t row = first; row < last; ++row) {
      const T* logits = all + row * op.experts;
      float* weight = weights + row * op.top;
      std::int32_t* choice = choices + row * op.top;
      float sum = 0;
      std::int32_t before = -1;
      for (std::int64_t k = 0; k < op.top; ++k) {
        before = choice[k] = next_choice(logits, op.experts, before);
        weight[k] = exp_of(logits[choice[k]] - logits[choice[0]]);
        sum += weight[k];
      }
      for (std::int64_t k = 0; k < op.top; ++k) {
        weight[k] /= sum;
      }
    }
  };
  parallel_ranges(arguments.threads, op.rows, rows_worth_a_thread(op.experts * op.top), each_row);
}

// How many choices of a sequence's rows are of this expert.
inline float load_of(const Router& op, const std::int32_t* choices, std::int64_t expert) {
  std::int64_t count = 0;
  for (std::int64_t index = 0; index < op.sequence * op.top; ++index) {
    count += choices[index] == expert ? 1 : 0;
  }
  return static_cast<float>(count);
}

// What the balance of one row's experts needs: the softmax's top and sum, and Σ load · p.
struct Balance {
  const float* loads = nullptr;  // of the row's sequence; null without balance
  float factor = 0;
  float most = 0;
  float sum = 1;
  float mean = 0;
};

template <typename T>
inline Balance balance_of(const Router& op, const T* logits, const float* loads) {
  Balance of{.loads = loads};
  if (loads == nullptr) return of;
  of.factor = static_cast<float>(op.balance * static_cast<double>(op.experts) /
                                 static_cast<double>(op.sequence));
  of.most = logits[0];
  for (std::int64_t expert = 1; expert < op.experts; ++expert) {
    const float logit = logits[expert];
    of.most = logit > of.most ? logit : of.most;
  }
  of.sum = 0;
  for (std::int64_t expert = 0; expert < op.experts; ++expert) {
    const float e = exp_of(logits[expert] - of.most);
    of.sum += e;
    of.mean += e * loads[expert];
  }
  of.mean /= of.sum;
  return of;
}

// One row's operands.
template <typename T>
struct RouteRow {
  const float* dweights;
  const T* logits;
  const float* weights;
  const std::int32_t* choices;
  T* dlogits;
};

template <typename T>
inline void route_slopes(const Router& op, const RouteRow<T>& row, const float* loads) {
  const Balance balance = balance_of(op, row.logits, loads);
  float mean = 0;
  for (std::int64_t k = 0; k < op.top; ++k) {
    mean += row.weights[k] * row.dweights[k];
  }
  for (std::int64_t expert = 0; expert < op.experts; ++expert) {
    float slope = 0;
    if (balance.loads != nullptr) {
      const float p = exp_of(row.logits[expert] - balance.most) / balance.sum;
      slope = balance.factor * p * (balance.loads[expert] - balance.mean);
    }
    for (std::int64_t k = 0; k < op.top; ++k) {
      if (row.choices[k] == expert) slope += row.weights[k] * (row.dweights[k] - mean);
    }
    row.dlogits[expert] = slope;
  }
}

template <typename T>
void route_grad(const RouterGrad& grad, const Arguments& arguments) {
  const Router& op = grad.forward;
  const float* dweights = input(arguments, 0);
  const T* logits = input<T>(arguments, 1);
  const float* weights = input(arguments, 2);
  const std::int32_t* choices = integers(arguments, 3);
  T* dlogits = output<T>(arguments, 0);
  auto* all_loads = static_cast<float*>(arguments.workspace);
  const auto each = [&](std::int64_t first, std::int64_t last, int /*thread*/) {
    for (std::int64_t at = first; at < last; ++at) {
      float* loads = op.balance == 0 ? nullptr : all_loads + at * op.experts;
      for (std::int64_t expert = 0; loads != nullptr && expert < op.experts; ++expert) {
        loads[expert] = load_of(op, choices + at * op.sequence * op.top, expert);
      }
      for (std::int64_t row = at * op.sequence; row < (at + 1) * op.sequence; ++row) {
        const std::int64_t choice = row * op.top;
        const std::int64_t logit = row * op.experts;
        route_slopes<T>(op,
                        {dweights + choice, logits + logit, weights + choice, choices + choice,
                         dlogits + logit},
                        loads);
      }
    }
  };
  const std::int64_t sequences = op.rows / op.sequence;
  parallel_ranges(arguments.threads, sequences, rows_worth_a_thread(op.sequence * op.experts),
                  each);
}

// One expert's slots, or what is left: one thread looks through all choices for each.
inline void sort_one(const SortChoices& op, std::int64_t expert, const std::int32_t* choices,
                     std::int32_t* order, std::int32_t* starts) {
  const std::int64_t all = op.rows * op.top;
  const std::int64_t slots = op.slots();
  std::int32_t* place = order + slots;
  std::int64_t next = 0;
  for (std::int64_t index = 0; index < all; ++index) {
    const std::int64_t held = choices[index] - op.first;
    next += held >= 0 && held < expert ? 1 : 0;
  }
  starts[expert] = static_cast<std::int32_t>(next < slots ? next : slots);
  if (expert == op.held) {
    for (std::int64_t slot = next; slot < slots; ++slot) {
      order[slot] = -1;
    }
  }
  for (std::int64_t index = 0; index < all; ++index) {
    const std::int64_t held = choices[index] - op.first;
    if (expert == op.held && (held < 0 || held >= op.held)) place[index] = -1;
    if (expert == op.held || held != expert) continue;
    place[index] = next < slots ? static_cast<std::int32_t>(next) : -1;
    if (next < slots) order[next] = static_cast<std::int32_t>(index);
    ++next;
  }
}

template <typename T>
void take_rows(const TakeRows& op, const Arguments& arguments) {
  const T* x = input<T>(arguments, 0);
  const std::int32_t* order = integers(arguments, 1);
  const float* weights = op.weighted ? input(arguments, 2) : nullptr;
  T* y = output<T>(arguments, 0);
  const auto each = [&](std::int64_t first, std::int64_t last, int /*thread*/) {
    for (std::int64_t slot = first; slot < last; ++slot) {
      const std::int64_t choice = order[slot];
      T* to = y + slot * op.width;
      if (choice < 0) {
        __builtin_memset(to, 0, static_cast<std::size_t>(op.width) * sizeof(T));
        continue;
      }
      const T* from = x + choice / op.top * op.width;
      const float weight = op.weighted ? weights[choice] : 1.0F;
#pragma omp simd
      for (std::int64_t j = 0; j < op.width; ++j) {
        to[j] = from[j] * weight;
      }
    }
  };
  parallel_ranges(arguments.threads, op.slots, rows_worth_a_thread(op.width), each);
}

constexpr std::int64_t kColumns = 256;  // summed at a time

template <typename T>
void sum_rows(const SumRows& op, const Arguments& arguments) {
  const T* x = input<T>(arguments, 0);
  const std::int32_t* place = integers(arguments, 1) + op.slots;
  const float* weights = op.weighted ? input(arguments, 2) : nullptr;
  T* y = output<T>(arguments, 0);
  const auto each = [&](std::int64_t first, std::int64_t last, int /*thread*/) {
    for (std::int64_t row = first; row < last; ++row) {
      for (std::int64_t from = 0; from < op.width; from += kColumns) {
        const std::int64_t size = op.width - from < kColumns ? op.width - from : kColumns;
        float sums[kColumns] = {};
        for (std::int64_t choice = row * op.top; choice < (row + 1) * op.top; ++choice) {
          if (place[choice] < 0) continue;
          const T* term = x + place[choice] * op.width + from;
          const float weight = op.weighted ? weights[choice] : 1.0F;
#pragma omp simd
          for (std::int64_t j = 0; j < size; ++j) {
            sums[j] += term[j] * weight;
          }
        }
        for (std::int64_t j = 0; j < size; ++j) {
          y[row * op.width + from + j] = sums[j];
        }
      }
    }
  };
  parallel_ranges(arguments.threads, op.rows, rows_worth_a_thread(op.width * op.top), each);
}

template <typename T>
void sum_rows_grad_weight(const SumRowsGradWeight& op, const Arguments& arguments) {
  const T* dy = input<T>(arguments, 0);
  const T* x = input<T>(arguments, 1);
  const std::int32_t* place = integers(arguments, 2) + op.slots;
  float* dweights = output(arguments, 0);
  const auto each = [&](std::int64_t first, std::int64_t last, int /*thread*/) {
    for (std::int64_t choice = first; choice < last; ++choice) {
      double sum = 0;
      if (place[choice] >= 0) {
        const T* a = dy + choice / op.top * op.width;
        const T* b = x + place[choice] * op.width;
#pragma omp simd reduction(+ : sum)
        for (std::int64_t j = 0; j < op.width; ++j) {
          sum += static_cast<double>(a[j]) * b[j];
        }
      }
      dweights[choice] = static_cast<float>(sum);
    }
  };
  parallel_ranges(arguments.threads, op.rows * op.top, rows_worth_a_thread(op.width), each);
}

}  // namespace

void run_route(const Router& op, const Arguments& arguments) {
  in_type_of(arguments, [&]<typename T>(T /*element*/) { route<T>(op, arguments); });
}

void run_route_grad(const RouterGrad& op, const Arguments& arguments) {
  in_type_of(arguments, [&]<typename T>(T /*element*/) { route_grad<T>(op, arguments); });
}

void run_sort_choices(const SortChoices& op, const Arguments& arguments) {
  const std::int32_t* choices = integers(arguments, 0);
  auto* order = output<std::int32_t>(arguments, 0);
  auto* starts = output<std::int32_t>(arguments, 1);
  parallel_ranges(arguments.threads, op.held + 1, rows_worth_a_thread(op.rows * op.top),
                  [&](std::int64_t first, std::int64_t last, int /*thread*/) {
                    for (std::int64_t expert = first; expert < last; ++expert) {
                      sort_one(op, expert, choices, order, starts);
                    }
                  });
}

void run_take_rows(const TakeRows& op, const Arguments& arguments) {
  in_type_of(arguments, [&]<typename T>(T /*element*/) { take_rows<T>(op, arguments); });
}

void run_sum_rows(const SumRows& op, const Arguments& arguments) {
  in_type_of(arguments, [&]<typename T>(T /*element*/) { sum_rows<T>(op, arguments); });
}

void run_sum_rows_grad_weight(const SumRowsGradWeight& op, const Arguments& arguments) {
  in_type_of(arguments, [&]<typename T>(T /*element*/) { sum_rows_grad_weight<T>(op, arguments); });
}

}  // namespace hethub::HETHUB_LEVEL

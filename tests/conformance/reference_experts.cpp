#include "reference_experts.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace hethub::conformance {
namespace {

using Inputs = std::vector<Values>;

Values zeros(std::int64_t count) { return Values(static_cast<std::size_t>(count), 0.0); }

std::int64_t integer(double value) { return static_cast<std::int64_t>(value); }

// Calls work(slot, row of the first output of the slot's expert) for every slot that is used.
template <typename T, typename Work>
void for_slots(const T& op, const Values& starts, const Work& work) {
  for (std::int64_t expert = 0; expert < op.experts; ++expert) {
    for (std::int64_t slot = integer(starts[expert]); slot < integer(starts[expert + 1]); ++slot) {
      work(slot, expert * op.out);
    }
  }
}

}  // namespace

std::vector<Values> compute(const Router& op, const Inputs& in) {
  Values weights;
  Values choices;
  for (std::int64_t r = 0; r < op.rows; ++r) {
    std::vector<std::int64_t> experts(static_cast<std::size_t>(op.experts));
    std::iota(experts.begin(), experts.end(), std::int64_t{0});
    const auto logit = [&](std::int64_t expert) { return in[0][r * op.experts + expert]; };
    std::stable_sort(experts.begin(), experts.end(),
                     [&](std::int64_t a, std::int64_t b) { return logit(a) > logit(b); });
    double sum = 0;
    for (std::int64_t k = 0; k < op.top; ++k) {
      sum += std::exp(logit(experts[k]) - logit(experts[0]));
    }
    for (std::int64_t k = 0; k < op.top; ++k) {
      choices.push_back(static_cast<double>(experts[k]));
      weights.push_back(std::exp(logit(experts[k]) - logit(experts[0])) / sum);
    }
  }
  return {weights, choices};
}

std::vector<Values> compute(const RouterGrad& grad, const Inputs& in) {
  const Router& op = grad.forward;
  Values dlogits = zeros(op.rows * op.experts);
  for (std::int64_t r = 0; r < op.rows; ++r) {
    double mean = 0;
    for (std::int64_t c = r * op.top; c < (r + 1) * op.top; ++c) {
      mean += in[2][c] * in[0][c];
    }
    for (std::int64_t c = r * op.top; c < (r + 1) * op.top; ++c) {
      dlogits[r * op.experts + integer(in[3][c])] += in[2][c] * (in[0][c] - mean);
    }
    const std::int64_t sequence = r / op.sequence * op.sequence;
    Values shares = zeros(op.experts);
    for (std::int64_t c = sequence * op.top; c < (sequence + op.sequence) * op.top; ++c) {
      shares[integer(in[3][c])] += 1.0 / static_cast<double>(op.sequence);
    }
    double whole = 0;
    double mixed = 0;
    for (std::int64_t e = 0; e < op.experts; ++e) {
      whole += std::exp(in[1][r * op.experts + e]);
      mixed += std::exp(in[1][r * op.experts + e]) * shares[e];
    }
    for (std::int64_t e = 0; e < op.experts; ++e) {
      const double p = std::exp(in[1][r * op.experts + e]) / whole;
      dlogits[r * op.experts + e] +=
          op.balance * static_cast<double>(op.experts) * p * (shares[e] - mixed / whole);
    }
  }
  return {dlogits};
}

std::vector<Values> compute(const SortChoices& op, const Inputs& in) {
  Values order(static_cast<std::size_t>(op.slots() + op.rows * op.top), -1.0);
  Values starts = {0};
  std::int64_t slot = 0;
  for (std::int64_t expert = op.first; expert < op.first + op.held; ++expert) {
    for (std::int64_t choice = 0; choice < op.rows * op.top; ++choice) {
      if (integer(in[0][choice]) != expert) continue;
      order[op.slots() + choice] = static_cast<double>(slot);
      order[slot++] = static_cast<double>(choice);
    }
    starts.push_back(static_cast<double>(slot));
  }
  return {order, starts};
}

std::vector<Values> compute(const TakeRows& op, const Inputs& in) {
  Values y = zeros(op.slots * op.width);
  for (std::int64_t slot = 0; slot < op.slots; ++slot) {
    const std::int64_t choice = integer(in[1][slot]);
    for (std::int64_t j = 0; choice >= 0 && j < op.width; ++j) {
      const double weight = op.weighted ? in[2][choice] : 1;
      y[slot * op.width + j] = weight * in[0][choice / op.top * op.width + j];
    }
  }
  return {y};
}

std::vector<Values> compute(const SumRows& op, const Inputs& in) {
  Values y = zeros(op.rows * op.width);
  for (std::int64_t choice = 0; choice < op.rows * op.top; ++choice) {
    const std::int64_t slot = integer(in[1][op.slots + choice]);
    for (std::int64_t j = 0; slot >= 0 && j < op.width; ++j) {
      const double weight = op.weighted ? in[2][choice] : 1;
      y[choice / op.top * op.width + j] += weight * in[0][slot * op.width + j];
    }
  }
  return {y};
}

std::vector<Values> compute(const SumRowsGradWeight& op, const Inputs& in) {
  Values dweights = zeros(op.rows * op.top);
  for (std::int64_t choice = 0; choice < op.rows * op.top; ++choice) {
    const std::int64_t slot = integer(in[2][op.slots + choice]);
    for (std::int64_t j = 0; slot >= 0 && j < op.width; ++j) {
      dweights[choice] += in[0][choice / op.top * op.width + j] * in[1][slot * op.width + j];
    }
  }
  return {dweights};
}

std::vector<Values> compute(const ExpertLinear& op, const Inputs& in) {
  Values y = zeros(op.slots * op.out);
  for_slots(op, in[2], [&](std::int64_t slot, std::int64_t row) {
    for (std::int64_t o = 0; o < op.out; ++o) {
      for (std::int64_t i = 0; i < op.in; ++i) {
        y[slot * op.out + o] += in[0][slot * op.in + i] * in[1][(row + o) * op.in + i];
      }
    }
  });
  return {y};
}

std::vector<Values> compute(const ExpertLinearGradInput& op, const Inputs& in) {
  Values dx = zeros(op.slots * op.in);
  for_slots(op, in[2], [&](std::int64_t slot, std::int64_t row) {
    for (std::int64_t o = 0; o < op.out; ++o) {
      for (std::int64_t i = 0; i < op.in; ++i) {
        dx[slot * op.in + i] += in[0][slot * op.out + o] * in[1][(row + o) * op.in + i];
      }
    }
  });
  return {dx};
}

std::vector<Values> compute(const ExpertLinearGradWeight& op, const Inputs& in) {
  Values dw = in[3];
  for_slots(op, in[2], [&](std::int64_t slot, std::int64_t row) {
    for (std::int64_t o = 0; o < op.out; ++o) {
      for (std::int64_t i = 0; i < op.in; ++i) {
        dw[(row + o) * op.in + i] += in[0][slot * op.out + o] * in[1][slot * op.in + i];
      }
    }
  });
  return {dw};
}

}  // namespace hethub::conformance

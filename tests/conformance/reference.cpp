#include "reference.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "reference_experts.h"

namespace hethub::conformance {
namespace {

using Inputs = std::vector<Values>;

Values zeros(std::int64_t count) { return Values(static_cast<std::size_t>(count), 0.0); }

std::int64_t integer(double value) { return static_cast<std::int64_t>(value); }

std::vector<Values> compute(const Linear& op, const Inputs& in) {
  Values y = zeros(op.rows * op.out);
  for (std::int64_t r = 0; r < op.rows; ++r) {
    for (std::int64_t o = 0; o < op.out; ++o) {
      double sum = op.bias ? in[2][o] : 0;
      for (std::int64_t i = 0; i < op.in; ++i) {
        sum += in[0][r * op.in + i] * in[1][o * op.in + i];
      }
      y[r * op.out + o] = sum;
    }
  }
  return {y};
}

std::vector<Values> compute(const LinearGradInput& op, const Inputs& in) {
  Values dx = zeros(op.rows * op.in);
  for (std::int64_t r = 0; r < op.rows; ++r) {
    for (std::int64_t o = 0; o < op.out; ++o) {
      for (std::int64_t i = 0; i < op.in; ++i) {
        dx[r * op.in + i] += in[0][r * op.out + o] * in[1][o * op.in + i];
      }
    }
  }
  return {dx};
}

std::vector<Values> compute(const LinearGradWeight& op, const Inputs& in) {
  Values dw = in[2];
  for (std::int64_t r = 0; r < op.rows; ++r) {
    for (std::int64_t o = 0; o < op.out; ++o) {
      for (std::int64_t i = 0; i < op.in; ++i) {
        dw[o * op.in + i] += in[0][r * op.out + o] * in[1][r * op.in + i];
      }
    }
  }
  return {dw};
}

std::vector<Values> compute(const BiasGrad& op, const Inputs& in) {
  Values db = in[1];
  for (std::int64_t r = 0; r < op.rows; ++r) {
    for (std::int64_t j = 0; j < op.width; ++j) {
      db[j] += in[0][r * op.width + j];
    }
  }
  return {db};
}

std::vector<Values> compute(const Embedding& op, const Inputs& in) {
  Values y = zeros(op.rows * op.width);
  for (std::int64_t r = 0; r < op.rows; ++r) {
    const std::int64_t id = integer(in[0][r]) - op.first;
    if (id < 0 || id >= op.vocab) continue;
    for (std::int64_t j = 0; j < op.width; ++j) {
      y[r * op.width + j] = in[1][id * op.width + j];
    }
  }
  return {y};
}

std::vector<Values> compute(const EmbeddingGrad& op, const Inputs& in) {
  Values dtable = in[2];
  for (std::int64_t r = 0; r < op.rows; ++r) {
    const std::int64_t id = integer(in[0][r]) - op.first;
    if (id < 0 || id >= op.vocab) continue;
    for (std::int64_t j = 0; j < op.width; ++j) {
      dtable[id * op.width + j] += in[1][r * op.width + j];
    }
  }
  return {dtable};
}

std::vector<Values> compute(const RmsNorm& op, const Inputs& in) {
  Values y = zeros(op.rows * op.width);
  Values rstd = zeros(op.rows);
  for (std::int64_t r = 0; r < op.rows; ++r) {
    double sum = 0;
    for (std::int64_t j = 0; j < op.width; ++j) {
      sum += in[0][r * op.width + j] * in[0][r * op.width + j];
    }
    rstd[r] = 1 / std::sqrt(sum / static_cast<double>(op.width) + op.eps);
    for (std::int64_t j = 0; j < op.width; ++j) {
      y[r * op.width + j] = in[0][r * op.width + j] * rstd[r] * in[1][j];
    }
  }
  return {y, rstd};
}

std::vector<Values> compute(const RmsNormGradInput& op, const Inputs& in) {
  Values dx = zeros(op.rows * op.width);
  for (std::int64_t r = 0; r < op.rows; ++r) {
    double mean = 0;
    for (std::int64_t j = 0; j < op.width; ++j) {
      mean += in[0][r * op.width + j] * in[2][j] * in[1][r * op.width + j];
    }
    mean /= static_cast<double>(op.width);
    for (std::int64_t j = 0; j < op.width; ++j) {
      const double g = in[0][r * op.width + j] * in[2][j];
      dx[r * op.width + j] = in[3][r] * (g - in[1][r * op.width + j] * in[3][r] * in[3][r] * mean);
    }
  }
  return {dx};
}

std::vector<Values> compute(const RmsNormGradGain& op, const Inputs& in) {
  Values dgain = in[3];
  for (std::int64_t r = 0; r < op.rows; ++r) {
    for (std::int64_t j = 0; j < op.width; ++j) {
      dgain[j] += in[0][r * op.width + j] * in[1][r * op.width + j] * in[2][r];
    }
  }
  return {dgain};
}

std::vector<Values> compute(const LayerNorm& op, const Inputs& in) {
  Values y = zeros(op.rows * op.width);
  Values mean = zeros(op.rows);
  Values rstd = zeros(op.rows);
  const auto width = static_cast<double>(op.width);
  for (std::int64_t r = 0; r < op.rows; ++r) {
    for (std::int64_t j = 0; j < op.width; ++j) {
      mean[r] += in[0][r * op.width + j] / width;
    }
    double variance = 0;
    for (std::int64_t j = 0; j < op.width; ++j) {
      variance += std::pow(in[0][r * op.width + j] - mean[r], 2) / width;
    }
    rstd[r] = 1 / std::sqrt(variance + op.eps);
    for (std::int64_t j = 0; j < op.width; ++j) {
      y[r * op.width + j] = (in[0][r * op.width + j] - mean[r]) * rstd[r] * in[1][j] + in[2][j];
    }
  }
  return {y, mean, rstd};
}

std::vector<Values> compute(const LayerNormGradInput& op, const Inputs& in) {
  Values dx = zeros(op.rows * op.width);
  const auto width = static_cast<double>(op.width);
  for (std::int64_t r = 0; r < op.rows; ++r) {
    const auto g = [&](std::int64_t j) { return in[0][r * op.width + j] * in[2][j]; };
    const auto n = [&](std::int64_t j) { return (in[1][r * op.width + j] - in[3][r]) * in[4][r]; };
    double level = 0;
    double pull = 0;
    for (std::int64_t j = 0; j < op.width; ++j) {
      level += g(j) / width;
      pull += g(j) * n(j) / width;
    }
    for (std::int64_t j = 0; j < op.width; ++j) {
      dx[r * op.width + j] = in[4][r] * (g(j) - level - n(j) * pull);
    }
  }
  return {dx};
}

std::vector<Values> compute(const LayerNormGradGain& op, const Inputs& in) {
  Values dgain = in[4];
  for (std::int64_t r = 0; r < op.rows; ++r) {
    for (std::int64_t j = 0; j < op.width; ++j) {
      dgain[j] += in[0][r * op.width + j] * (in[1][r * op.width + j] - in[2][r]) * in[3][r];
    }
  }
  return {dgain};
}

std::vector<Values> compute(const AddBias& op, const Inputs& in) {
  Values y = in[0];
  for (std::size_t i = 0; i < y.size(); ++i) {
    y[i] += in[1][i % static_cast<std::size_t>(op.width)];
  }
  return {y};
}

std::vector<Values> compute(const Rope& op, const Inputs& in) {
  Values y = zeros(op.rows * op.heads * op.head_dim);
  const std::int64_t h = op.head_dim / 2;
  for (std::int64_t r = 0; r < op.rows; ++r) {
    const std::int64_t p = integer(in[1][r]);
    for (std::int64_t head = 0; head < op.heads; ++head) {
      const std::int64_t at = (r * op.heads + head) * op.head_dim;
      for (std::int64_t j = 0; j < h; ++j) {
        const double c = in[2][p * op.head_dim + j];
        const double s = (op.inverse ? -1 : 1) * in[2][p * op.head_dim + h + j];
        y[at + j] = in[0][at + j] * c - in[0][at + j + h] * s;
        y[at + j + h] = in[0][at + j + h] * c + in[0][at + j] * s;
      }
    }
  }
  return {y};
}

// Where the elements of an attention lie, and which positions a position sees.
struct AttentionView {
  Attention op = {};
  const Values* starts = nullptr;

  std::int64_t query(std::int64_t b, std::int64_t i, std::int64_t h) const {
    return ((b * op.seq + i) * op.heads + h) * op.head_dim;
  }
  std::int64_t key(std::int64_t b, std::int64_t i, std::int64_t h) const {
    return ((b * op.seq + i) * op.kv_heads + h / (op.heads / op.kv_heads)) * op.head_dim;
  }
  std::int64_t first(std::int64_t b, std::int64_t i) const {
    const std::int64_t start =
        op.documents ? integer((*starts)[static_cast<std::size_t>(b * op.seq + i)]) : 0;
    return op.window > 0 ? std::max(start, i - op.window + 1) : start;
  }
  double scale() const { return 1 / std::sqrt(static_cast<double>(op.head_dim)); }

  double dot(const Values& a, std::int64_t at, const Values& b, std::int64_t bt) const {
    double sum = 0;
    for (std::int64_t d = 0; d < op.head_dim; ++d) {
      sum += a[at + d] * b[bt + d];
    }
    return sum;
  }

  // Calls work(b, h, i) for every row of scores.
  template <typename Work>
  void for_rows(const Work& work) const {
    for (std::int64_t b = 0; b < op.batch; ++b) {
      for (std::int64_t h = 0; h < op.heads; ++h) {
        for (std::int64_t i = 0; i < op.seq; ++i) {
          work(b, h, i);
        }
      }
    }
  }
};

std::vector<Values> compute(const Attention& op, const Inputs& in) {
  const AttentionView view{op, op.documents ? &in[3] : nullptr};
  Values y = zeros(op.batch * op.seq * op.heads * op.head_dim);
  Values lse = zeros(op.batch * op.heads * op.seq);
  view.for_rows([&](std::int64_t b, std::int64_t h, std::int64_t i) {
    std::vector<double> scores;
    double most = -1e300;
    for (std::int64_t j = view.first(b, i); j <= i; ++j) {
      scores.push_back(view.scale() *
                       view.dot(in[0], view.query(b, i, h), in[1], view.key(b, j, h)));
      most = std::max(most, scores.back());
    }
    double whole = 0;
    for (const double score : scores) {
      whole += std::exp(score - most);
    }
    lse[(b * op.heads + h) * op.seq + i] = most + std::log(whole);
    for (std::int64_t j = view.first(b, i); j <= i; ++j) {
      const double weight = std::exp(scores[j - view.first(b, i)] - most) / whole;
      for (std::int64_t d = 0; d < op.head_dim; ++d) {
        y[view.query(b, i, h) + d] += weight * in[2][view.key(b, j, h) + d];
      }
    }
  });
  return {y, lse};
}

std::vector<Values> compute(const AttentionGrad& grad, const Inputs& in) {
  const Attention& op = grad.forward;
  const AttentionView view{op, op.documents ? &in[6] : nullptr};
  const Values& dy = in[0];
  const Values& q = in[1];
  const Values& k = in[2];
  const Values& v = in[3];
  Values dq = zeros(static_cast<std::int64_t>(q.size()));
  Values dk = zeros(static_cast<std::int64_t>(k.size()));
  Values dv = zeros(static_cast<std::int64_t>(v.size()));
  view.for_rows([&](std::int64_t b, std::int64_t h, std::int64_t i) {
    const std::int64_t row = view.query(b, i, h);
    const double pull = view.dot(dy, row, in[4], row);
    for (std::int64_t j = view.first(b, i); j <= i; ++j) {
      const std::int64_t column = view.key(b, j, h);
      const double weight = std::exp(view.scale() * view.dot(q, row, k, column) -
                                     in[5][(b * op.heads + h) * op.seq + i]);
      const double slope = weight * (view.dot(dy, row, v, column) - pull) * view.scale();
      for (std::int64_t d = 0; d < op.head_dim; ++d) {
        dq[row + d] += slope * k[column + d];
        dk[column + d] += slope * q[row + d];
        dv[column + d] += weight * dy[row + d];
      }
    }
  });
  return {dq, dk, dv};
}

std::vector<Values> compute(const SiluMul& op, const Inputs& in) {
  Values y = zeros(op.rows * op.width);
  for (std::size_t i = 0; i < y.size(); ++i) {
    y[i] = in[0][i] / (1 + std::exp(-in[0][i])) * in[1][i];
  }
  return {y};
}

std::vector<Values> compute(const SiluMulGrad& op, const Inputs& in) {
  Values dgate = zeros(op.rows * op.width);
  Values dup = dgate;
  for (std::size_t i = 0; i < dup.size(); ++i) {
    const double gate = in[1][i];
    const double sigmoid = 1 / (1 + std::exp(-gate));
    dgate[i] = in[0][i] * in[2][i] * sigmoid * (1 + gate * (1 - sigmoid));
    dup[i] = in[0][i] * gate * sigmoid;
  }
  return {dgate, dup};
}

double gelu_argument(double x) { return std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x); }

std::vector<Values> compute(const Gelu& /*op*/, const Inputs& in) {
  Values y = in[0];
  for (double& x : y) {
    x = 0.5 * x * (1 + std::tanh(gelu_argument(x)));
  }
  return {y};
}

std::vector<Values> compute(const GeluGrad& /*op*/, const Inputs& in) {
  Values dx = in[0];
  for (std::size_t i = 0; i < dx.size(); ++i) {
    const double x = in[1][i];
    const double t = std::tanh(gelu_argument(x));
    const double slope = std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
    dx[i] *= 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * slope;
  }
  return {dx};
}

Values sum_of(const Values& a, const Values& b) {
  Values sum = a;
  for (std::size_t i = 0; i < sum.size(); ++i) {
    sum[i] += b[i];
  }
  return sum;
}

std::vector<Values> compute(const Add& /*op*/, const Inputs& in) { return {sum_of(in[0], in[1])}; }

std::vector<Values> compute(const Accumulate& op, const Inputs& in) {
  Values total = in[0];
  for (std::int64_t term = 0; term < op.terms; ++term) {
    const auto row = in[1].begin() + term * op.stride;
    total = sum_of(total, Values(row, row + op.count));
  }
  return {total};
}

std::vector<Values> compute(const Convert& /*op*/, const Inputs& in) { return {in[0]}; }

std::vector<Values> compute(const Fill& op, const Inputs& /*in*/) {
  return {Values(static_cast<std::size_t>(op.count), op.value)};
}

std::vector<Values> compute(const CrossEntropy& op, const Inputs& in) {
  Values losses = zeros(op.rows);
  Values lse = zeros(op.rows);
  for (std::int64_t r = 0; r < op.rows; ++r) {
    const auto row = in[0].begin() + r * op.vocab;
    const double most = *std::max_element(row, row + op.vocab);
    double whole = 0;
    for (std::int64_t j = 0; j < op.vocab; ++j) {
      whole += std::exp(row[j] - most);
    }
    lse[r] = most + std::log(whole);
    if (in[1][r] != -100) losses[r] = lse[r] - row[integer(in[1][r])];
  }
  return {losses, lse};
}

std::vector<Values> compute(const LogSumExp& op, const Inputs& in) {
  const Values labels(static_cast<std::size_t>(op.rows), -100);
  return {compute(CrossEntropy{op.rows, op.width}, {in[0], labels})[1]};
}

std::vector<Values> compute(const CrossEntropyPart& op, const Inputs& in) {
  Values losses = zeros(op.rows);
  Values lse = zeros(op.rows);
  for (std::int64_t r = 0; r < op.rows; ++r) {
    double whole = 0;
    for (std::int64_t part = 0; part < op.parts; ++part) {
      whole += std::exp(in[2][part * op.rows + r]);
    }
    lse[r] = std::log(whole);
    const std::int64_t column = integer(in[1][r]) - op.first;
    const bool here = in[1][r] != -100 && column >= 0 && column < op.vocab;
    if (here) losses[r] = lse[r] - in[0][r * op.vocab + column];
  }
  return {losses, lse};
}

std::vector<Values> compute(const CrossEntropyGrad& op, const Inputs& in) {
  Values dlogits = zeros(op.rows * op.vocab);
  for (std::int64_t r = 0; r < op.rows; ++r) {
    if (in[1][r] == -100) continue;
    for (std::int64_t j = 0; j < op.vocab; ++j) {
      const double share = std::exp(in[0][r * op.vocab + j] - in[2][r]);
      const double slope = share * (1 + 2 * op.z * in[2][r]);
      dlogits[r * op.vocab + j] = slope - (integer(in[1][r]) - op.first == j ? 1 : 0);
    }
  }
  return {dlogits};
}

std::vector<Values> compute(const SumSquares& /*op*/, const Inputs& in) {
  double sum = 0;
  for (const double x : in[0]) {
    sum += x * x;
  }
  return {{sum}};
}

std::vector<Values> compute(const AdamW& op, const Inputs& in) {
  const auto scalar = [&](AdamWScalar name) { return in[4][static_cast<std::size_t>(name)]; };
  const double beta1 = scalar(AdamWScalar::kBeta1);
  const double beta2 = scalar(AdamWScalar::kBeta2);
  const double rate = scalar(AdamWScalar::kLearningRate);
  Values p = in[0];
  Values m = in[1];
  Values v = in[2];
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double g = in[3][i] * scalar(AdamWScalar::kGradientScale);
    m[i] = beta1 * m[i] + (1 - beta1) * g;
    v[i] = beta2 * v[i] + (1 - beta2) * g * g;
    if (op.decay) p[i] -= rate * scalar(AdamWScalar::kWeightDecay) * p[i];
    p[i] -=
        rate * (m[i] / scalar(AdamWScalar::kBiasCorrection1)) /
        (std::sqrt(v[i] / scalar(AdamWScalar::kBiasCorrection2)) + scalar(AdamWScalar::kEpsilon));
  }
  return {p, m, v};
}

std::vector<Values> compute(const GroupStart& /*op*/, const Inputs& /*in*/) {
  throw std::logic_error("group ops are no device's");
}
std::vector<Values> compute(const GroupWait& /*op*/, const Inputs& /*in*/) {
  throw std::logic_error("group ops are no device's");
}

}  // namespace

std::vector<Values> reference(const Op& op, const std::vector<Values>& inputs) {
  return std::visit([&](const auto& body) { return compute(body, inputs); }, op.body);
}

}  // namespace hethub::conformance

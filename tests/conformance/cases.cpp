#include "cases.h"

#include <algorithm>

#include "hethub/base/text.h"

namespace hethub::conformance {
namespace {

struct Matrix {
  std::int64_t rows = 0;
  std::int64_t in = 0;
  std::int64_t out = 0;
};

struct Rectangle {
  std::int64_t rows = 0;
  std::int64_t width = 0;
};

void add(std::vector<Op>& cases, const OpBody& body) {
  cases.push_back({text("case ", cases.size()), DType::kF32, body});
}

void add_products(std::vector<Op>& cases, const std::vector<Matrix>& sizes) {
  for (const Matrix& m : sizes) {
    add(cases, Linear{m.rows, m.in, m.out, false});
    add(cases, Linear{m.rows, m.in, m.out, true});
    add(cases, LinearGradInput{m.rows, m.in, m.out});
    add(cases, LinearGradWeight{m.rows, m.in, m.out});
  }
}

void add_rows(std::vector<Op>& cases, const std::vector<Rectangle>& sizes) {
  for (const Rectangle& r : sizes) {
    add(cases, BiasGrad{r.rows, r.width});
    add(cases, RmsNorm{r.rows, r.width, 1e-5});
    add(cases, RmsNormGradInput{r.rows, r.width});
    add(cases, RmsNormGradGain{r.rows, r.width});
    add(cases, LayerNorm{r.rows, r.width, 1e-5});
    add(cases, LayerNormGradInput{r.rows, r.width});
    add(cases, LayerNormGradGain{r.rows, r.width});
    add(cases, AddBias{r.rows, r.width});
    add(cases, Gelu{r.rows, r.width});
    add(cases, GeluGrad{r.rows, r.width});
    add(cases, SiluMul{r.rows, r.width});
    add(cases, SiluMulGrad{r.rows, r.width});
    add(cases, Embedding{r.rows, 11, r.width});
    add(cases, EmbeddingGrad{r.rows, 11, r.width});
    add(cases, CrossEntropy{r.rows, r.width});
    add(cases, CrossEntropyGrad{r.rows, r.width});
    add(cases, Embedding{r.rows, 11, r.width, 5, 23});
    add(cases, EmbeddingGrad{r.rows, 11, r.width, 5, 23});
    add(cases, LogSumExp{r.rows, r.width});
    add(cases, CrossEntropyPart{r.rows, r.width, 3, 3 + 2 * r.width, 3});
    add(cases, CrossEntropyGrad{r.rows, r.width, 3, 3 + 2 * r.width});
    add(cases, CrossEntropyGrad{.rows = r.rows, .vocab = r.width, .z = 0.01});
    add(cases, CrossEntropyGrad{r.rows, r.width, 3, 3 + 2 * r.width, 0.02});
  }
}

void add_vectors(std::vector<Op>& cases, const std::vector<std::int64_t>& counts) {
  for (const std::int64_t count : counts) {
    add(cases, Add{count});
    add(cases, Accumulate{count});
    add(cases, Accumulate{.count = count, .terms = 3, .stride = count + 1});
    add(cases, Fill{count, 0.75});
    add(cases, Convert{count});
    add(cases, SumSquares{count});
    add(cases, AdamW{count, false});
    add(cases, AdamW{count, true});
  }
}

void add_ropes(std::vector<Op>& cases) {
  for (const bool inverse : {false, true}) {
    add(cases, Rope{1, 1, 2, 1, inverse});
    add(cases, Rope{3, 5, 6, 9, inverse});
    add(cases, Rope{37, 3, 64, 40, inverse});
  }
}

// Rows that choose `top` of `experts`, of which the device holds `held` from `first` on.
struct Mixture {
  std::int64_t rows = 0;
  std::int64_t sequence = 0;
  std::int64_t experts = 0;
  std::int64_t top = 0;
  std::int64_t first = 0;
  std::int64_t held = 0;
};

void add_router(std::vector<Op>& cases, const Mixture& m) {
  add(cases, Router{m.rows, m.experts, m.top, m.sequence});
  add(cases, RouterGrad{{m.rows, m.experts, m.top, m.sequence}});
  add(cases, RouterGrad{{m.rows, m.experts, m.top, m.sequence, 0.125}});
  add(cases, SortChoices{m.rows, m.top, m.first, m.held});
}

// A device's part of the mixture on rows of this width, and matrices to this other one.
void add_experts(std::vector<Op>& cases, const Mixture& m, std::int64_t width, std::int64_t out) {
  const std::int64_t slots = SortChoices{m.rows, m.top, m.first, m.held}.slots();
  for (const bool weighted : {false, true}) {
    add(cases, TakeRows{m.rows, width, m.top, slots, weighted});
    add(cases, SumRows{m.rows, width, m.top, slots, weighted});
  }
  add(cases, SumRowsGradWeight{m.rows, width, m.top, slots});
  add(cases, ExpertLinear{slots, width, out, m.held, slots});
  add(cases, ExpertLinearGradInput{slots, width, out, m.held, slots});
  add(cases, ExpertLinearGradWeight{slots, width, out, m.held, slots});
}

void add_small_mixtures(std::vector<Op>& cases) {
  const std::vector<Mixture> mixtures = {
      {1, 1, 1, 1, 0, 1}, {3, 3, 4, 2, 0, 4}, {6, 3, 5, 3, 2, 2}, {4, 2, 7, 1, 6, 1}};
  for (const Mixture& m : mixtures) {
    add_router(cases, m);
    add_experts(cases, m, 5, 3);
  }
}

void add_big_mixtures(std::vector<Op>& cases) {
  add_router(cases, {130, 65, 8, 2, 0, 8});
  add_router(cases, {67, 67, 31, 5, 7, 11});
  add_experts(cases, {64, 64, 8, 2, 0, 8}, 33, 65);
  add_experts(cases, {67, 67, 8, 2, 3, 3}, 129, 31);
  add_experts(cases, {300, 300, 4, 1, 0, 4}, 64, 80);
  add_experts(cases, {17, 17, 16, 4, 12, 4}, 1, 259);
}

void add_attention(std::vector<Op>& cases, const Attention& op) {
  add(cases, op);
  add(cases, AttentionGrad{op});
}

// Few sizes of heads, with documents and without: OpenCL compiles each apart, for seconds.
void add_small_attentions(std::vector<Op>& cases) {
  add_attention(cases, {1, 1, 1, 1, 1, 0, false});
  add_attention(cases, {2, 5, 2, 1, 3, 0, false});
  add_attention(cases, {1, 7, 2, 2, 3, 3, false});
  add_attention(cases, {2, 6, 4, 2, 5, 0, true});
  add_attention(cases, {1, 9, 3, 1, 5, 4, true});
}

void add_big_attentions(std::vector<Op>& cases) {
  add_attention(cases, {2, 64, 4, 4, 16, 0, false});
  add_attention(cases, {1, 67, 6, 2, 13, 0, false});
  add_attention(cases, {1, 131, 2, 1, 64, 0, false});
  add_attention(cases, {1, 150, 2, 2, 24, 70, false});
  add_attention(cases, {1, 200, 2, 1, 16, 1, false});
  add_attention(cases, {2, 193, 2, 1, 5, 0, true});
  add_attention(cases, {1, 140, 2, 2, 128, 50, true});
}

// Of attention two sizes of a head: each takes some compilers seconds, and what differs from bf16
// is how an element is read and written.
bool takes_f16(const Op& op) {
  const auto* forward = std::get_if<Attention>(&op.body);
  const auto* grad = std::get_if<AttentionGrad>(&op.body);
  if (grad != nullptr) forward = &grad->forward;
  return forward == nullptr || forward->head_dim == 13 || forward->head_dim == 128;
}

// Whether the op has the same operands in another dtype.
bool same_facts(const Op& op, DType dtype) {
  Op other = op;
  other.dtype = dtype;
  const OpFacts a = facts_of(op);
  const OpFacts b = facts_of(other);
  const auto same_output = [](const OutputFacts& x, const OutputFacts& y) {
    return x.spec == y.spec;
  };
  return a.inputs == b.inputs && std::equal(a.outputs.begin(), a.outputs.end(), b.outputs.begin(),
                                            b.outputs.end(), same_output);
}

}  // namespace

std::vector<Op> small_cases() {
  std::vector<Op> cases;
  add_products(cases, {{1, 1, 1}, {2, 3, 5}, {7, 5, 3}});
  add_rows(cases, {{1, 1}, {3, 5}, {5, 17}});
  add_vectors(cases, {1, 7});
  add_ropes(cases);
  cases.resize(cases.size() - 1);  // the last rope is too big for finite differences
  add_small_attentions(cases);
  add_small_mixtures(cases);
  return cases;
}

std::vector<Op> all_cases() {
  std::vector<Op> cases = small_cases();
  add_products(
      cases,
      {{1, 64, 33}, {33, 1, 65}, {31, 127, 1}, {17, 63, 129}, {128, 192, 80}, {130, 257, 515}});
  add_rows(cases, {{1, 16}, {64, 1}, {13, 97}, {67, 259}, {300, 64}, {5, 5003}});
  add_vectors(cases, {16, 31, 1009, 70001});
  add_ropes(cases);
  add_big_attentions(cases);
  add_big_mixtures(cases);
  return cases;
}

std::vector<Op> cases_in(DType dtype) {
  std::vector<Op> cases;
  for (Op op : all_cases()) {
    op.dtype = dtype;
    if (same_facts(op, DType::kF32)) continue;
    if (dtype == DType::kF16 && !takes_f16(op)) continue;
    cases.push_back(op);
  }
  return cases;
}

std::string title_of(const Op& op) {
  return text(facts_of(op).kind, " ", name_of(op.dtype), " ", sizes_text(op));
}

}  // namespace hethub::conformance

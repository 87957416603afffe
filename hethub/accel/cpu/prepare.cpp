#include "hethub/accel/cpu/prepare.h"

#include "hethub/accel/backend_tools.h"
#include "hethub/accel/cpu/expert_products.h"
#include "hethub/base/error.h"

namespace hethub {
namespace {

std::byte* address_of(const View& view) {
  return view.buffer == nullptr ? nullptr : view.buffer->host_data() + view.offset;
}

struct IntegerRange {
  int input = 0;
  std::int64_t count = 0;
  std::int64_t limit = 0;  ///< values are 0 to limit - 1,
  int ignored = 0;         ///< or this
  const char* name = "";
};

// The integers of an op that are positions in another operand: a wrong one must not be followed.
IntegerRange range_of(const Embedding& op) { return {0, op.rows, op.whole(), 0, "ids"}; }
IntegerRange range_of(const EmbeddingGrad& op) { return {0, op.rows, op.whole(), 0, "ids"}; }
IntegerRange range_of(const Rope& op) { return {1, op.rows, op.table_rows, 0, "positions"}; }
IntegerRange range_of(const CrossEntropy& op) { return {1, op.rows, op.vocab, -100, "labels"}; }
IntegerRange range_of(const CrossEntropyPart& op) { return {1, op.rows, op.of, -100, "labels"}; }
IntegerRange range_of(const CrossEntropyGrad& op) {
  return {1, op.rows, op.whole(), -100, "labels"};
}
template <typename T>
IntegerRange range_of(const T& /*op*/) {
  return {};
}

void check(const IntegerRange& range, const Arguments& arguments) {
  const auto* values = static_cast<const std::int32_t*>(arguments.inputs[range.input]);
  for (std::int64_t i = 0; i < range.count; ++i) {
    const bool fits = values[i] >= 0 && values[i] < range.limit;
    if (fits || values[i] == range.ignored) continue;
    require(false, {.what = text("cpu: ", range.name, "[", i, "]"),
                    .found = text(values[i]),
                    .expected = text("0 to ", range.limit - 1),
                    .fix = "see whether the data were made with this model's vocabulary and "
                           "sequence length"});
  }
}

// Every op but the matrix products: a kernel over the operands' addresses.
template <typename T>
class KernelOp : public CpuOp {
 public:
  KernelOp(const CpuTools& tools, const T& op, DType dtype)
      : op_(op),
        kernel_(static_cast<const Kernel<T>&>(*tools.kernels)),
        threads_(tools.threads),
        dtype_(dtype) {}

  void run(std::span<const View> inputs, std::span<const View> outputs,
           const View& workspace) override {
    Arguments arguments{.workspace = address_of(workspace),
                        .workspace_bytes = workspace.bytes,
                        .threads = threads_,
                        .dtype = dtype_};
    for (std::size_t input = 0; input < inputs.size(); ++input) {
      arguments.inputs[input] = address_of(inputs[input]);
    }
    for (std::size_t output = 0; output < outputs.size(); ++output) {
      arguments.outputs[output] = address_of(outputs[output]);
    }
    check(range_of(op_), arguments);
    kernel_.run(op_, arguments);
  }

 private:
  T op_;
  Kernel<T> kernel_;
  int threads_;
  DType dtype_;
};

// An op whose input 0 is `a` and input 1 `b` of a matrix product, unless swapped.
class ProductOp : public CpuOp {
 public:
  ProductOp(const CpuTools& tools, const MatrixProduct& product)
      : product_(*tools.matrices, product), bias_(product.bias) {}

  void run(std::span<const View> inputs, std::span<const View> outputs,
           const View& workspace) override {
    product_.run({.a = address_of(inputs[0]),
                  .b = address_of(inputs[1]),
                  .bias = bias_ ? address_of(inputs[2]) : nullptr,
                  .c = address_of(outputs[0]),
                  .workspace = address_of(workspace)});
  }

 private:
  PreparedProduct product_;
  bool bias_;
};

// The same by a kernel of ours.
class KernelProductOp : public CpuOp {
 public:
  KernelProductOp(const CpuTools& tools, const MatrixProduct& product)
      : product_(product), kernel_(tools.kernels->product), threads_(tools.threads) {}

  static bool fits(const CpuTools& tools, const MatrixProduct& product) {
    return tools.kernels->product != nullptr && product.operands == DType::kBf16 &&
           (product.result == DType::kF32 ? !product.bias : !product.accumulate);
  }

  void run(std::span<const View> inputs, std::span<const View> outputs,
           const View& workspace) override {
    kernel_(product_,
            {.a = address_of(inputs[0]),
             .b = address_of(inputs[1]),
             .bias = product_.bias ? address_of(inputs[2]) : nullptr,
             .c = address_of(outputs[0]),
             .workspace = address_of(workspace)},
            threads_);
  }

 private:
  MatrixProduct product_;
  decltype(Kernels::product) kernel_;
  int threads_;
};

// One overload per kind of op.
struct Maker {
  const CpuTools& tools;
  const Op& op;

  std::unique_ptr<CpuOp> product(MatrixProduct sizes) const {
    const OpFacts facts = facts_of(op);
    sizes.workspace_bytes = facts.workspace_bytes;
    sizes.operands = facts.inputs[0].dtype;
    sizes.result = facts.outputs[0].spec.dtype;
    if (KernelProductOp::fits(tools, sizes)) return std::make_unique<KernelProductOp>(tools, sizes);
    return std::make_unique<ProductOp>(tools, sizes);
  }

  std::unique_ptr<CpuOp> operator()(const Linear& body) const {
    return product(
        {.m = body.rows, .k = body.in, .n = body.out, .b_transposed = true, .bias = body.bias});
  }
  std::unique_ptr<CpuOp> operator()(const LinearGradInput& body) const {
    return product({.m = body.rows, .k = body.out, .n = body.in});
  }
  std::unique_ptr<CpuOp> operator()(const LinearGradWeight& body) const {
    return product(
        {.m = body.out, .k = body.rows, .n = body.in, .a_transposed = true, .accumulate = true});
  }
  std::unique_ptr<CpuOp> operator()(const ExpertLinear& body) const {
    return expert_product(op, body);
  }
  std::unique_ptr<CpuOp> operator()(const ExpertLinearGradInput& body) const {
    return expert_product(op, body);
  }
  std::unique_ptr<CpuOp> operator()(const ExpertLinearGradWeight& body) const {
    return expert_product(op, body);
  }
  std::unique_ptr<CpuOp> operator()(const Rope& body) const {
    if (body.head_dim % 2 != 0) {
      refuse_op("cpu", op, text("head_dim ", body.head_dim), "an even one",
                "choose an even head_dim");
    }
    return std::make_unique<KernelOp<Rope>>(tools, body, op.dtype);
  }
  std::unique_ptr<CpuOp> operator()(const Attention& body) const { return attention(body, body); }
  std::unique_ptr<CpuOp> operator()(const AttentionGrad& body) const {
    return attention(body, body.forward);
  }
  // The tiles of one thread fit the workspace up to here.
  template <typename T>
  std::unique_ptr<CpuOp> attention(const T& body, const Attention& sizes) const {
    constexpr std::int64_t kMostHeadDim = 1024;
    if (sizes.head_dim > kMostHeadDim) {
      refuse_op("cpu", op, text("head_dim ", sizes.head_dim), text("at most ", kMostHeadDim),
                "choose more heads of a smaller head_dim");
    }
    return std::make_unique<KernelOp<T>>(tools, body, op.dtype);
  }
  std::unique_ptr<CpuOp> operator()(const GroupStart& /*body*/) const { return group(); }
  std::unique_ptr<CpuOp> operator()(const GroupWait& /*body*/) const { return group(); }
  std::unique_ptr<CpuOp> group() const {
    refuse_op("cpu", op, "a group op", "an op of one device", "group ops are run by the executor");
  }
  template <typename T>
  std::unique_ptr<CpuOp> operator()(const T& body) const {
    return std::make_unique<KernelOp<T>>(tools, body, op.dtype);
  }
};

}  // namespace

std::unique_ptr<CpuOp> prepare_cpu_op(const CpuTools& tools, const Op& op) {
  const bool computes = op.dtype == DType::kF32 || op.dtype == DType::kBf16;
  if (!computes && !std::holds_alternative<Accumulate>(op.body)) {
    refuse_op("cpu", op, text("dtype ", name_of(op.dtype)), "f32 or bf16",
              "set the plan's dtype to one of these");
  }
  return std::visit(Maker{tools, op}, op.body);
}

}  // namespace hethub

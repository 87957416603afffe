#include "hethub/model/decoder.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "hethub/base/error.h"
#include "hethub/model/rope.h"

namespace hethub {
namespace {

class DecoderBuilder {
 public:
  DecoderBuilder(const ModelConfig& model, const Slice& slice, const BatchShape& shape,
                 const TensorParallel& parallel)
      : model_(model), slice_(slice), shape_(shape), rows_(shape.rows()), parallel_(parallel) {
    if (splits_rows()) stream_rows_ = rows_ / parallel.width;
  }

  Program build() {
    program_.name = text("layers ", slice_.begin, "-", slice_.end);
    for (const TensorShard& shard : shards_of(model_, slice_, parallel_)) {
      program_.add_value(shard.tensor.name, {DType::kF32, shard.shape()}, ValueRole::kParameter);
    }
    if (shape_.dtype != DType::kF32) add_copies();
    int hidden = slice_.embedding ? embedding() : received();
    if (slice_.layers() > 0) add_attention_inputs();
    for (int layer = slice_.begin; layer < slice_.end; ++layer) {
      hidden = add_layer(layer, hidden);
    }
    if (slice_.head) {
      add_head(hidden);
    } else {
      program_.sent_activation = hidden;
    }
    return std::move(program_);
  }

 private:
  void add_copies() {
    for (const int parameter : program_.values_of(ValueRole::kParameter)) {
      copies_[program_.values[parameter].name] = program_.add_copy(parameter, shape_.dtype);
    }
  }

  // What ops read as the parameter of that name; -1 if there is none.
  int parameter(const std::string& name) const {
    const auto copy = copies_.find(name);
    return copy == copies_.end() ? program_.find(name) : copy->second;
  }

  TensorSpec row_numbers() const { return {DType::kI32, {rows_}}; }

  int op(const std::string& name, OpBody body, const std::vector<int>& inputs, int layer) {
    Op made{name, shape_.dtype, std::move(body)};
    return append(program_, program_.forward, std::move(made), inputs, layer)[0];
  }

  int received() {
    program_.received_activation = program_.add_value(
        "received_activation", {shape_.dtype, {stream_rows_, model_.hidden_size}},
        ValueRole::kReceived);
    return program_.received_activation;
  }

  int embedding() {
    const int tokens = program_.add_value("tokens", row_numbers(), ValueRole::kInput);
    const IndexRange mine = vocabulary_of(model_, parallel_);
    Embedding body{rows_, mine.size(), model_.hidden_size};
    if (is_split()) body = {rows_, mine.size(), model_.hidden_size, mine.begin, model_.vocab_size};
    const int part = op("embedding", body, {tokens, parameter("model.embed_tokens.weight")}, -1);
    return sum("embedding.sum", part, -1);
  }

  bool is_split() const { return parallel_.width > 1; }
  bool splits_rows() const { return is_split() && parallel_.sequence; }

  int group_op(const std::string& name, GroupStart body, int x, int layer) {
    body.ranks = parallel_.width;
    const DType dtype = program_.values[x].spec.dtype;
    const int y = append(program_, program_.forward, {name, dtype, body}, {x}, layer)[0];
    const Op wait{name + ".wait", dtype, GroupWait{body.out_count}};
    return append(program_, program_.forward, wait, {y}, layer)[0];
  }

  // All rows of what the group splits by rows.
  int gathered(const std::string& name, int x, int layer) {
    if (!splits_rows()) return x;
    const std::int64_t count = program_.values[x].spec.elements();
    return group_op(
        name,
        {.kind = GroupKind::kAllGather, .in_count = count, .out_count = count * parallel_.width}, x,
        layer);
  }

  // The sum of what each rank of the group has a part of: the whole, or this rank's rows.
  int sum(const std::string& name, int part, int layer) {
    if (!is_split()) return part;
    const std::int64_t count = program_.values[part].spec.elements();
    if (splits_rows()) {
      return group_op(name,
                      {.kind = GroupKind::kReduceScatter,
                       .in_count = count,
                       .out_count = count / parallel_.width},
                      part, layer);
    }
    return group_op(name, {.kind = GroupKind::kAllReduce, .in_count = count, .out_count = count},
                    part, layer);
  }

  void add_attention_inputs() {
    positions_ = program_.add_value("positions", row_numbers(), ValueRole::kInput);
    if (shape_.documents) {
      starts_ = program_.add_value("document_starts", row_numbers(), ValueRole::kInput);
    }
    table_ =
        program_.add_value("rope_table", {DType::kF32, {shape_.sequence_length, model_.head_dim}},
                           ValueRole::kConstant);
    program_.constants.push_back({table_, [model = model_, positions = shape_.sequence_length] {
                                    return rope_table(model, positions);
                                  }});
  }

  // What follows a norm is split, so each rank has a part of the norm's gradients: that of its gain
  // is summed with the replicas', that of its input within the pass. Where rows are split, the
  // scatter that the gather becomes has summed the latter.
  int norm(const std::string& name, const std::string& weight, int x, int layer) {
    const int y = op(name, RmsNorm{stream_rows_, model_.hidden_size, model_.rms_norm_eps},
                     {x, parameter(weight + ".weight")}, layer);
    if (splits_rows()) return gathered(name + ".gather", y, layer);
    if (is_split()) {
      program_.forward.back().gradient_group = 0;
      program_.forward.back().gradient_ranks = parallel_.width;
    }
    return y;
  }

  int linear(const std::string& name, const std::string& weight, int x, int layer) {
    const int w = parameter(weight + ".weight");
    const int bias = parameter(weight + ".bias");
    const auto& shape = program_.values[w].spec.shape;
    const Linear body{rows_, shape[1], shape[0], bias >= 0};
    if (bias >= 0) return op(name, body, {x, w, bias}, layer);
    return op(name, body, {x, w}, layer);
  }

  // The product with a matrix that tensor parallel splits by columns: a sum over the group.
  int linear_of_columns(const std::string& name, const std::string& weight, int x, int layer) {
    if (parallel_.layout == TensorLayout::kWhole) return linear(name, weight, x, layer);
    const int w = parameter(weight + ".weight");
    const auto& shape = program_.values[w].spec.shape;  // [in, out]
    const int part = op(name, LinearGradInput{rows_, shape[1], shape[0]}, {x, w}, layer);
    return sum(name + ".sum", part, layer);
  }

  int rope(const std::string& name, int x, std::int64_t heads, int layer) {
    const Rope body{rows_, heads, model_.head_dim, shape_.sequence_length};
    return op(name, body, {x, positions_, table_}, layer);
  }

  // Queries or keys, each head normed if the model does so, then rotated.
  int rotated(const std::string& at, const std::string& weights, const char* which, int x,
              std::int64_t heads, int layer) {
    const int gain = parameter(text(weights, "self_attn.", which, "_norm.weight"));
    if (gain >= 0) {
      const RmsNorm body{rows_ * heads, model_.head_dim, model_.rms_norm_eps};
      x = op(text(at, "attention.norm_", which), body, {x, gain}, layer);
    }
    return rope(text(at, "attention.rope_", which), x, heads, layer);
  }

  int add_layer(int layer, int hidden) {
    const std::string at = text("layer", layer, ".");
    const std::string weights = text("model.layers.", layer, ".");
    const int normed = norm(at + "attention.norm", weights + "input_layernorm", hidden, layer);
    const int mixed = attention(at, weights, normed, layer);
    const Add add{stream_rows_ * model_.hidden_size};
    const int middle = op(at + "attention.residual", add, {hidden, mixed}, layer);
    const int normed_again =
        norm(at + "mlp.norm", weights + "post_attention_layernorm", middle, layer);
    const int gate = linear(at + "mlp.gate", weights + "mlp.gate_proj", normed_again, layer);
    const int up = linear(at + "mlp.up", weights + "mlp.up_proj", normed_again, layer);
    const std::int64_t width = program_.values[gate].spec.shape[1];
    const int inner = op(at + "mlp.silu_mul", SiluMul{rows_, width}, {gate, up}, layer);
    const int down = linear_of_columns(at + "mlp.down", weights + "mlp.down_proj", inner, layer);
    return op(at + "mlp.residual", add, {middle, down}, layer);
  }

  int attention(const std::string& at, const std::string& weights, int normed, int layer) {
    const int q = linear(at + "attention.q", weights + "self_attn.q_proj", normed, layer);
    const int k = linear(at + "attention.k", weights + "self_attn.k_proj", normed, layer);
    const int v = linear(at + "attention.v", weights + "self_attn.v_proj", normed, layer);
    const std::int64_t heads = program_.values[q].spec.shape[1] / model_.head_dim;
    const std::int64_t kv_heads = program_.values[k].spec.shape[1] / model_.head_dim;
    const Attention body{.batch = shape_.sequences,
                         .seq = shape_.sequence_length,
                         .heads = heads,
                         .kv_heads = kv_heads,
                         .head_dim = model_.head_dim,
                         .window = model_.windows.at(static_cast<std::size_t>(layer)),
                         .documents = shape_.documents};
    std::vector<int> inputs = {rotated(at, weights, "q", q, heads, layer),
                               rotated(at, weights, "k", k, kv_heads, layer), v};
    if (shape_.documents) inputs.push_back(starts_);
    const int mixed = op(at + "attention.mix", body, inputs, layer);
    return linear_of_columns(at + "attention.o", weights + "self_attn.o_proj", mixed, layer);
  }

  void add_head(int hidden) {
    const int normed = norm("head.norm", "model.norm", hidden, -1);
    const std::string weight = model_.tie_word_embeddings ? "model.embed_tokens" : "lm_head";
    const int logits = linear("head.logits", weight, normed, -1);
    const int labels = program_.add_value("labels", row_numbers(), ValueRole::kInput);
    if (is_split()) return add_split_loss(logits, labels);
    program_.losses = op("head.loss", CrossEntropy{rows_, model_.vocab_size}, {logits, labels}, -1);
  }

  void add_split_loss(int logits, int labels) {
    const IndexRange mine = vocabulary_of(model_, parallel_);
    const int part = op("head.lse", LogSumExp{rows_, mine.size()}, {logits}, -1);
    const GroupStart gather{
        .kind = GroupKind::kAllGather, .in_count = rows_, .out_count = rows_ * parallel_.width};
    const int parts = group_op("head.lse.gather", gather, part, -1);
    const CrossEntropyPart body{.rows = rows_,
                                .vocab = mine.size(),
                                .first = mine.begin,
                                .of = model_.vocab_size,
                                .parts = parallel_.width};
    program_.losses = op("head.loss", body, {logits, labels, parts}, -1);
  }

  const ModelConfig& model_;
  Slice slice_;
  BatchShape shape_;
  std::int64_t rows_;
  std::int64_t stream_rows_ = rows_;  // of norms and of the stream between layers
  TensorParallel parallel_;
  Program program_ = {};
  std::map<std::string, int> copies_ = {};  // of parameters, by their names
  int positions_ = -1;
  int starts_ = -1;
  int table_ = -1;
};

}  // namespace

Program build_forward(const ModelConfig& model, const Slice& slice, const BatchShape& shape,
                      const TensorParallel& parallel) {
  const bool fits = slice.begin >= 0 && slice.begin <= slice.end && slice.end <= model.layers &&
                    (slice.layers() > 0 || slice.embedding || slice.head);
  require(fits, {.what = "model slice",
                 .found = text("layers ", slice.begin, " to ", slice.end),
                 .expected = text("a part of ", model.layers, " layers"),
                 .fix = "give the stage a layer, the embedding or the head"});
  require(shape.rows() >= 1, {.what = "micro-batch",
                              .found = text(shape.sequences, " x ", shape.sequence_length),
                              .expected = "1 or more tokens",
                              .fix = "raise micro_batch_size or sequence_length"});
  return DecoderBuilder(model, slice, shape, parallel).build();
}

}  // namespace hethub

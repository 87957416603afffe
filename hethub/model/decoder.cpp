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

  std::vector<int> outputs_of(const std::string& name, OpBody body, const std::vector<int>& inputs,
                              int layer) {
    Op made{name, shape_.dtype, std::move(body)};
    return append(program_, program_.forward, std::move(made), inputs, layer);
  }

  int op(const std::string& name, OpBody body, const std::vector<int>& inputs, int layer) {
    return outputs_of(name, std::move(body), inputs, layer)[0];
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
    int part = op("embedding", body, {tokens, parameter(kEmbeddingName)}, -1);
    if (model_.learned_positions) part = with_positions(part);
    return sum("embedding.sum", part, -1);
  }

  // Each rank adds those of the positions that it holds, before the ranks' parts are summed.
  int with_positions(int embedded) {
    const IndexRange mine = learned_positions_of(model_, parallel_);
    Embedding body{rows_, mine.size(), model_.hidden_size};
    if (is_split()) {
      body.first = mine.begin;
      body.of = model_.max_position_embeddings;
    }
    const int looked_up =
        op("embedding.positions", body, {positions(), parameter(kPositionsName)}, -1);
    return op("embedding.add", Add{rows_ * model_.hidden_size}, {embedded, looked_up}, -1);
  }

  int positions() {
    if (positions_ < 0) {
      positions_ = program_.add_value("positions", row_numbers(), ValueRole::kInput);
    }
    return positions_;
  }

  bool is_split() const { return parallel_.width > 1; }
  bool splits_rows() const { return is_split() && parallel_.sequence; }

  // A group op and its wait; what the op gives.
  std::vector<int> group_pair(const std::string& name, const GroupStart& body,
                              const std::vector<int>& inputs, int layer) {
    const DType dtype = program_.values[inputs[0]].spec.dtype;
    std::vector<int> made = append(program_, program_.forward, {name, dtype, body}, inputs, layer);
    const Op wait{name + ".wait", dtype, GroupWait{body.out_count}};
    made[0] = append(program_, program_.forward, wait, {made[0]}, layer)[0];
    return made;
  }

  int group_op(const std::string& name, GroupStart body, int x, int layer) {
    body.ranks = parallel_.width;
    return group_pair(name, body, {x}, layer)[0];
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
    if (shape_.documents) {
      starts_ = program_.add_value("document_starts", row_numbers(), ValueRole::kInput);
    }
    if (model_.learned_positions) return;
    positions();
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
    std::vector<int> inputs = {x, parameter(weight + ".weight")};
    OpBody body = RmsNorm{stream_rows_, model_.hidden_size, model_.rms_norm_eps};
    if (model_.layer_norm) {
      inputs.push_back(parameter(weight + ".bias"));
      body = LayerNorm{stream_rows_, model_.hidden_size, model_.rms_norm_eps};
    }
    const int y = op(name, std::move(body), inputs, layer);
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
    const int whole = sum(name + ".sum", part, layer);
    const int bias = parameter(weight + ".bias");
    if (bias < 0) return whole;
    const AddBias add{stream_rows_, model_.hidden_size};
    const int y = op(name + ".bias", add, {whole, bias}, layer);
    program_.forward.back().parameter_gradient_elsewhere = all_alike() && parallel_.place != 0;
    return y;
  }

  // Whether all ranks of the group hold the same rows of the stream.
  bool all_alike() const { return is_split() && !splits_rows(); }

  int rope(const std::string& name, int x, std::int64_t heads, int layer) {
    const Rope body{rows_, heads, model_.head_dim, shape_.sequence_length};
    return op(name, body, {x, positions_, table_}, layer);
  }

  // Queries or keys, each head normed if the model does so, then rotated unless positions are
  // added.
  int rotated(const std::string& at, const std::string& weights, const char* which, int x,
              std::int64_t heads, int layer) {
    const int gain = parameter(text(weights, "self_attn.", which, "_norm.weight"));
    if (gain >= 0) {
      const RmsNorm body{rows_ * heads, model_.head_dim, model_.rms_norm_eps};
      x = op(text(at, "attention.norm_", which), body, {x, gain}, layer);
    }
    if (model_.learned_positions) return x;
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
    const int down = mlp(at, weights, normed_again, layer);
    return op(at + "mlp.residual", add, {middle, down}, layer);
  }

  int mlp(const std::string& at, const std::string& weights, int normed, int layer) {
    if (model_.experts > 0) return experts(at, weights, normed, layer);
    const int up = linear(at + "mlp.up", weights + "mlp.up_proj", normed, layer);
    const std::int64_t width = program_.values[up].spec.shape[1];
    const auto down = [&](int inner) {
      return linear_of_columns(at + "mlp.down", weights + "mlp.down_proj", inner, layer);
    };
    if (model_.gelu) return down(op(at + "mlp.gelu", Gelu{rows_, width}, {up}, layer));
    const int gate = linear(at + "mlp.gate", weights + "mlp.gate_proj", normed, layer);
    return down(op(at + "mlp.silu_mul", SiluMul{rows_, width}, {gate, up}, layer));
  }

  // Experts on the rows that chose them: those of the rank's group of copies, a part of a sum over
  // its tensor-parallel group. All ranks of the latter route all rows alike; the balance of the
  // experts is in the gradient of one of them.
  int experts(const std::string& at, const std::string& weights, int normed, int layer) {
    const std::string from = weights + "block_sparse_moe.";
    const std::int64_t top = model_.experts_per_token;
    const int logits = linear(at + "router.logits", from + "gate", normed, layer);
    const double balance = is_split() && parallel_.place != 0 ? 0 : model_.balance / model_.layers;
    const Router router{rows_, model_.experts, top, shape_.sequence_length, balance};
    const std::vector<int> routed = outputs_of(at + "router", router, {logits}, layer);
    const IndexRange reached = group_experts_of(model_, parallel_);
    const SortChoices sort{rows_, top, reached.begin, reached.size()};
    const std::vector<int> sorted = outputs_of(at + "experts.sort", sort, {routed[1]}, layer);
    const TakeRows take{rows_, model_.hidden_size, top, sort.slots()};
    const int taken = op(at + "experts.take", take, {normed, sorted[0]}, layer);
    int computed = -1;
    if (parallel_.expert_width > 1) {
      computed = exchanged(at, from, sort, {taken, sorted[1]}, layer);
    } else {
      const std::int64_t load = rows_ * top * reached.size() / model_.experts;
      computed = expert_mlp(at, from, {taken, sorted[1]}, {sort.slots(), load}, layer);
    }
    const SumRows mix{rows_, model_.hidden_size, top, sort.slots(), true};
    const int mixed = op(at + "experts.mix", mix, {computed, sorted[0], routed[0]}, layer);
    return sum(at + "experts.sum", mixed, layer);
  }

  // Rows by expert, and where each expert's begin.
  struct ExpertRows {
    int rows = -1;
    int starts = -1;
  };
  struct ExpertSlots {
    std::int64_t slots = 0;
    std::int64_t load = 0;  // see ExpertLinear
  };

  // What the rank's own experts make of their rows.
  int expert_mlp(const std::string& at, const std::string& from, const ExpertRows& x,
                 const ExpertSlots& in, int layer) {
    const std::int64_t held = experts_of(model_, parallel_).size();
    const auto product = [&](const std::string& name, const std::string& weight, int of) {
      const int w = parameter(from + "experts." + weight + ".weight");
      const auto& shape = program_.values[w].spec.shape;
      const ExpertLinear body{in.slots, shape[1], shape[0] / held, held, in.load};
      return op(at + name, body, {of, w, x.starts}, layer);
    };
    const int gate = product("experts.gate", "w1", x.rows);
    const int up = product("experts.up", "w3", x.rows);
    const SiluMul gated{in.slots, model_.intermediate_size};
    const int inner = op(at + "experts.silu_mul", gated, {gate, up}, layer);
    return product("experts.down", "w2", inner);
  }

  // What the experts of all copies make of the rank's rows, where each of them has a share of these
  // experts: all tell how many rows they have of each, then rows go there and come back.
  int exchanged(const std::string& at, const std::string& from, const SortChoices& sort,
                const ExpertRows& mine, int layer) {
    const std::int64_t ranks = parallel_.expert_width;
    const std::int64_t held = experts_of(model_, parallel_).size();
    const std::int64_t width = model_.hidden_size;
    const std::int64_t rows = shape_.expert_sequences * shape_.sequence_length;
    const GroupStart tell{.kind = GroupKind::kAllGather,
                          .group = is_split() ? 1 : 0,
                          .in_count = sort.held + 1,
                          .out_count = ranks * (sort.held + 1),
                          .ranks = parallel_.expert_width};
    const int starts = group_pair(at + "experts.tell", tell, {mine.starts}, layer)[0];
    const std::int64_t load = rows * sort.top * sort.held / model_.experts / (ranks * ranks);
    GroupStart exchange = tell;
    exchange.kind = GroupKind::kAllToAll;
    const std::int64_t most = (shape_.expert_sequences + ranks - 1) / ranks;
    exchange.exchange = {width,    sort.held, held, rows, most * shape_.sequence_length,
                         sort.top, load};
    exchange.in_count = sort.slots() * width;
    exchange.out_count = exchange.exchange.slots(held) * width;
    const auto arrived = group_pair(at + "experts.exchange", exchange, {mine.rows, starts}, layer);
    const ExpertSlots slots{exchange.exchange.slots(held), rows * sort.top * held / model_.experts};
    const int down = expert_mlp(at, from, {arrived[0], arrived[1]}, slots, layer);
    exchange.exchange.returns = true;
    std::swap(exchange.in_count, exchange.out_count);
    return group_pair(at + "experts.return", exchange, {down, starts}, layer)[0];
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
    const CrossEntropy loss{rows_, model_.vocab_size, shape_.z_loss};
    program_.losses = op("head.loss", loss, {logits, labels}, -1);
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
                                .parts = parallel_.width,
                                .z = shape_.z_loss};
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

#include "hethub/predict/run_stage.h"

#include <algorithm>

#include "hethub/cost/analytic.h"
#include "hethub/plan/group_ops.h"
#include "hethub/plan/optimizer_ops.h"

namespace hethub {
namespace {

// Latencies of a message in a collective. A collective library's own measurements on these links
// are of this size; runs are too coarse to tell.
constexpr double kLinkLatency = 3e-6;
constexpr double kNetworkLatency = 8e-6;
constexpr std::int64_t kFusedHeads = 4;
constexpr double kUnknownLink = 12e9;       // PCIe 3.0 with 16 lanes
constexpr double kUnknownNetwork = 12.5e9;  // of a node: 100 Gb/s

// Bytes that frameworks move for each logit, forwards and backwards: they copy logits to f32, then
// take the maximum, subtract it, raise, sum and divide one after another; and back.
constexpr double kLossForward = 28;
constexpr double kLossBackward = 20;

double loss_bytes(const Op& op) {
  const auto bytes = [](const auto& sizes, double each) {
    return each * static_cast<double>(sizes.rows) * static_cast<double>(sizes.vocab);
  };
  if (const auto* whole = std::get_if<CrossEntropy>(&op.body)) return bytes(*whole, kLossForward);
  if (const auto* part = std::get_if<CrossEntropyPart>(&op.body)) return bytes(*part, kLossForward);
  const auto* gradient = std::get_if<CrossEntropyGrad>(&op.body);
  return gradient != nullptr ? bytes(*gradient, kLossBackward) : 0;
}

// What makes a factor writes an 8-bit copy beside it.
constexpr double kCastBytes = 1;

bool is_linear(const Op& op) { return is_product(op) && !is_attention(op); }

// Norms and sums of whole rows, which sequence parallel shares out.
bool is_whole(const Op& op) {
  return std::holds_alternative<RmsNorm>(op.body) || std::holds_alternative<Add>(op.body) ||
         std::holds_alternative<RmsNormGradInput>(op.body) ||
         std::holds_alternative<RmsNormGradGain>(op.body);
}

}  // namespace

double linear_peak(const Kind& kind, const PublishedRun& run) {
  if (run.dtype != "fp8") return product_peak(kind, dtype_of(run));
  const auto found = kind.peak_flops_per_s.find("fp8");
  return found == kind.peak_flops_per_s.end() ? 0 : found->second;
}

double collective_seconds(const Traffic& traffic, double bytes, const LinkRate& rate) {
  const double latency = rate.seconds(0);
  return traffic.messages * latency + traffic.share * (rate.seconds(bytes) - latency);
}

const Traffic& TrafficCache::of(CollectiveOp op, int ranks) {
  const auto [place, is_new] = kept_.try_emplace({op, ranks});
  if (is_new) {
    place->second =
        traffic_of(chosen_algorithm(training_choices(), {.op = op, .world_size = ranks}));
  }
  return place->second;
}

RunStage::RunStage(const PublishedRun& run, const Software& software, const Sheets& sheets,
                   const std::string& kind, TrafficCache& traffic)
    : run_(run),
      software_(software),
      sheet_(*sheets.find(kind)),
      traffic_(traffic),
      peak_(product_peak(sheet_.kind, dtype_of(run))),
      linear_peak_(linear_peak(sheet_.kind, run)) {
  const EfficiencyClass& known = sheets.classes.at(sheet_.efficiency_class);
  const double link = sheet_.link_bytes_per_s > 0 ? sheet_.link_bytes_per_s : kUnknownLink;
  link_ = known.link * (run.link_bytes_per_s > 0 ? std::min(run.link_bytes_per_s, link) : link);
  double network = run.node_bytes_per_s;
  if (network <= 0) network = sheet_.network_bytes_per_s_of_node;
  if (network <= 0) network = kUnknownNetwork;
  const auto fabric = sheets.fabrics.find(run.fabric);
  if (fabric != sheets.fabrics.end()) network *= fabric->second;
  network_ = network * known.network;
}

double RunStage::seconds(const ModelOps::Counts& ops) const {
  double sum = 0;
  for (const ModelOps::Counted& one : ops) {
    sum += one.times * op_seconds(one.op);
  }
  return sum;
}

PhaseSeconds RunStage::phase_seconds(const ModelOps& ops, Phase phase) const {
  const LayerParts<ModelOps::Counts>& parts = ops.phases[static_cast<std::size_t>(phase)];
  const double layer = seconds(parts.layers.front());
  return PhaseSeconds({.before = seconds(parts.before),
                       .layers = std::vector<double>(run_.model.layers, layer),
                       .after = seconds(parts.after)});
}

double RunStage::optimizer_seconds(std::int64_t held, int owners) const {
  const std::int64_t owned = held / owners;
  const ModelTensor all{.name = "parameters", .shape = {1, owned}};
  std::vector<std::int64_t> buckets;
  if (run_.replicas() > 1) buckets.push_back(held);
  const OptimizerOps ops = optimizer_ops({{.tensor = all, .count = owned}}, held, buckets);
  double sum = 0;
  for (const Op& op : ops.checks) {
    sum += analytic(op);
  }
  for (const Op& op : ops.norms) {
    sum += analytic(op);
  }
  for (const Op& op : ops.update()) {
    sum += analytic(op);
  }
  return sum;
}

LinkRate RunStage::group_rate(int ranks, int stride) const {
  const int of_node = std::max(1, std::min(ranks, run_.devices_per_node / stride));
  if (ranks <= of_node) return {kLinkLatency, link_};
  const double share = network_ * of_node / run_.devices_per_node;
  return {kNetworkLatency, std::min(link_, share)};
}

LinkRate RunStage::send_rate() const {
  const int stage = run_.world_size() / run_.pipeline_parallel;
  if (run_.world_size() <= run_.devices_per_node) return {kLinkLatency, link_};
  if (stage * 2 <= run_.devices_per_node) return {kLinkLatency, link_};
  return {kNetworkLatency, std::min(link_, network_ / run_.devices_per_node)};
}

double RunStage::analytic(const Op& op) const {
  if (!is_linear(op)) return analytic_seconds(sheet_.kind, peak_, op, attention_of(op));
  const double product = analytic_seconds(sheet_.kind, linear_peak_, op);
  if (run_.dtype != "fp8") return product;
  double read = 0;  // elements of the two factors
  for (const TensorSpec& factor : facts_of(op).inputs) {
    read += static_cast<double>(factor.elements());
  }
  const Kind& of = sheet_.kind;
  return product + kCastBytes * read / (of.memory_bytes_per_s * of.efficiency.memory);
}

// Megatron's fused softmax takes the rows of 4 heads at once, or does not run at all.
AttentionKernel RunStage::attention_of(const Op& op) const {
  const auto* sizes = std::get_if<Attention>(&op.body);
  if (const auto* gradient = std::get_if<AttentionGrad>(&op.body)) sizes = &gradient->forward;
  const bool fused = sizes == nullptr || sizes->batch * sizes->heads % kFusedHeads == 0;
  const bool stored = software_.attention == AttentionKernel::kStored;
  return stored && !fused ? AttentionKernel::kStoredUnfused : software_.attention;
}

double RunStage::op_seconds(const Op& op) const {
  if (const auto* group = std::get_if<GroupStart>(&op.body)) return group_seconds(*group, op);
  if (std::holds_alternative<GroupWait>(op.body)) return 0;
  const double own = std::max(
      analytic(op), loss_bytes(op) / (kind().memory_bytes_per_s * kind().efficiency.memory));
  if (run_.sequence_parallel && is_whole(op)) return own / run_.tensor_parallel;
  // Each rank has 1/n of the rows, and they see all: n times the pairs of so short a sequence.
  if (is_attention(op)) return own * run_.context_parallel;
  return own;
}

double RunStage::group_seconds(const GroupStart& group, const Op& op) const {
  const auto bytes =
      static_cast<double>(std::max(group.in_count, group.out_count) * size_of(op.dtype));
  return std::max(kind().efficiency.launch_s,
                  collective_seconds(collective_of(group.kind), group.ranks, bytes,
                                     group_rate(group.ranks, 1)));
}

}  // namespace hethub

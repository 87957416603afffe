#include "hethub/cost/cost_model.h"

#include <algorithm>
#include <array>

#include "hethub/base/dtype.h"
#include "hethub/base/error.h"
#include "hethub/cost/analytic.h"

namespace hethub {
namespace {

constexpr std::array<std::string_view, 3> kSources = {"measured", "scaled", "roofline"};

// The sizes after the first, which is the one that grows with the micro-batch: "rows=4 in=8 out=2"
// gives "in=8 out=2". Ops of one family differ in that size alone.
std::string_view family_of(std::string_view sizes) {
  const std::size_t space = sizes.find(' ');
  return space == std::string_view::npos ? std::string_view() : sizes.substr(space + 1);
}

std::string curve_key(std::string_view op, std::string_view dtype, std::string_view family) {
  return text(op, '/', dtype, '/', family);
}

std::string any_key(std::string_view op, std::string_view dtype) {
  return text(op, '/', dtype, "/*");
}

double ratio_of(double a, double b) {
  if (a <= 0 || b <= 0) return 1;
  return std::max(a / b, b / a);
}

// Seconds at `work` on a curve of points: between two points along the line through them, beyond
// the ends in proportion, of what exceeds the launch.
template <typename Point>
OpCost on_curve(const std::vector<Point>& curve, double work, double launch) {
  const auto after = std::lower_bound(curve.begin(), curve.end(), work,
                                      [](const Point& point, double w) { return point.work < w; });
  OpCost cost{.source = CostSource::kScaled};
  if (after == curve.begin() || after == curve.end()) {
    const Point& near = after == curve.begin() ? curve.front() : curve.back();
    const double fixed = std::min(launch, near.seconds);
    const double scale = near.work > 0 ? work / near.work : 1;
    cost.seconds = fixed + (near.seconds - fixed) * scale;
    cost.distance = ratio_of(work, near.work);
    return cost;
  }
  const Point& low = *std::prev(after);
  const double share = (work - low.work) / (after->work - low.work);
  cost.seconds = low.seconds + share * (after->seconds - low.seconds);
  cost.distance = std::min(ratio_of(work, low.work), ratio_of(work, after->work));
  return cost;
}

// Sorts by work and replaces points of equal work by their mean.
template <typename Point>
void tidy(std::vector<Point>& curve) {
  std::stable_sort(curve.begin(), curve.end(),
                   [](const Point& a, const Point& b) { return a.work < b.work; });
  std::vector<Point> merged;
  for (auto first = curve.begin(); first != curve.end();) {
    auto last = first;
    double sum = 0;
    for (; last != curve.end() && last->work == first->work; ++last) {
      sum += last->seconds;
    }
    merged.push_back({first->work, sum / static_cast<double>(last - first)});
    first = last;
  }
  curve = std::move(merged);
}

double lookup(const std::map<std::string, double>& rates, DType dtype) {
  const auto found = rates.find(std::string(name_of(dtype)));
  return found == rates.end() ? 0 : found->second;
}

// The peak for an op: of products that of their dtype, where the backend opencl computes narrow
// ones in f32; others are bound by what they read and write, so that any peak of the sheet will do.
double roof_of(const Kind& sheet, const Op& op) {
  const bool in_f32 = sheet.backend == "opencl" && size_of(op.dtype) == 2;
  const double own = product_peak(sheet, in_f32 ? DType::kF32 : op.dtype);
  if (own > 0) return own;
  if (is_product(op)) return own;
  double most = 0;
  for (const auto& [dtype, peak] : sheet.peak_flops_per_s) {
    most = std::max(most, peak);
  }
  return most;
}

}  // namespace

TransferCost cost_of(const TransferRates& rates, double bytes) {
  const auto seconds = [&](const LinkRate& rate) {
    return rate.bytes_per_s > 0 ? rate.seconds(bytes) : 0.0;
  };
  return {.download_seconds = seconds(rates.download),
          .wire_seconds = seconds(rates.wire),
          .upload_seconds = seconds(rates.upload)};
}

std::string_view name_of(CostSource source) {
  return kSources.at(static_cast<std::size_t>(source));
}

CostModel::CostModel(Cluster cluster, Costs costs)
    : cluster_(std::move(cluster)), costs_(std::move(costs)), ranks_(rank_places(cluster_)) {
  for (const auto& [kind, measured] : costs_.kinds) {
    add_rows(kind, measured.ops);
  }
}

void CostModel::add_rows(const std::string& kind, const std::vector<OpRow>& rows) {
  KindTable& table = tables_[kind];
  for (const OpRow& row : rows) {
    table.exact[curve_key(row.op, row.dtype, row.sizes)] = row.seconds;
    table.curves[curve_key(row.op, row.dtype, family_of(row.sizes))].push_back(
        {row.work, row.seconds});
    table.curves[any_key(row.op, row.dtype)].push_back({row.work, row.seconds});
  }
  for (auto& [key, curve] : table.curves) {
    tidy(curve);
  }
}

const KindCosts* CostModel::costs_of(std::string_view kind) const {
  const auto found = costs_.kinds.find(std::string(kind));
  return found == costs_.kinds.end() ? nullptr : &found->second;
}

OpCost CostModel::op_cost(std::string_view kind, const Op& op) const {
  const auto table = tables_.find(kind);
  if (table == tables_.end()) return roofline(kind, op);
  const std::string sizes = sizes_text(op);
  const std::string_view name = facts_of(op).kind;
  const std::string_view dtype = name_of(op.dtype);
  const auto exact = table->second.exact.find(curve_key(name, dtype, sizes));
  if (exact != table->second.exact.end()) {
    return {.seconds = exact->second, .source = CostSource::kMeasured};
  }
  const Curves& curves = table->second.curves;
  auto curve = curves.find(curve_key(name, dtype, family_of(sizes)));
  if (curve == curves.end()) curve = curves.find(any_key(name, dtype));
  if (curve == curves.end()) return roofline(kind, op);
  return on_curve(curve->second, work_of(op), costs_of(kind)->launch_seconds);
}

OpCost CostModel::roofline(std::string_view kind, const Op& op) const {
  const Kind& sheet = kind_named(cluster_, kind);
  const OpFacts facts = facts_of(op);
  const double peak = roof_of(sheet, op);
  if (peak <= 0 || sheet.memory_bytes_per_s <= 0) {
    throw Error(ErrorCode::kInvalidConfig,
                {.what = text("costs of ", facts.kind, " (", name_of(op.dtype), ") on kind ", kind),
                 .found = "no measured row and no data sheet",
                 .expected = text("rows in the costs file, or peak_tflops.", name_of(op.dtype),
                                  " and memory_gb_per_s in the cluster file"),
                 .fix = "run hethub profile on that kind, or complete the cluster file"});
  }
  const KindCosts* measured = costs_of(kind);
  const double launch = measured == nullptr ? 0 : measured->launch_seconds;
  return {.seconds = launch + analytic_seconds(sheet, peak, op), .source = CostSource::kRoofline};
}

double CostModel::action_seconds(std::string_view kind) const {
  const KindCosts* measured = costs_of(kind);
  return measured == nullptr ? 0 : measured->action_seconds;
}

CostModel::Rate CostModel::link_of(int from_rank, int to_rank) const {
  const RankPlace& from = ranks_.at(from_rank);
  const RankPlace& to = ranks_.at(to_rank);
  const LinkScope scope = from.node == to.node ? LinkScope::kNode : LinkScope::kNetwork;
  for (const LinkCosts& link : costs_.links) {
    const bool joins = (link.first == from.kind && link.second == to.kind) ||
                       (link.first == to.kind && link.second == from.kind);
    if (joins && link.scope == scope) return {link.route, link.rate};
  }
  if (const Link* link = find_link(cluster_, from.kind, to.kind, scope)) {
    return {link->route, link->rate};
  }
  throw Error(ErrorCode::kInvalidConfig,
              {.what = text("link from rank ", from_rank, " (", from.kind, ") to rank ", to_rank,
                            " (", to.kind, "), scope ", name_of(scope)),
               .found = "no such link in the cluster file or the costs file",
               .expected = "its latency and bandwidth",
               .fix = "add it under \"links\" of the cluster file, or measure it with hethub "
                      "profile"});
}

// A measured copy first; a kind that was measured without one is read by the host directly.
LinkRate CostModel::copy_of(std::string_view kind, bool upload) const {
  if (const KindCosts* measured = costs_of(kind)) {
    return upload ? measured->upload : measured->download;
  }
  return kind_named(cluster_, kind).host_copy;
}

TransferRates CostModel::transfer_rates(int from_rank, int to_rank) const {
  const Rate link = link_of(from_rank, to_rank);
  if (link.route != RouteKind::kHostStaged) return {.wire = link.rate};
  return {.download = copy_of(ranks_.at(from_rank).kind, false),
          .wire = link.rate,
          .upload = copy_of(ranks_.at(to_rank).kind, true)};
}

TransferCost CostModel::transfer_cost(int from_rank, int to_rank, double bytes) const {
  return cost_of(transfer_rates(from_rank, to_rank), bytes);
}

double CostModel::transfer_seconds(int from_rank, int to_rank, double bytes) const {
  return transfer_cost(from_rank, to_rank, bytes).total();
}

RouteKind CostModel::route_of(int from_rank, int to_rank) const {
  return link_of(from_rank, to_rank).route;
}

double CostModel::gemm_flops_per_s(std::string_view kind, DType dtype) const {
  const KindCosts* measured = costs_of(kind);
  return measured == nullptr ? 0 : lookup(measured->gemm_flops_per_s, dtype);
}

double CostModel::peak_flops_per_s(std::string_view kind, DType dtype) const {
  return lookup(kind_named(cluster_, kind).peak_flops_per_s, dtype);
}

std::int64_t CostModel::fixed_memory_bytes(std::string_view kind) const {
  const KindCosts* measured = costs_of(kind);
  return measured == nullptr ? 0 : measured->fixed_memory_bytes;
}

}  // namespace hethub

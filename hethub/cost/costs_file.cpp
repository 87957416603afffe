#include "hethub/cost/costs_file.h"

#include <array>

#include <nlohmann/json.hpp>

#include "hethub/base/error.h"
#include "hethub/base/files.h"

namespace hethub {
namespace {

constexpr std::string_view kFormat = "hethub-costs/1";

const Json& member(const Json& object, std::string_view key) {
  static const Json kNone;
  const auto found = object.find(std::string(key));
  return found == object.end() ? kNone : *found;
}

[[noreturn]] void refuse(const std::string& what, const std::string& found,
                         const std::string& expected) {
  throw Error(ErrorCode::kInvalidConfig, {.what = what,
                                          .found = found,
                                          .expected = expected,
                                          .fix = "write the file with hethub profile"});
}

double at_least_zero(const Json& object, const std::string& where, std::string_view key) {
  const double value = get_or<double>(object, where, key, 0);
  if (!(value >= 0)) refuse(text(where, ": ", key), text(value), "0 or more");
  return value;
}

double positive(const Json& object, const std::string& where, std::string_view key) {
  const auto value = get<double>(object, where, key);
  if (!(value > 0)) refuse(text(where, ": ", key), text(value), "more than 0");
  return value;
}

LinkRate parse_copy(const Json& object, const std::string& where) {
  if (object.is_null()) return {};
  check_keys(object, where, {"latency_s", "bytes_per_s"});
  return {.latency_s = at_least_zero(object, where, "latency_s"),
          .bytes_per_s = positive(object, where, "bytes_per_s")};
}

OpRow parse_op(const Json& object, const std::string& where) {
  check_keys(object, where, {"op", "sizes", "dtype", "seconds", "runs", "work"});
  return {.op = get<std::string>(object, where, "op"),
          .sizes = get<std::string>(object, where, "sizes"),
          .dtype = get<std::string>(object, where, "dtype"),
          .seconds = positive(object, where, "seconds"),
          .runs = get_or<int>(object, where, "runs", 1),
          .work = at_least_zero(object, where, "work")};
}

KindCosts parse_kind(const Json& object, const std::string& where) {
  check_keys(object, where,
             {"launch_seconds", "action_seconds", "download", "upload", "gemm_flops_per_s",
              "fixed_memory_bytes", "ops", "emulated"});
  KindCosts kind{.launch_seconds = at_least_zero(object, where, "launch_seconds"),
                 .action_seconds = at_least_zero(object, where, "action_seconds"),
                 .download = parse_copy(member(object, "download"), where + ".download"),
                 .upload = parse_copy(member(object, "upload"), where + ".upload"),
                 .fixed_memory_bytes = get_or<std::int64_t>(object, where, "fixed_memory_bytes", 0),
                 .emulated = get_or<bool>(object, where, "emulated", false)};
  if (const Json& peaks = member(object, "gemm_flops_per_s"); !peaks.is_null()) {
    check_keys(peaks, where + ".gemm_flops_per_s", {"f64", "f32", "f16", "bf16", "i8"});
    for (const auto& [dtype, value] : peaks.items()) {
      kind.gemm_flops_per_s[dtype] = positive(peaks, where + ".gemm_flops_per_s", dtype);
    }
  }
  const Json& ops = member(object, "ops");
  if (!ops.is_null() && !ops.is_array()) refuse(where + ": ops", ops.type_name(), "a list");
  for (const Json& op : ops) {
    kind.ops.push_back(parse_op(op, text(where, ".ops[", kind.ops.size(), "]")));
  }
  return kind;
}

template <typename Enum, std::size_t N>
Enum one_of(const std::array<Enum, N>& values, const std::string& word, const std::string& where) {
  std::string all;
  for (const Enum value : values) {
    if (name_of(value) == word) return value;
    all += text(all.empty() ? "" : ", ", name_of(value));
  }
  refuse(where, "\"" + word + "\"", "one of " + all);
}

LinkCosts parse_link(const Json& object, const std::string& where) {
  check_keys(object, where, {"between", "scope", "route", "latency_s", "bytes_per_s", "points"});
  const auto ends = get<std::vector<std::string>>(object, where, "between");
  if (ends.size() != 2) refuse(where + ": between", text(ends.size(), " kinds"), "2");
  LinkCosts link{
      .first = ends[0],
      .second = ends[1],
      .scope = one_of(std::array{LinkScope::kNode, LinkScope::kNetwork},
                      get_or<std::string>(object, where, "scope", "node"), where + ": scope"),
      .route =
          one_of(std::array{RouteKind::kVendor, RouteKind::kDirect, RouteKind::kHostStaged},
                 get_or<std::string>(object, where, "route", "host-staged"), where + ": route"),
      .rate = {.latency_s = at_least_zero(object, where, "latency_s"),
               .bytes_per_s = positive(object, where, "bytes_per_s")}};
  const Json& points = member(object, "points");
  if (!points.is_null() && !points.is_array())
    refuse(where + ": points", points.type_name(), "a list");
  for (const Json& point : points) {
    const std::string place = text(where, ".points[", link.points.size(), "]");
    check_keys(point, place, {"bytes", "seconds"});
    link.points.push_back({.bytes = at_least_zero(point, place, "bytes"),
                           .seconds = positive(point, place, "seconds")});
  }
  return link;
}

Json rate_json(const LinkRate& rate) {
  return {{"latency_s", rate.latency_s}, {"bytes_per_s", rate.bytes_per_s}};
}

Json kind_json(const KindCosts& kind) {
  Json object = {{"launch_seconds", kind.launch_seconds}, {"action_seconds", kind.action_seconds}};
  if (kind.download.bytes_per_s > 0) object["download"] = rate_json(kind.download);
  if (kind.upload.bytes_per_s > 0) object["upload"] = rate_json(kind.upload);
  for (const auto& [dtype, rate] : kind.gemm_flops_per_s) {
    object["gemm_flops_per_s"][dtype] = rate;
  }
  object["fixed_memory_bytes"] = kind.fixed_memory_bytes;
  if (kind.emulated) object["emulated"] = true;
  object["ops"] = Json::array();
  for (const OpRow& row : kind.ops) {
    object["ops"].push_back({{"op", row.op},
                             {"sizes", row.sizes},
                             {"dtype", row.dtype},
                             {"seconds", row.seconds},
                             {"runs", row.runs},
                             {"work", row.work}});
  }
  return object;
}

Json link_json(const LinkCosts& link) {
  Json object = {{"between", {link.first, link.second}},
                 {"scope", name_of(link.scope)},
                 {"route", name_of(link.route)}};
  object.update(rate_json(link.rate));
  object["points"] = Json::array();
  for (const LinkPoint& point : link.points) {
    object["points"].push_back({{"bytes", point.bytes}, {"seconds", point.seconds}});
  }
  return object;
}

}  // namespace

Costs parse_costs(const Json& file, const std::string& name) {
  check_keys(file, name, {"format", "kinds", "links"});
  const auto format = get<std::string>(file, name, "format");
  if (format != kFormat) refuse(name + ": format", "\"" + format + "\"", text("\"", kFormat, "\""));
  Costs costs;
  const Json& kinds = member(file, "kinds");
  if (!kinds.is_object()) refuse(name + ": kinds", kinds.type_name(), "an object");
  for (const auto& [kind, body] : kinds.items()) {
    costs.kinds[kind] = parse_kind(body, text(name, ": kinds.", kind));
  }
  const Json& links = member(file, "links");
  if (!links.is_null() && !links.is_array()) refuse(name + ": links", links.type_name(), "a list");
  for (const Json& link : links) {
    costs.links.push_back(parse_link(link, text(name, ": links[", costs.links.size(), "]")));
  }
  return costs;
}

Costs read_costs(const std::filesystem::path& file) {
  return parse_costs(read_document(file), file.string());
}

Json to_json(const Costs& costs) {
  Json file = {{"format", kFormat}, {"kinds", Json::object()}, {"links", Json::array()}};
  for (const auto& [name, kind] : costs.kinds) {
    file["kinds"][name] = kind_json(kind);
  }
  for (const LinkCosts& link : costs.links) {
    file["links"].push_back(link_json(link));
  }
  return file;
}

void write_costs(const Costs& costs, const std::filesystem::path& file) {
  write_file(file, to_json(costs).dump(1) + "\n");
}

}  // namespace hethub

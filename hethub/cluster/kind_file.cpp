#include "hethub/cluster/kind_file.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include <nlohmann/json.hpp>

#include "hethub/base/error.h"
#include "hethub/cluster/sheets.h"

namespace hethub {
namespace {

constexpr double kGib = 1024.0 * 1024 * 1024;

[[noreturn]] void refuse(std::string what, std::string found, std::string expected,
                         std::string fix) {
  throw Error(ErrorCode::kInvalidConfig, {.what = std::move(what),
                                          .found = std::move(found),
                                          .expected = std::move(expected),
                                          .fix = std::move(fix)});
}

std::map<std::string, double> parse_peaks(const Json& peaks, const std::string& where) {
  std::map<std::string, double> all;
  check_keys(peaks, where, {"f64", "f32", "f16", "bf16", "fp8", "i8"});
  for (const auto& [dtype, value] : peaks.items()) {
    all[dtype] = get<double>(peaks, where, dtype) * 1e12;
  }
  return all;
}

Json json_of(const RoofFractions& roof) {
  const RoofFractions sheet;
  Json all = Json::object();
  const auto add = [&](const char* key, double value, double default_value, double unit = 1) {
    if (value != default_value) all[key] = value * unit;
  };
  add("products", roof.products, sheet.products);
  add("half_size", roof.half_size, sheet.half_size);
  add("attention", roof.attention, sheet.attention);
  add("portable_attention", roof.portable_attention, sheet.portable_attention);
  add("memory", roof.memory, sheet.memory);
  add("launch_us", roof.launch_s, sheet.launch_s, 1e6);
  return all;
}

class KindReader {
 public:
  KindReader(const Json& kinds, std::string where) : kinds_(kinds), where_(std::move(where)) {}

  Kind read(const std::string& name) {
    const std::string place = text(where_, ": kinds.", name);
    if (!under_way_.insert(name).second) {
      refuse(place + ": like", "a ring of kinds that are like each other",
             "a kind that states its own rates", "state them for one of these kinds");
    }
    const Json& object = kinds_[name];
    check_keys(object, place,
               {"backend", "sheet", "like", "memory_gib", "peak_tflops", "memory_gb_per_s",
                "cores_per_rank", "host_copy", "processors", "efficiency", "watts", "usd_per_hour",
                "source"});
    Kind kind = base_of(object, place);
    kind.name = name;
    read_own(object, place, kind);
    under_way_.erase(name);
    return kind;
  }

 private:
  // What the kind has before it states anything itself.
  Kind base_of(const Json& object, const std::string& where) {
    const auto sheet = get_or<std::string>(object, where, "sheet", "");
    const auto like = get_or<std::string>(object, where, "like", "");
    if (!sheet.empty() && !like.empty()) {
      refuse(where, "both sheet and like", "one of them", "leave one out");
    }
    if (!sheet.empty()) return of_sheet(sheet, where);
    if (like.empty()) return {};
    if (!kinds_.contains(like)) {
      refuse(where + ": like", like, "another kind of this file", "describe it under \"kinds\"");
    }
    Kind kind = read(like);
    kind.source = text("like ", like, kind.source.empty() ? "" : ": ", kind.source);
    return kind;
  }

  Kind of_sheet(const std::string& name, const std::string& where) {
    const DataSheet* sheet = sheets().find(name);
    if (sheet == nullptr) {
      std::string all;
      for (const DataSheet& one : sheets().sheets) {
        all += text(all.empty() ? "" : ", ", one.kind.name);
      }
      refuse(where + ": sheet", name, "one of " + all, "correct the spelling, or state the rates");
    }
    return kind_of_sheet(sheets(), *sheet);
  }

  void read_own(const Json& object, const std::string& where, Kind& kind) {
    const auto own = [&](const char* key, double known, double unit) {
      return object.contains(key) ? get<double>(object, where, key) * unit : known;
    };
    const bool states_memory = object.contains("memory_gib") || kind.memory_bytes == 0;
    if (states_memory) {
      const double gib = get<double>(object, where, "memory_gib");
      kind.memory_bytes = std::llround(std::clamp(gib, 0.0, 1e9) * kGib);
    }
    const std::string inherited = kind.backend.empty() ? kind.name : kind.backend;
    kind.backend = get_or<std::string>(object, where, "backend", inherited);
    kind.memory_bytes_per_s = own("memory_gb_per_s", kind.memory_bytes_per_s, 1e9);
    kind.cores_per_rank = get_or<int>(object, where, "cores_per_rank", kind.cores_per_rank);
    kind.processors = get_or<int>(object, where, "processors", kind.processors);
    kind.watts = own("watts", kind.watts, 1);
    kind.usd_per_hour = own("usd_per_hour", kind.usd_per_hour, 1);
    kind.source = get_or<std::string>(object, where, "source", kind.source);
    if (object.contains("peak_tflops")) {
      for (const auto& [dtype, rate] : parse_peaks(object["peak_tflops"], where + ".peak_tflops")) {
        kind.peak_flops_per_s[dtype] = rate;
      }
    }
    if (object.contains("host_copy")) {
      check_keys(object["host_copy"], where + ".host_copy", {"latency_us", "gb_per_s"});
      kind.host_copy = parse_rate(object["host_copy"], where + ".host_copy");
    }
    if (object.contains("efficiency")) read_efficiency(object, where, kind);
  }

  void read_efficiency(const Json& object, const std::string& where, Kind& kind) {
    const std::string place = where + ": efficiency";
    if (object["efficiency"].is_object()) {
      kind.efficiency = parse_fractions(object["efficiency"], place, kind.efficiency);
      return;
    }
    const auto name = get<std::string>(object, where, "efficiency");
    const auto found = sheets().classes.find(name);
    if (found == sheets().classes.end()) {
      std::string all;
      for (const auto& [known, body] : sheets().classes) {
        all += text(all.empty() ? "" : ", ", known);
      }
      refuse(place, name, text("one of ", all, ", or an object of constants"),
             "correct the spelling");
    }
    kind.efficiency = found->second.ops;
    kind.source = text(kind.source, kind.source.empty() ? "" : "; ", "efficiency class ", name,
                       ": ", found->second.provenance);
  }

  const Sheets& sheets() {
    if (!sheets_) sheets_ = known_sheets();
    return *sheets_;
  }

  const Json& kinds_;
  std::string where_;
  std::set<std::string> under_way_ = {};
  std::optional<Sheets> sheets_ = {};
};

}  // namespace

LinkRate parse_rate(const Json& object, const std::string& where) {
  return {.latency_s = get_or<double>(object, where, "latency_us", 0) / 1e6,
          .bytes_per_s = get<double>(object, where, "gb_per_s") * 1e9};
}

Json rate_json(const LinkRate& rate) {
  return {{"latency_us", rate.latency_s * 1e6}, {"gb_per_s", rate.bytes_per_s / 1e9}};
}

Kind kind_of_sheet(const Sheets& sheets, const DataSheet& sheet) {
  Kind kind = sheet.kind;
  kind.peak_flops_per_s.erase("tf32");  // training in f32 rounds no products to that
  kind.watts = sheet.watts;
  kind.source =
      text("data sheet ", kind.name, ": ", sheet.source, "; efficiency class ",
           sheet.efficiency_class, ": ", sheets.classes.at(sheet.efficiency_class).provenance);
  return kind;
}

std::vector<Kind> parse_kinds(const Json& kinds, const std::string& where) {
  KindReader reader(kinds, where);
  std::vector<Kind> all;
  for (const auto& [name, body] : kinds.items()) {
    all.push_back(reader.read(name));
  }
  return all;
}

Json kind_json(const Kind& kind) {
  Json object = {{"backend", kind.backend},
                 {"memory_gib", static_cast<double>(kind.memory_bytes) / kGib}};
  for (const auto& [dtype, rate] : kind.peak_flops_per_s) {
    object["peak_tflops"][dtype] = rate / 1e12;
  }
  if (kind.memory_bytes_per_s > 0) object["memory_gb_per_s"] = kind.memory_bytes_per_s / 1e9;
  if (kind.cores_per_rank > 0) object["cores_per_rank"] = kind.cores_per_rank;
  if (kind.processors > 0) object["processors"] = kind.processors;
  if (const Json roof = json_of(kind.efficiency); !roof.empty()) object["efficiency"] = roof;
  if (kind.watts > 0) object["watts"] = kind.watts;
  if (kind.usd_per_hour > 0) object["usd_per_hour"] = kind.usd_per_hour;
  if (kind.host_copy.bytes_per_s > 0) object["host_copy"] = rate_json(kind.host_copy);
  if (!kind.source.empty()) object["source"] = kind.source;
  return object;
}

}  // namespace hethub

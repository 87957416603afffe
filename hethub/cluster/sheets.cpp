#include "hethub/cluster/sheets.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <nlohmann/json.hpp>

#include "hethub/base/error.h"

namespace hethub {
namespace {

constexpr std::string_view kFormat = "hethub-accelerators/1";

[[noreturn]] void refuse(std::string what, std::string found, std::string expected) {
  throw Error(ErrorCode::kInvalidConfig, {.what = std::move(what),
                                          .found = std::move(found),
                                          .expected = std::move(expected),
                                          .fix = "correct it"});
}

double within(const Json& object, const std::string& where, std::string_view key, double most) {
  const double value = get<double>(object, where, key);
  if (!(value > 0) || value > most)
    refuse(text(where, ": ", key), text(value), text("0 to ", most));
  return value;
}

struct FractionKey {
  const char* name;
  double most;
  double divisor;
  double RoofFractions::*field;
};
constexpr std::array<FractionKey, 6> kFractions = {{
    {"products", 1, 1, &RoofFractions::products},
    {"half_size", 1e6, 1, &RoofFractions::half_size},
    {"attention", 1, 1, &RoofFractions::attention},
    {"portable_attention", 1, 1, &RoofFractions::portable_attention},
    {"memory", 1, 1, &RoofFractions::memory},
    {"launch_us", 1e6, 1e6, &RoofFractions::launch_s},
}};

EfficiencyClass parse_class(const Json& object, const std::string& where) {
  EfficiencyClass body{.link = within(object, where, "link", 1),
                       .network = within(object, where, "network", 1),
                       .provenance = get<std::string>(object, where, "provenance")};
  Json ops = object;
  for (const char* other : {"link", "network", "provenance"}) {
    ops.erase(other);
  }
  for (const FractionKey& key : kFractions) {
    within(object, where, key.name, key.most);  // a class states all of them
  }
  body.ops = parse_fractions(ops, where, {});
  return body;
}

AttentionKernel attention_of(const std::string& word, const std::string& where) {
  if (word == "vendor") return AttentionKernel::kVendor;
  if (word == "portable") return AttentionKernel::kPortable;
  if (word == "stored") return AttentionKernel::kStored;
  refuse(where + ": attention", word, "vendor, portable or stored");
}

Software parse_software(const Json& object, const std::string& where) {
  check_keys(object, where,
             {"attention", "overlaps", "gradient_bytes", "sums_everywhere", "dropout",
              "keeps_scores", "norms_in_f32", "gradient_memory", "bf16_gradient_memory",
              "allocator_slack", "fixed_memory_gb"});
  return {.attention = attention_of(get<std::string>(object, where, "attention"), where),
          .overlaps = get<bool>(object, where, "overlaps"),
          .gradient_bytes = static_cast<int>(within(object, where, "gradient_bytes", 8)),
          .sums_everywhere = get_or<bool>(object, where, "sums_everywhere", false),
          .dropout = get_or<bool>(object, where, "dropout", false),
          .keeps_scores = get_or<bool>(object, where, "keeps_scores", true),
          .norms_in_f32 = get_or<bool>(object, where, "norms_in_f32", false),
          .gradient_memory = get_or<double>(object, where, "gradient_memory", 4),
          .bf16_gradient_memory = get_or<double>(object, where, "bf16_gradient_memory", 4),
          .allocator_slack = get_or<double>(object, where, "allocator_slack", 0),
          .fixed_memory_bytes = get_or<double>(object, where, "fixed_memory_gb", 0) * 1e9};
}

DataSheet parse_sheet(const Json& object, const std::string& where) {
  check_keys(object, where,
             {"name", "vendor", "efficiency", "memory_gb", "peak_tflops", "memory_gb_per_s",
              "link_gb_per_s", "devices_per_node", "network_gb_per_s_per_node", "watts",
              "processors", "usd_per_hour", "source", "confidence", "notes"});
  DataSheet sheet{
      .kind = {.name = get<std::string>(object, where, "name"),
               .memory_bytes = std::llround(within(object, where, "memory_gb", 1e6) * 1e9),
               .memory_bytes_per_s = within(object, where, "memory_gb_per_s", 1e6) * 1e9,
               .processors = get_or<int>(object, where, "processors", 0)},
      .efficiency_class = get<std::string>(object, where, "efficiency"),
      .link_bytes_per_s = get_or<double>(object, where, "link_gb_per_s", 0) * 1e9,
      .devices_per_node = get_or<int>(object, where, "devices_per_node", 0),
      .network_bytes_per_s_of_node =
          get_or<double>(object, where, "network_gb_per_s_per_node", 0) * 1e9,
      .watts = get_or<double>(object, where, "watts", 0),
      .source = get<std::string>(object, where, "source")};
  if (!object.contains("peak_tflops") || !object["peak_tflops"].is_object()) {
    refuse(where + ": peak_tflops", "none", "an object of rates by dtype");
  }
  for (const auto& [dtype, rate] : object["peak_tflops"].items()) {
    sheet.kind.peak_flops_per_s[dtype] =
        within(object["peak_tflops"], where + ": peak_tflops", dtype, 1e6) * 1e12;
  }
  return sheet;
}

const Json& object_of(const Json& file, const std::string& name, const char* key) {
  if (!file.contains(key) || !file[key].is_object())
    refuse(text(name, ": ", key), "none", "an object");
  return file[key];
}

}  // namespace

RoofFractions parse_fractions(const Json& object, const std::string& where, RoofFractions base) {
  check_keys(object, where,
             {"products", "half_size", "attention", "portable_attention", "memory", "launch_us"});
  for (const FractionKey& key : kFractions) {
    if (!object.contains(key.name)) continue;
    base.*key.field = within(object, where, key.name, key.most) / key.divisor;
  }
  return base;
}

const DataSheet* Sheets::find(std::string_view name) const {
  const auto found = std::find_if(sheets.begin(), sheets.end(),
                                  [&](const DataSheet& sheet) { return sheet.kind.name == name; });
  return found == sheets.end() ? nullptr : &*found;
}

void Sheets::apply_classes() {
  for (DataSheet& sheet : sheets) {
    const auto found = classes.find(sheet.efficiency_class);
    if (found == classes.end()) {
      refuse(text("data sheet ", sheet.kind.name, ": efficiency"), sheet.efficiency_class,
             "a class of the file");
    }
    sheet.kind.efficiency = found->second.ops;
  }
}

Sheets parse_sheets(const Json& file, const std::string& name) {
  if (!file.is_object()) refuse(name, file.type_name(), "an object");
  check_keys(file, name, {"format", "efficiency", "software", "fabrics", "kinds"});
  if (get<std::string>(file, name, "format") != kFormat) {
    refuse(name + ": format", get<std::string>(file, name, "format"), std::string(kFormat));
  }
  Sheets all;
  for (const auto& [key, body] : object_of(file, name, "efficiency").items()) {
    all.classes[key] = parse_class(body, text(name, ": efficiency.", key));
  }
  for (const auto& [key, body] : object_of(file, name, "software").items()) {
    all.software[key] = parse_software(body, text(name, ": software.", key));
  }
  for (const auto& [key, share] : object_of(file, name, "fabrics").items()) {
    all.fabrics[key] = within(file["fabrics"], name + ": fabrics", key, 1);
  }
  if (!file.contains("kinds") || !file["kinds"].is_array())
    refuse(name + ": kinds", "none", "a list");
  for (const Json& body : file["kinds"]) {
    all.sheets.push_back(parse_sheet(body, text(name, ": kinds[", all.sheets.size(), "]")));
  }
  all.apply_classes();
  return all;
}

Sheets known_sheets() {
  return parse_sheets(parse_json(std::string(kSheetsFile), "accelerators.json"),
                      "accelerators.json");
}

}  // namespace hethub

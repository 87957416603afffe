#include "hethub/search/sailor_tables.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include <nlohmann/json.hpp>

#include "hethub/base/error.h"

namespace hethub {
namespace {

[[noreturn]] void refuse(const std::string& what, const std::string& found,
                         const std::string& expected) {
  throw Error(
      ErrorCode::kInvalidConfig,
      {.what = what, .found = found, .expected = expected, .fix = "correct the planner case"});
}

const Json& member(const Json& object, const std::string& where, const std::string& key) {
  if (!object.is_object() || !object.contains(key)) refuse(where, "no \"" + key + "\"", "it");
  return object.at(key);
}

int width_of(const std::string& key, const std::string& where) {
  constexpr std::size_t kMostDigits = 6;
  const bool digits = !key.empty() && key.size() <= kMostDigits &&
                      key.find_first_not_of("0123456789") == std::string::npos;
  if (!digits || std::stoi(key) < 1) refuse(where, key, "a number of 1 or more");
  return std::stoi(key);
}

std::vector<double> sums_of(const std::vector<double>& values) {
  std::vector<double> sums = {0};
  for (const double value : values) {
    sums.push_back(sums.back() + value);
  }
  return sums;
}

}  // namespace

SailorTables::SailorTables(const Json& file, const std::string& where,
                           const std::map<std::string, int>& counts) {
  const Json& model = member(file, where, "model");
  layers = get<int>(model, where + ": model", "layers_total");
  global_batch = get<std::int64_t>(model, where + ": model", "global_batch");
  constexpr int kMostLayers = 1000;
  if (layers < 1 || layers > kMostLayers) {
    refuse(where + ": model: layers_total", text(layers), text("1 to ", kMostLayers));
  }
  if (global_batch < 1) refuse(where + ": model: global_batch", text(global_batch), "1 or more");
  read_bytes(file, where);
  read_kinds(file, where, counts);
  read_costs(file, where);
  read_links(file, where);
  fill_tables();
}

// Runs of equal values, a value a layer.
std::vector<double> SailorTables::expand(const Json& runs, const std::string& where) const {
  std::vector<double> values;
  for (const Json& run : runs) {
    const auto count = get<int>(run, where, "count");
    const auto value = get<double>(run, where, "value");
    if (count < 0 || count > layers || !(value >= 0)) {
      refuse(where, run.dump(), "a count and a value, none negative");
    }
    values.insert(values.end(), count, value);
  }
  if (std::ssize(values) != layers) {
    refuse(where, text(values.size(), " layers"), text(layers, ", as in layers_total"));
  }
  return values;
}

void SailorTables::read_bytes(const Json& file, const std::string& where) {
  for (const auto& [key, one] : member(file, where, "layers_by_tp").items()) {
    const std::string at = where + ": layers_by_tp: " + key;
    const int width = width_of(key, at);
    bytes_[width] = {sums_of(expand(member(one, at, "params_bytes"), at)),
                     sums_of(expand(member(one, at, "act_mem_bytes"), at))};
    if (width == 1) outputs_ = expand(member(one, at, "act_output_bytes"), at);
  }
  if (outputs_.empty()) refuse(where + ": layers_by_tp", "no \"1\"", "it");
}

void SailorTables::read_kinds(const Json& file, const std::string& where,
                              const std::map<std::string, int>& counts) {
  const Json& all = member(file, where, "device_kinds");
  for (const auto& [name, count] : counts) {
    if (!all.contains(name)) refuse("--cluster-counts", name, "a kind of " + where);
  }
  for (const auto& [name, kind] : all.items()) {
    const std::string at = where + ": device_kinds: " + name;
    if (counts.empty()) {
      throw Error(ErrorCode::kUsage, {.what = where,
                                      .found = "no number of devices",
                                      .expected = "--cluster-counts",
                                      .fix = "add --cluster-counts " + name + "=8,..."});
    }
    const auto given = counts.find(name);
    kinds.push_back(name);
    available.push_back(given == counts.end() ? 0 : given->second);
    constexpr double kGib = 1024.0 * 1024 * 1024;
    memory_.push_back(get<double>(kind, at, "memory_gib") * kGib);
  }
}

// Widths that do not divide a node would leave devices of it alone: they are not used.
void SailorTables::read_costs(const Json& file, const std::string& where) {
  const Json& all = file.at("device_kinds");
  std::set<int> every_size;
  for (int kind = 0; kind < std::ssize(kinds); ++kind) {
    const std::string at = where + ": device_kinds: " + kinds[kind];
    const auto per_node = get<int>(all.at(kinds[kind]), at, "devices_per_node");
    std::set<int> widths;
    for (const auto& [size, row] : member(all.at(kinds[kind]), at, "time_s_by_mbs_tp").items()) {
      every_size.insert(width_of(size, at));
      for (const auto& [width, costs] : row.items()) {
        widths.insert(width_of(width, at));
      }
    }
    for (const int width : widths) {
      if (per_node % width == 0 && bytes_.contains(width)) devices.push_back({kind, width});
    }
  }
  sizes.assign(every_size.begin(), every_size.end());
  for (const SailorDevice& device : devices) {
    const std::string at = where + ": device_kinds: " + kinds[device.kind];
    const Json& times = all.at(kinds[device.kind]).at("time_s_by_mbs_tp");
    auto& by_size = costs_.emplace_back(sizes.size());
    for (std::size_t size = 0; size < sizes.size(); ++size) {
      const std::string key = text(sizes[size]);
      const std::string width = text(device.tp);
      if (!times.contains(key) || !times.at(key).contains(width)) continue;
      const Json& costs = times.at(key).at(width);
      std::vector<double> seconds = expand(member(costs, at, "fwd"), at);
      const std::vector<double> backward = expand(member(costs, at, "bwd"), at);
      for (int layer = 0; layer < layers; ++layer) {
        seconds[layer] += backward[layer];
      }
      by_size[size] = {sums_of(seconds), expand(member(costs, at, "update"), at)};
    }
  }
}

// The fits are for one, two and four links side by side.
void SailorTables::read_links(const Json& file, const std::string& where) {
  const std::string at = where + ": network: inter_fit";
  const Json& all = member(member(file, where, "network"), where, "inter_fit");
  const auto fit_of = [&](int kind, int width, int other, int other_width) -> Fit {
    const Json& row =
        member(member(member(member(all, at, kinds[kind]), at, text(std::min(width, 4))), at,
                      kinds[other]),
               at, text(std::min(other_width, 4)));
    if (!row.is_array() || row.empty()) refuse(at, row.dump(), "[[a, b, c], bytes/s]");
    const auto fit = get<std::vector<double>>(Json{{"fit", row.front()}}, at, "fit");
    if (fit.size() != 3) refuse(at, row.dump(), "[[a, b, c], bytes/s]");
    return {fit[0], fit[1], fit[2]};
  };
  for (const SailorDevice& from : devices) {
    auto& row = links_.emplace_back();
    for (const SailorDevice& to : devices) {
      row.push_back(fit_of(from.kind, from.tp, to.kind, to.tp));
    }
  }
  for (int from = 0; from < std::ssize(kinds); ++from) {
    auto& row = rings_.emplace_back();
    for (int to = 0; to < std::ssize(kinds); ++to) {
      row.push_back(fit_of(from, 1, to, 1));
    }
  }
}

double SailorTables::seconds_of(double bytes, const Fit& fit) {
  const double size = std::log2(bytes / 1e6);
  return bytes / 1e9 / (fit.square * size * size + fit.linear * size + fit.constant);
}

double SailorTables::compute(int device, int size, int begin, int end) const {
  const std::vector<double>& sums = costs_[device][size].seconds;
  return sums.empty() ? std::numeric_limits<double>::infinity() : sums[end] - sums[begin];
}

void SailorTables::fill_tables() {
  for (int layer = 0; layer < layers; ++layer) {
    for (const int size : sizes) {
      for (const std::vector<Fit>& row : links_) {
        for (const Fit& fit : row) {
          transfers_.push_back(seconds_of(outputs_[layer] * size, fit));
        }
      }
    }
  }
  deepest_.assign(devices.size() * sizes.size() * layers * (layers + 1), 0);
  for (int device = 0; device < std::ssize(devices); ++device) {
    for (int size = 0; size < std::ssize(sizes); ++size) {
      for (int begin = 0; begin < layers; ++begin) {
        for (int end = begin + 1; end <= layers; ++end) {
          deepest_[fit_index(device, size, begin, end)] = deepest(device, size, begin, end);
        }
      }
    }
  }
}

int SailorTables::deepest(int device, int size, int begin, int end) const {
  if (costs_[device][size].seconds.empty()) return 0;
  const Bytes& bytes = bytes_.at(devices[device].tp);
  const double parameters = bytes.parameters[end] - bytes.parameters[begin];
  const double held = bytes.held[end] - bytes.held[begin];
  const double whole = devices[device].tp == 1 ? 2e9 : 3e9;
  int from_end = 0;
  while (from_end < layers && 6 * parameters + held * sizes[size] * (from_end + 1) + whole <=
                                  memory_[devices[device].kind]) {
    ++from_end;
  }
  return from_end;
}

double SailorTables::exchange(int begin, int end, int tp, int replicas, int kind,
                              int next_kind) const {
  constexpr double kBucket = 5e8;
  const std::vector<double>& sums = bytes_.at(1).parameters;
  double seconds = 0;
  for (double left = (sums[end] - sums[begin]) / std::min(tp, 4); left > 0; left -= kBucket) {
    seconds += 2 * (replicas - 1) *
               seconds_of(std::min(left, kBucket) / replicas, rings_[kind][next_kind]);
  }
  return seconds;
}

}  // namespace hethub

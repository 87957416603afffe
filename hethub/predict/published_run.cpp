#include "hethub/predict/published_run.h"

#include <algorithm>
#include <optional>

#include <nlohmann/json.hpp>

#include "hethub/base/error.h"
#include "hethub/base/split.h"

namespace hethub {
namespace {

constexpr double kGbps = 1e9 / 8;

// What keeps a row from being priced.
struct Unpriced {
  std::string why;
};

void need(bool condition, std::string why) {
  if (!condition) throw Unpriced{std::move(why)};
}

template <typename T>
T number(const Json& object, const char* key) {
  need(object.is_object() && object.contains(key) && object[key].is_number(),
       text("it does not state ", key));
  const auto value = object[key].get<double>();
  need(value > 0 && value < 1e15, text(key, " is ", value));
  return static_cast<T>(value);
}

template <typename T>
T number_or(const Json& object, const char* key, T fallback) {
  const bool there = object.is_object() && object.contains(key) && object[key].is_number();
  return there ? static_cast<T>(object[key].get<double>()) : fallback;
}

std::string word(const Json& object, const char* key) {
  const bool there = object.contains(key) && object[key].is_string();
  return there ? object[key].get<std::string>() : "";
}

bool flag(const Json& object, const char* key) {
  return object.contains(key) && object[key].is_boolean() && object[key].get<bool>();
}

// A block with one matrix into its MLP is priced as the gated block with as many parameters and
// FLOPs: three matrices of two thirds of the width. What its activation and its norms read and
// write is as much too.
std::int64_t gated_width(std::int64_t ffn, int tensor_parallel) {
  const std::int64_t unit = std::int64_t{8} * tensor_parallel;
  return std::max<std::int64_t>(1, (2 * ffn / 3 + unit / 2) / unit) * unit;
}

ModelConfig model_of(const Json& row, bool gated, int tensor_parallel, std::int64_t length) {
  ModelConfig model{.family = "llama",
                    .vocab_size = number<std::int64_t>(row, "vocab"),
                    .hidden_size = number<std::int64_t>(row, "hidden"),
                    .intermediate_size = number<std::int64_t>(row, "ffn"),
                    .layers = number<int>(row, "layers"),
                    .heads = number<std::int64_t>(row, "heads"),
                    .max_position_embeddings = length,
                    .tie_word_embeddings = !gated};
  model.kv_heads = number_or<std::int64_t>(row, "kv_heads", model.heads);
  model.head_dim = model.hidden_size / model.heads;
  if (!gated) model.intermediate_size = gated_width(model.intermediate_size, tensor_parallel);
  need(model.heads % tensor_parallel == 0, "its heads do not divide by its tensor parallel width");
  model.windows.assign(model.layers, 0);
  return model;
}

Recompute recompute_of(const std::string& word) {
  if (word == "full") return Recompute::kFull;
  if (word == "selective") return Recompute::kSelective;
  need(word == "none", "it does not state recompute");
  return Recompute::kNone;
}

// Blocks of each stage, where its share of all units counts `before` units of the embedding and
// what follows the blocks.
std::vector<int> blocks_of(const std::vector<int>& units, int before, int layers) {
  std::vector<int> blocks;
  int begin = 0;
  for (const int count : units) {
    const int first = std::clamp(begin - before, 0, layers);
    const int last = std::clamp(begin + count - before, 0, layers);
    blocks.push_back(last - first);
    begin += count;
  }
  return blocks;
}

std::vector<int> even_split(int total, int parts) {
  std::vector<int> split;
  for (int part = 0; part < parts; ++part) {
    split.push_back(static_cast<int>(part_of(total, parts, part).size()));
  }
  return split;
}

// Where embedding and head count as layers, the ends have one less.
std::vector<int> virtual_split(int layers, int positions) {
  std::vector<int> split = even_split(layers, positions);
  if (layers % positions == 0 || (layers + 2) % positions != 0) return split;
  split.assign(positions, (layers + 2) / positions);
  --split.front();
  --split.back();
  return split;
}

// Blocks at each position.
std::vector<int> split_of(const Json& row, const PublishedRun& run) {
  const int layers = run.model.layers;
  const int stages = run.pipeline_parallel;
  if (run.virtual_stages > 1) return virtual_split(layers, stages * run.virtual_stages);
  if (row.contains("layer_split") && row["layer_split"].is_array()) {
    const auto units = row["layer_split"].get<std::vector<int>>();
    need(std::ssize(units) == stages, "its split has another number of stages");
    int all = 0;
    for (const int count : units) {
      all += count;
    }
    need(all >= layers && all <= layers + 6, "its split does not add up to its layers");
    return blocks_of(units, (all - layers) / 2 - (all - layers) / 6, layers);
  }
  if (word(row, "pp_partition").starts_with("embed")) {
    return blocks_of(even_split(layers + 2, stages), 1, layers);
  }
  if (layers % stages == 0) return std::vector<int>(stages, layers / stages);
  const int most = (layers + stages - 1) / stages;
  std::vector<int> split(stages, most);
  split.back() = layers - most * (stages - 1);
  return split.back() >= 0 ? split : even_split(layers, stages);
}

std::vector<LayerRange> ranges_of(const std::vector<int>& split) {
  std::vector<LayerRange> ranges;
  int begin = 0;
  for (const int layers : split) {
    ranges.push_back({begin, begin + layers});
    begin += layers;
  }
  return ranges;
}

// "Titan-RTX" and "TITAN-RTX-24GB" are one kind.
bool same_kind(std::string listed, std::string called) {
  const auto plain = [](std::string& name) {
    std::erase_if(name, [](char letter) { return letter == '-'; });
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char letter) { return static_cast<char>(std::toupper(letter)); });
  };
  plain(listed);
  plain(called);
  return listed.starts_with(called) || listed.starts_with("G" + called.substr(1, 1) + "200");
}

void read_devices(const Json& row, PublishedRun& run) {
  need(row.contains("accelerators") && row["accelerators"].is_array() &&
           !row["accelerators"].empty(),
       "it does not state its devices");
  std::vector<std::pair<int, std::string>> devices;  // count and name
  int all = 0;
  run.devices_per_node = 1 << 20;
  for (const Json& item : row["accelerators"]) {
    devices.emplace_back(number<int>(item, "count"), word(item, "name"));
    all += devices.back().first;
    run.devices_per_node = std::min(run.devices_per_node, number_or<int>(item, "per_node", 8));
  }
  need(all == run.world_size(), text("it has ", all, " devices for ", run.world_size(), " ranks"));
  run.mixed = devices.size() > 1;
  run.stage_kinds.resize(run.pipeline_parallel);
  if (row.contains("stages") && row["stages"].is_array() &&
      std::ssize(row["stages"]) == run.pipeline_parallel) {
    for (int stage = 0; stage < run.pipeline_parallel; ++stage) {
      for (const Json& replica : row["stages"][stage]) {
        const auto called = replica.at(0).get<std::string>();
        for (const auto& [count, name] : devices) {
          if (devices.size() == 1 || same_kind(name, called))
            run.stage_kinds[stage].push_back(name);
        }
      }
    }
    return;
  }
  // Ranks are on the nodes of the more numerous kind first; a stage's ranks follow each other.
  std::stable_sort(devices.begin(), devices.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  const int of_stage = all / run.pipeline_parallel;
  int rank = 0;
  for (const auto& [count, name] : devices) {
    for (int device = 0; device < count; ++device, ++rank) {
      std::vector<std::string>& kinds = run.stage_kinds[rank / of_stage];
      if (kinds.empty() || kinds.back() != name) kinds.push_back(name);
    }
  }
}

std::string plain_dtype(const std::string& word) {
  if (word.find("fp8") != std::string::npos) return "fp8";
  if (word.starts_with("bf16")) return "bf16";
  return word.empty() ? "f32" : "f16";  // f32 is what frameworks take unless told otherwise
}

constexpr double kGib = 1024.0 * 1024 * 1024;

// Memory that was measured, and that a paper's own table states: of no recompute beside the run
// with full recompute, of selective beside the other.
void read_memory(const Json& row, PublishedRun& run) {
  run.measured_bytes = number_or<double>(row["measured"], "memory_gb", 0) * kGib;
  if (!row.contains("memory_model_gib")) return;
  const Json& table = row["memory_model_gib"];
  const bool is_full = run.recompute == Recompute::kFull;
  run.table_states = number_or<double>(table, "params_opt", 0) * kGib;
  run.table_activations = number_or<double>(table, is_full ? "act_none" : "act_seq_sel", 0) * kGib;
}

// A row whose stated value is doubted by its own notes says there what a later table of the same
// source prints: "VP printed NA here (12 in the 25.07+ tree)".
int virtual_stages_of(const Json& row) {
  const std::string notes = word(row, "notes");
  const std::string mark = "VP printed NA here (";
  const auto found = notes.find(mark);
  if (found == std::string::npos) return number_or<int>(row, "vp", 1);
  return std::max(1, std::atoi(notes.c_str() + found + mark.size()));
}

PublishedRun parse_row(const Json& row) {
  PublishedRun run{.id = word(row, "id"), .part = word(row, "part"), .family = word(row, "group")};
  need(flag(row, "complete"), "its source does not state all of its configuration");
  need(!flag(row, "inconsistent"), "it contradicts itself");
  need(row.contains("ep") && row["ep"].is_null(), "expert parallel is not priced");
  run.gated = flag(row["model"], "gated_mlp");
  run.sequence_length = number<std::int64_t>(row, "seq_len");
  run.global_batch = number<std::int64_t>(row, "global_batch");
  run.micro_batch_size = number<int>(row, "micro_batch");
  run.tensor_parallel = number<int>(row, "tp");
  run.pipeline_parallel = number<int>(row, "pp");
  run.data_parallel = number<int>(row, "dp");
  run.context_parallel = number_or<int>(row, "cp", 1);
  run.virtual_stages = virtual_stages_of(row);
  run.zero_stage = number_or<int>(row, "zero_stage", 0);
  run.sequence_parallel = flag(row, "sequence_parallel");
  run.recompute = recompute_of(word(row, "recompute"));
  run.dtype = plain_dtype(word(row, "dtype"));
  run.model = model_of(row["model"], run.gated, run.tensor_parallel, run.sequence_length);
  need(run.micro_batches() >= 1 && run.global_batch == std::int64_t{run.micro_batches()} *
                                                           run.micro_batch_size * run.data_parallel,
       "its batch does not divide by its replicas and micro-batches");
  read_devices(row, run);
  run.positions = ranges_of(split_of(row, run));
  run.node_bytes_per_s = number_or<double>(row["network"], "inter_Gbps_per_node", 0) * kGbps;
  // "per-port figure ...; ports per node not stated": the data sheet's machine has that many.
  const bool of_port =
      word(row["network"], "derived").find("ports per node not stated") != std::string::npos;
  if (of_port) run.node_bytes_per_s = 0;
  const bool is_omni_path = word(row["network"], "derived").find("Omni-Path") != std::string::npos;
  if (is_omni_path) run.fabric = "omni-path";
  // A figure of NVLink counts both directions; a smaller one than any NVLink's counts one.
  const double link = number_or<double>(row["network"], "intra_GBps", 0) * 1e9;
  run.link_bytes_per_s = link >= 100e9 ? link / 2 : link;
  run.measured_s = number<double>(row["measured"], "step_time_s");
  read_memory(row, run);
  const bool is_paddle = word(row, "notes").find("PaddleNLP") != std::string::npos;
  run.software = is_paddle ? "paddlenlp" : run.part;
  // "PCIe/NUMA fix" of 02-25: the same configurations were 4 to 8 % slower before.
  run.impaired = run.part == "bigscience_a100" && word(row, "date") < "02-25";
  run.alike = text(run.impaired ? "before " : "", run.part, ' ', word(row["model"], "name"), ' ',
                   run.sequence_length, ' ', run.global_batch, ' ', run.dtype, ' ',
                   row["accelerators"].dump());
  return run;
}

// One node's runs are written shorter.
PublishedRun parse_short_row(const Json& row) {
  PublishedRun run{.id = word(row, "id"), .part = "vtrain_single", .software = "vtrain_single"};
  run.gated = false;
  run.sequence_length = number<std::int64_t>(row, "seq");
  run.global_batch = number<std::int64_t>(row, "gbs");
  run.micro_batch_size = number<int>(row, "mbs");
  run.tensor_parallel = number<int>(row, "tp");
  run.pipeline_parallel = number<int>(row, "pp");
  run.data_parallel = number<int>(row, "dp");
  run.recompute = Recompute::kFull;
  run.dtype = "f16";
  Json model = row;
  model["vocab"] = 50257;
  model["ffn"] = 4 * number<std::int64_t>(row, "hidden");
  run.model = model_of(model, false, run.tensor_parallel, run.sequence_length);
  need(run.micro_batches() >= 1 && run.world_size() == number<int>(row, "gpus"),
       "its ranks are not its devices");
  run.stage_kinds.assign(run.pipeline_parallel, {"A100-80GB-SXM"});
  run.positions = ranges_of(even_split(run.model.layers, run.pipeline_parallel));
  run.devices_per_node = 8;
  run.measured_s = number<double>(row, "step_time_s");
  run.family = text(run.model.hidden_size, ' ', run.model.layers, ' ', run.sequence_length);
  run.alike = text(run.family, ' ', run.global_batch, ' ', run.world_size());
  return run;
}

}  // namespace

PublishedRuns parse_published_runs(const Json& file, const std::string& name) {
  const bool is_short = file.is_object() && file.contains("rows");
  const Json& rows = is_short ? file["rows"] : file;
  if (!rows.is_array()) {
    throw Error(ErrorCode::kInvalidConfig, {.what = name,
                                            .found = rows.type_name(),
                                            .expected = "a list of runs",
                                            .fix = "see docs/predictor.md for the form of a run"});
  }
  PublishedRuns all;
  for (const Json& row : rows) {
    try {
      need(row.is_object(), "it is no object");
      all.runs.push_back(is_short ? parse_short_row(row) : parse_row(row));
    } catch (const Unpriced& reason) {
      const bool has_names = row.is_object();
      all.unpriced.push_back({has_names ? word(row, "id") : "",
                              is_short    ? "vtrain_single"
                              : has_names ? word(row, "part")
                                          : "",
                              reason.why});
    } catch (const nlohmann::json::exception& error) {
      all.unpriced.push_back({word(row, "id"), word(row, "part"), error.what()});
    }
  }
  return all;
}

}  // namespace hethub

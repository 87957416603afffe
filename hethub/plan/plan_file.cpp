#include "hethub/plan/plan_file.h"

#include <array>
#include <cstdio>
#include <utility>

#include <nlohmann/json.hpp>

#include "hethub/base/error.h"

namespace hethub {
namespace {

constexpr const char* kFormat = "hethub-plan/1";
constexpr std::array<std::pair<std::string_view, Recompute>, 3> kRecomputeNames = {
    {{"none", Recompute::kNone}, {"selective", Recompute::kSelective}, {"full", Recompute::kFull}}};

[[noreturn]] void refuse(const std::string& what, const Json& found, std::string expected) {
  throw Error(ErrorCode::kInvalidConfig, {.what = what,
                                          .found = found.dump(),
                                          .expected = std::move(expected),
                                          .fix = "see 'A plan' in the README"});
}

LayerRange parse_range(const Json& json, const std::string& where) {
  if (!json.is_array() || json.size() != 2) refuse(where, json, "[first, end]");
  const auto numbers = get<std::vector<int>>(Json({{"range", json}}), where, "range");
  return {numbers[0], numbers[1]};
}

Recompute parse_kind(const Json& json, const std::string& where) {
  for (const auto& [name, kind] : kRecomputeNames) {
    if (json == name) return kind;
  }
  refuse(where, json,
         "\"none\", \"selective\", \"full\", {\"full\": [first, end]} or a list of such ranges");
}

std::vector<RecomputeRange> parse_recompute(const Json& json, const std::string& where,
                                            const std::vector<LayerRange>& layers) {
  std::vector<RecomputeRange> ranges;
  if (json.is_object()) {
    for (const auto& [name, given] : json.items()) {
      const bool is_list = given.is_array() && !given.empty() && given[0].is_array();
      for (const Json& range : is_list ? given : Json::array({given})) {
        ranges.push_back({parse_kind(name, where), parse_range(range, where + "." + name)});
      }
    }
    return ranges;
  }
  const Recompute kind = parse_kind(json, where);
  if (kind == Recompute::kNone) return ranges;
  for (const LayerRange& range : layers) {
    ranges.push_back({kind, range});
  }
  return ranges;
}

// Before anything is counted by rank.
void check_ranks(const std::vector<int>& ranks, const std::string& where) {
  constexpr int kMost = 1 << 20;
  for (const int rank : ranks) {
    if (rank < 0 || rank >= kMost) refuse(where, rank, text("ranks from 0 to ", kMost - 1));
  }
}

Stage parse_stage(const Json& json, const std::string& where) {
  check_keys(json, where,
             {"kind", "ranks", "tensor_parallel", "expert_parallel", "layers", "recompute"});
  Stage stage{.kind = get<std::string>(json, where, "kind"),
              .ranks = get<std::vector<int>>(json, where, "ranks"),
              .tensor_parallel = get_or<int>(json, where, "tensor_parallel", 1),
              .expert_parallel = get_or<int>(json, where, "expert_parallel", 1)};
  const Json layers = json.value("layers", Json());
  if (!layers.is_array()) refuse(where + ".layers", layers, "a list of [first, end]");
  for (const Json& range : layers) {
    stage.layers.push_back(parse_range(range, where + ".layers"));
  }
  check_ranks(stage.ranks, where + ".ranks");
  if (json.contains("recompute")) {
    stage.recompute = parse_recompute(json.at("recompute"), where + ".recompute", stage.layers);
  }
  return stage;
}

Pipeline parse_pipeline(const Json& json, const std::string& where) {
  check_keys(json, where, {"micro_batch_size", "micro_batches", "stages"});
  Pipeline pipeline{.micro_batch_size = get_or<int>(json, where, "micro_batch_size", 1),
                    .micro_batches = get<int>(json, where, "micro_batches")};
  const Json stages = json.value("stages", Json());
  if (!stages.is_array()) refuse(where + ".stages", stages, "a list of stages");
  for (const Json& stage : stages) {
    pipeline.stages.push_back(
        parse_stage(stage, text(where, ".stages[", pipeline.stages.size(), "]")));
  }
  return pipeline;
}

// What the format reserves and this version cannot do: present only with its default.
void check_reserved(const Json& json, const std::string& name) {
  const auto only = [&](const char* key, const Json& value) {
    if (json.contains(key) && json.at(key) != value) {
      refuse(text(name, ": ", key), json.at(key), value.dump() + " (the only value supported)");
    }
  };
  only("context_parallel", 1);
  if (json.contains("expert_parallel") && json.at("expert_parallel") != 1) {
    refuse(name + ": expert_parallel", json.at("expert_parallel"),
           "1: it is a field of stages, as \"tensor_parallel\" is");
  }
  only("expert_rows_bound", nullptr);
  only("optimizer_ranges", nullptr);
  only("algorithms", nullptr);
}

Json recompute_json(const Stage& stage) {
  if (stage.recompute.empty()) return "none";
  const auto name = [](Recompute kind) {
    return std::string(kRecomputeNames.at(static_cast<std::size_t>(kind)).first);
  };
  bool whole = stage.recompute.size() == stage.layers.size();
  for (std::size_t index = 0; whole && index < stage.recompute.size(); ++index) {
    whole = stage.recompute[index].layers == stage.layers[index] &&
            stage.recompute[index].kind == stage.recompute[0].kind;
  }
  if (whole) return name(stage.recompute[0].kind);
  Json object = Json::object();
  for (const RecomputeRange& range : stage.recompute) {
    object[name(range.kind)].push_back({range.layers.begin, range.layers.end});
  }
  return object;
}

Json stage_json(const Stage& stage) {
  Json layers = Json::array();
  for (const LayerRange& range : stage.layers) {
    layers.push_back({range.begin, range.end});
  }
  Json json = {{"kind", stage.kind},
               {"ranks", stage.ranks},
               {"tensor_parallel", stage.tensor_parallel},
               {"layers", std::move(layers)},
               {"recompute", recompute_json(stage)}};
  if (stage.expert_parallel != 1) json["expert_parallel"] = stage.expert_parallel;
  return json;
}

}  // namespace

Plan parse_plan(const Json& json, const std::string& name) {
  check_keys(json, name,
             {"format", "model", "sequence_length", "global_batch", "dtype", "schedule",
              "zero_stage", "bucket_bytes", "overlap", "pipelines", "predicted",
              "sequence_parallel", "z_loss", "context_parallel", "expert_parallel",
              "expert_rows_bound", "optimizer_ranges", "algorithms"});
  const std::string format = get<std::string>(json, name, "format");
  if (format != kFormat) refuse(name + ": format", format, kFormat);
  check_reserved(json, name);
  Plan plan{.model = get_or<std::string>(json, name, "model", ""),
            .sequence_length = get<std::int64_t>(json, name, "sequence_length"),
            .global_batch = get<std::int64_t>(json, name, "global_batch")};
  plan.dtype = get_or<std::string>(json, name, "dtype", plan.dtype);
  plan.schedule = get_or<std::string>(json, name, "schedule", plan.schedule);
  plan.zero_stage = get_or<int>(json, name, "zero_stage", plan.zero_stage);
  plan.bucket_bytes = get_or<std::int64_t>(json, name, "bucket_bytes", plan.bucket_bytes);
  plan.overlap = get_or<bool>(json, name, "overlap", plan.overlap);
  plan.sequence_parallel = get_or<bool>(json, name, "sequence_parallel", plan.sequence_parallel);
  plan.z_loss = get_or<double>(json, name, "z_loss", plan.z_loss);
  if (json.contains("predicted")) {
    check_keys(json.at("predicted"), name + ": predicted", {"step_seconds"});
    plan.predicted_step_seconds =
        get_or<double>(json.at("predicted"), name + ": predicted", "step_seconds", 0.0);
  }
  const Json pipelines = json.value("pipelines", Json());
  if (!pipelines.is_array()) refuse(name + ": pipelines", pipelines, "a list of pipelines");
  for (const Json& pipeline : pipelines) {
    plan.pipelines.push_back(
        parse_pipeline(pipeline, text(name, ": pipelines[", plan.pipelines.size(), "]")));
  }
  return plan;
}

Plan read_plan(const std::filesystem::path& file) {
  return parse_plan(read_document(file), file.string());
}

std::filesystem::path model_path_of(const std::filesystem::path& plan_file, const Plan& plan) {
  const std::filesystem::path beside = plan_file.parent_path() / plan.model;
  return std::filesystem::exists(beside) ? beside : std::filesystem::path(plan.model);
}

Json to_json(const Plan& plan) {
  Json pipelines = Json::array();
  for (const Pipeline& pipeline : plan.pipelines) {
    Json stages = Json::array();
    for (const Stage& stage : pipeline.stages) {
      stages.push_back(stage_json(stage));
    }
    pipelines.push_back({{"micro_batch_size", pipeline.micro_batch_size},
                         {"micro_batches", pipeline.micro_batches},
                         {"stages", std::move(stages)}});
  }
  Json json = {{"format", kFormat},
               {"model", plan.model},
               {"sequence_length", plan.sequence_length},
               {"global_batch", plan.global_batch},
               {"dtype", plan.dtype},
               {"schedule", plan.schedule},
               {"zero_stage", plan.zero_stage},
               {"bucket_bytes", plan.bucket_bytes},
               {"overlap", plan.overlap},
               {"sequence_parallel", plan.sequence_parallel},
               {"pipelines", std::move(pipelines)}};
  if (plan.z_loss > 0) json["z_loss"] = plan.z_loss;
  if (plan.predicted_step_seconds > 0) {
    json["predicted"] = {{"step_seconds", plan.predicted_step_seconds}};
  }
  return json;
}

std::string plan_hash(const Plan& plan) {
  Plan bare = plan;
  bare.predicted_step_seconds = 0;
  bare.model.clear();
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char letter : to_json(bare).dump()) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3ULL;
  }
  std::array<char, 17> digits = {};
  std::snprintf(digits.data(), digits.size(), "%016llx", static_cast<unsigned long long>(hash));
  return digits.data();
}

}  // namespace hethub

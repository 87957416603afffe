#include "hethub/plan/validate.h"

#include <algorithm>
#include <map>
#include <utility>

#include "hethub/plan/predict_only.h"
#include "hethub/plan/schedule.h"
#include "hethub/plan/sharded_gradients.h"
#include "hethub/plan/tensor_width.h"

namespace hethub {
namespace {

// Walks a plan once and notes every contradiction it meets.
class Validator {
 public:
  Validator(const Plan& plan, const ModelConfig& model, const std::vector<std::string>& kinds)
      : plan_(plan), model_(model), kinds_(kinds) {}

  std::vector<Error> run() {
    check_job();
    expect(!plan_.pipelines.empty(), "plan: pipelines", "none", "1 or more", "add a pipeline");
    for (std::size_t index = 0; index < plan_.pipelines.size(); ++index) {
      check_pipeline(text("pipeline ", index), plan_.pipelines[index]);
    }
    check_all_ranks_used();
    return std::move(errors_);
  }

 private:
  // Notes an error unless `condition` holds, and returns it.
  bool expect(bool condition, std::string what, std::string found, std::string expected,
              std::string fix) {
    if (condition) return true;
    errors_.emplace_back(ErrorCode::kInvalidPlan, ErrorParts{std::move(what), std::move(found),
                                                             std::move(expected), std::move(fix)});
    return false;
  }

  // The plan's schedule, or null.
  const ScheduleEntry* entry() const {
    const auto found =
        std::find_if(all_schedules().begin(), all_schedules().end(),
                     [&](const auto& entry) { return entry.name == plan_.schedule; });
    return found == all_schedules().end() ? nullptr : &*found;
  }

  void check_job() {
    std::string names;
    for (const ScheduleEntry& entry : all_schedules()) {
      names += text(names.empty() ? "" : ", ", entry.name);
    }
    expect(entry() != nullptr, "plan: schedule", plan_.schedule, "one of " + names,
           mend_schedule(plan_.schedule));
    expect(plan_.sequence_length >= 1 && plan_.sequence_length <= model_.max_position_embeddings,
           "plan: sequence_length", text(plan_.sequence_length),
           text("1 to max_position_embeddings=", model_.max_position_embeddings),
           "shorten the sequences");
    expect(plan_.dtype == "f32" || plan_.dtype == "bf16", "plan: dtype", plan_.dtype, "f32 or bf16",
           "choose one of the two");
    expect(plan_.zero_stage >= 0 && plan_.zero_stage <= 2, "plan: zero_stage",
           text(plan_.zero_stage), "0, 1 or 2", "choose one of them");
    expect(plan_.zero_stage < 2 || may_shard_gradients(plan_), "plan: zero_stage",
           "2 with pipelines of other stages or micro-batches",
           "pipelines with the same layers, widths and micro_batches, which sum each micro-batch's "
           "gradients together",
           "give the pipelines one shape, or the plan \"zero_stage\": 1");
    expect(plan_.bucket_bytes >= 4, "plan: bucket_bytes", text(plan_.bucket_bytes), "4 or more",
           "leave it out");
    expect(plan_.z_loss >= 0, "plan: z_loss", text(plan_.z_loss), "0 or more", "leave it out");
    std::int64_t sequences = 0;
    for (const Pipeline& pipeline : plan_.pipelines) {
      sequences += std::max<std::int64_t>(pipeline.sequences(), 0);
    }
    expect(sequences == plan_.global_batch && sequences >= 1, "plan: global_batch",
           text(plan_.global_batch),
           text(sequences, ", the sum of micro_batch_size * micro_batches over the pipelines"),
           "change it or the micro-batches");
  }

  void check_pipeline(const std::string& where, const Pipeline& pipeline) {
    constexpr int kMost = 65536;
    expect(pipeline.micro_batches >= 1 && pipeline.micro_batches <= kMost,
           where + ": micro_batches", text(pipeline.micro_batches), text("1 to ", kMost),
           "remove the pipeline or give it work; enlarge micro_batch_size");
    expect(pipeline.micro_batch_size >= 1, where + ": micro_batch_size",
           text(pipeline.micro_batch_size), "1 or more", "give each micro-batch a sequence");
    expect(!pipeline.stages.empty(), where + ": stages", "none", "1 or more", "add a stage");
    expect(std::ssize(pipeline.stages) <= model_.layers, where + ": stages",
           text(pipeline.stages.size()), text("at most layers=", model_.layers),
           "merge stages: each needs a layer");
    for (std::size_t index = 0; index < pipeline.stages.size(); ++index) {
      const std::string stage = text(where, " stage ", index);
      check_shape(stage, pipeline, pipeline.stages[index]);
      check_ranks(stage, pipeline.stages[index]);
      check_recompute(stage, pipeline.stages[index]);
    }
    check_virtual_stages(where, pipeline);
    check_layers(where, pipeline);
  }

  // How many ranges of layers each stage has, and what the schedule asks of them.
  void check_virtual_stages(const std::string& where, const Pipeline& pipeline) {
    const bool may_be_many = entry() != nullptr && entry()->virtual_stages;
    for (std::size_t index = 0; index < pipeline.stages.size(); ++index) {
      const std::size_t ranges = pipeline.stages[index].layers.size();
      const std::string stage = text(where, " stage ", index, ": layers");
      if (!may_be_many) {
        expect(ranges == 1, stage, text(ranges, " ranges"),
               "1: this schedule has no virtual stages",
               "give the stage one range, or the plan \"schedule\": \"interleaved\"");
      } else {
        expect(ranges >= 1 && ranges == pipeline.stages.front().layers.size(), stage,
               text(ranges, " ranges"), "1 or more, as many on every stage",
               "give every stage as many virtual stages");
      }
    }
    const auto stages = static_cast<int>(pipeline.stages.size());
    if (entry() == nullptr || stages == 0) return;
    expect(entry()->fits({.stages = stages, .micro_batches = pipeline.micro_batches}),
           text(where, ": schedule ", plan_.schedule),
           text(stages, " stages, ", pipeline.micro_batches, " micro-batches"),
           std::string(entry()->needs), "change the number of micro-batches, or choose 1f1b");
  }

  void check_shape(const std::string& where, const Pipeline& pipeline, const Stage& stage) {
    const int width = stage.tensor_parallel;
    if (!expect(width >= 1, where + ": tensor_parallel", text(width), "1 or more",
                "leave it out, or give the number of ranks that share each layer")) {
      return;
    }
    expect(!stage.ranks.empty() && std::ssize(stage.ranks) % width == 0, where + ": ranks",
           text(stage.ranks.size(), " ranks"), text("a multiple of tensor_parallel=", width),
           "give every copy of the stage as many ranks");
    expect(stage.copies() <= pipeline.micro_batch_size, where + ": ranks",
           text(stage.copies(), " copies of the stage"),
           text("at most micro_batch_size=", pipeline.micro_batch_size,
                ": copies share out a micro-batch's sequences"),
           "enlarge micro_batch_size, or make a pipeline of each copy");
    const auto fault = width_fault(model_, {plan_.sequence_length, plan_.sequence_parallel}, width);
    if (fault)
      expect(false, where + ": tensor_parallel", fault->found, fault->expected, fault->fix);
    if (stage.expert_parallel != 1) check_experts(where + ": expert_parallel", stage);
  }

  // Runs of copies share out the experts.
  void check_experts(const std::string& where, const Stage& stage) {
    const int copies = stage.expert_parallel;
    expect(model_.experts > 0, where, text(copies), "1: this model has no experts", "leave it out");
    expect(copies >= 1 && stage.copies() % std::max(copies, 1) == 0, where, text(copies),
           text("a divisor of the stage's copies=", stage.copies()),
           "choose another number, or give the stage as many copies");
    const std::int64_t ranks = std::int64_t{copies} * stage.tensor_parallel;
    expect(model_.experts == 0 || ranks <= model_.experts, where,
           text(copies, " with tensor_parallel=", stage.tensor_parallel),
           text("at most num_local_experts=", model_.experts, " ranks, one expert for each"),
           "choose another number");
  }

  void check_ranks(const std::string& where, const Stage& stage) {
    for (const int rank : stage.ranks) {
      const int ranks = kinds_.empty() ? std::max(rank + 1, 1) : static_cast<int>(kinds_.size());
      if (!expect(rank >= 0 && rank < ranks, where + ": rank", text(rank), text("0 to ", ranks - 1),
                  "use a rank of this cluster")) {
        continue;
      }
      if (!kinds_.empty()) {
        expect(kinds_[rank] == stage.kind, text(where, ": kind of rank ", rank), kinds_[rank],
               stage.kind, "keep each stage on one accelerator kind");
      }
      const auto [owner, is_new] = user_of_rank_.try_emplace(rank, where);
      expect(is_new, text(where, ": rank ", rank), "already used by " + owner->second,
             "a rank no other stage uses", "give each rank to one stage");
    }
  }

  void check_all_ranks_used() {
    int next = 0;
    for (const auto& [rank, where] : user_of_rank_) {
      if (!expect(rank == next, "plan: ranks", text("rank ", next, " in no stage"),
                  "every rank from 0 on in one stage", "number the ranks without gaps")) {
        return;
      }
      ++next;
    }
  }

  void check_recompute(const std::string& where, const Stage& stage) {
    for (const RecomputeRange& range : stage.recompute) {
      const bool inside =
          std::any_of(stage.layers.begin(), stage.layers.end(), [&](const LayerRange& layers) {
            return layers.begin <= range.layers.begin && range.layers.end <= layers.end;
          });
      expect(inside, where + ": recompute",
             text("layers [", range.layers.begin, ", ", range.layers.end, ")"),
             "layers of this stage", "correct the range");
    }
  }

  // Each layer once and in order, position by position.
  void check_layers(const std::string& where, const Pipeline& pipeline) {
    int next = 0;
    std::size_t most = 0;
    for (const Stage& stage : pipeline.stages) {
      most = std::max(most, stage.layers.size());
    }
    for (std::size_t turn = 0; turn < most; ++turn) {
      for (std::size_t index = 0; index < pipeline.stages.size(); ++index) {
        if (turn >= pipeline.stages[index].layers.size()) continue;
        const LayerRange& range = pipeline.stages[index].layers[turn];
        expect(range.begin == next && range.end > next, text(where, " stage ", index, ": layers"),
               text("[", range.begin, ", ", range.end, ")"),
               text("a range that begins at ", next, " and has a layer"),
               "let each range begin where the one before ends");
        next = std::max(next, range.end);
      }
    }
    expect(next == model_.layers, where + ": layers", text(next),
           text("all ", model_.layers, " of the model"), "cover each layer once");
  }

  const Plan& plan_;
  const ModelConfig& model_;
  const std::vector<std::string>& kinds_;
  std::map<int, std::string> user_of_rank_ = {};
  std::vector<Error> errors_ = {};
};

}  // namespace

std::vector<Error> validate(const Plan& plan, const ModelConfig& model,
                            const std::vector<std::string>& kind_of_rank) {
  return Validator(plan, model, kind_of_rank).run();
}

void require_valid(const Plan& plan, const ModelConfig& model,
                   const std::vector<std::string>& kind_of_rank) {
  const std::vector<Error> errors = validate(plan, model, kind_of_rank);
  if (errors.empty()) return;
  if (errors.size() == 1) throw errors.front();
  ErrorParts all = errors.front().parts();
  for (std::size_t index = 1; index < errors.size(); ++index) {
    all.fix += text("\n  ", errors[index].what());
  }
  throw Error(ErrorCode::kInvalidPlan, std::move(all));
}

void require_ranks(const Plan& plan, int started) {
  if (plan.world_size() == started) return;
  throw Error(ErrorCode::kInvalidPlan,
              {.what = "plan: number of ranks",
               .found = text(plan.world_size()),
               .expected = text(started, ", as many as were started"),
               .fix = "start the run with 'hethub launch --plan', which counts them"});
}

}  // namespace hethub

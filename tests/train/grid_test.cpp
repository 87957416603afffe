// Plans of every shape train the golden sets to the numbers of an independent fp64 reference
// (tests/data/golden/README.md): families by widths, stages, replicas, schedules, recompute, ZeRO
// stages and, of experts, copies that share them out. HETHUB_GRID=all runs every cell instead of a
// sample, and prints them as a table with the worst errors at its end; HETHUB_GRID=NAME runs those
// of one set. HETHUB_GRID_SECONDS ends either early: cells come in an order that mixes all of them.

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "hethub/base/clock.h"
#include "hethub/base/json.h"
#include "hethub/base/text.h"
#include "hethub/data/fixed_batches.h"
#include "hethub/plan/validate.h"
#include "tests/train/thread_ranks.h"

namespace hethub {
namespace {

constexpr int kMostRanks = 16;

struct Cell {
  std::string set = {};
  int width = 1;
  int stages = 1;
  int replicas = 1;
  std::string schedule = {};
  std::string recompute = {};
  int zero_stage = 1;
  int experts = 1;  // copies of each stage, which share them out

  int ranks() const { return width * stages * replicas * experts; }
};

std::string text_of(const Cell& cell) {
  return text(cell.set, " tp=", cell.width, " pp=", cell.stages, " dp=", cell.replicas, " ",
              cell.schedule, " recompute=", cell.recompute, " zero=", cell.zero_stage,
              cell.experts > 1 ? text(" ep=", cell.experts) : "");
}

std::vector<Cell> all_cells() {
  std::vector<Cell> cells;
  for (const char* set : {"llama", "llama3", "mistral", "qwen2", "qwen3", "llama31", "yarn",
                          "window", "gpt2", "mixtral", "deep"}) {
    for (const int width : {1, 2, 4}) {
      for (const int stages : {1, 2, 4}) {
        for (const int replicas : {1, 2, 3}) {
          for (const char* schedule : {"1f1b", "gpipe", "zero-bubble", "interleaved"}) {
            for (const char* recompute : {"none", "selective", "full"}) {
              for (const int zero_stage : {0, 1, 2}) {
                for (const int experts : {1, 2, 4}) {
                  const bool has = set == std::string("mixtral") || experts == 1;
                  if (!has) continue;
                  cells.push_back(
                      {set, width, stages, replicas, schedule, recompute, zero_stage, experts});
                }
              }
            }
          }
        }
      }
    }
  }
  return cells;
}

// Layers in even runs, one after the other: a stage takes `ranges` of them in turn.
Stage stage_of(const Cell& cell, int index, int first_rank, int layers) {
  Stage stage{.kind = "cpu", .tensor_parallel = cell.width, .expert_parallel = cell.experts};
  for (int rank = 0; rank < cell.width * cell.experts; ++rank) {
    stage.ranks.push_back(first_rank + rank);
  }
  const int ranges = cell.schedule == "interleaved" ? 2 : 1;
  for (int turn = 0; turn < ranges; ++turn) {
    const int position = turn * cell.stages + index;
    const IndexRange part = part_of(layers, std::int64_t{ranges} * cell.stages, position);
    stage.layers.push_back({static_cast<int>(part.begin), static_cast<int>(part.end)});
    if (cell.recompute == "none") continue;
    const bool full = cell.recompute == "full";
    stage.recompute.push_back(
        {full ? Recompute::kFull : Recompute::kSelective, stage.layers.back()});
  }
  return stage;
}

// Replicas share out the batch in runs that differ by one sequence; micro-batches are of one for
// each copy.
Plan plan_of(const Cell& cell, int layers, int batch) {
  std::vector<Pipeline> pipelines;
  int rank = 0;
  for (int replica = 0; replica < cell.replicas; ++replica) {
    const auto sequences = static_cast<int>(part_of(batch, cell.replicas, replica).size());
    Pipeline pipeline{.micro_batch_size = cell.experts, .micro_batches = sequences / cell.experts};
    for (int stage = 0; stage < cell.stages; ++stage) {
      pipeline.stages.push_back(stage_of(cell, stage, rank, layers));
      rank += cell.width * cell.experts;
    }
    pipelines.push_back(std::move(pipeline));
  }
  Plan plan = cpu_plan(32, std::move(pipelines));
  plan.schedule = cell.schedule;
  plan.zero_stage = cell.zero_stage;
  plan.sequence_parallel = cell.width > 1 && cell.zero_stage == 1;
  plan.overlap = cell.replicas > 1 && cell.recompute == "full";
  return plan;
}

struct Reference {
  std::filesystem::path folder = {};
  ModelConfig model = {};
  double loss = 0;
  double norm = 0;
  std::vector<double> losses = {};
};

Reference read_reference(const std::string& set) {
  Reference reference{.folder = std::filesystem::path(HETHUB_TEST_DATA) / "golden" / set};
  reference.model = read_model(reference.folder);
  const Json numbers = read_document(reference.folder / "expected.json").at("fp64");
  reference.loss = numbers.at("loss").get<double>();
  reference.norm = numbers.at("grad_norm").get<double>();
  reference.losses = numbers.at("training_losses").get<std::vector<double>>();
  return reference;
}

// How far a run is from the reference, each a part of what is allowed.
struct Distance {
  double loss = 0;
  double norm = 0;
  double losses = 0;

  double most() const { return std::max({loss, norm, losses}); }
  void raise_to(const Distance& other) {
    loss = std::max(loss, other.loss);
    norm = std::max(norm, other.norm);
    losses = std::max(losses, other.losses);
  }
};

std::string text_of(const Distance& distance) {
  return text("loss ", distance.loss, " norm ", distance.norm, " losses ", distance.losses,
              " of what is allowed");
}

Distance train(const Reference& reference, const Plan& plan, const FixedBatches& batches) {
  const auto steps = std::ssize(reference.losses);
  const TrainOptions options{.plan = plan,
                             .model = reference.model,
                             .optimizer = {.learning_rate = 1e-3,
                                           .weight_decay = 0.1,
                                           .clip_norm = 1.0,
                                           .schedule = "constant",
                                           .total_steps = steps},
                             .start = {.init_from = reference.folder},
                             .steps = steps,
                             .timeout_s = 120};
  const std::vector<StepResult> found = train_in_threads(options, batches).front().steps;
  Distance distance;
  distance.loss = std::fabs(found[0].loss / reference.loss - 1) / 5e-6;
  distance.norm = std::fabs(found[0].gradient_norm / reference.norm - 1) / 5e-5;
  for (std::int64_t step = 0; step < steps; ++step) {
    distance.losses =
        std::max(distance.losses, std::fabs(found[step].loss / reference.losses[step] - 1) / 5e-5);
  }
  return distance;
}

// Which cells to run: of all, about one in three hundred; all of one set, or all.
bool is_chosen(const Cell& cell, std::size_t number) {
  const char* wanted = std::getenv("HETHUB_GRID");
  if (wanted == nullptr) return number % 307 == 5;
  return wanted == std::string("all") || wanted == cell.set;
}

// Cells that differ from another in name alone: schedules of one stage.
bool is_another(const Cell& cell) {
  return cell.stages == 1 && (cell.schedule == "gpipe" || cell.schedule == "zero-bubble");
}

// All numbers below `count`, each once, neighbours far apart.
std::vector<std::size_t> mixed_order(std::size_t count) {
  constexpr std::size_t kStep = 307;  // a prime, which does not divide the count
  std::vector<std::size_t> order;
  for (std::size_t index = 0; index < count; ++index) {
    order.push_back(index * kStep % count);
  }
  return order;
}

double seconds_allowed() {
  const char* wanted = std::getenv("HETHUB_GRID_SECONDS");
  return wanted == nullptr ? 1e9 : std::atof(wanted);
}

TEST(Grid, every_plan_trains_to_the_references_numbers) {
  const std::vector<Cell> cells = all_cells();
  const double end = seconds_now() + seconds_allowed();
  std::map<std::string, std::pair<int, Distance>> worst;  // of each set, and how many were run
  int run = 0;
  int beyond = 0;
  int impossible = 0;
  int wrong = 0;
  for (const std::size_t number : mixed_order(cells.size())) {
    const Cell& cell = cells[number];
    if (!is_chosen(cell, number) || is_another(cell) || seconds_now() > end) continue;
    if (cell.ranks() > kMostRanks) {
      ++beyond;
      continue;
    }
    SCOPED_TRACE(text_of(cell));
    const Reference reference = read_reference(cell.set);
    const FixedBatches batches(reference.folder / "tokens.json", reference.model.vocab_size);
    const Plan plan = plan_of(cell, reference.model.layers, static_cast<int>(batches.batch_size()));
    if (!validate(plan, reference.model).empty()) {  // too few layers or micro-batches
      ++impossible;
      continue;
    }
    const Distance distance = train(reference, plan, batches);
    EXPECT_LE(distance.loss, 1);
    EXPECT_LE(distance.norm, 1);
    EXPECT_LE(distance.losses, 1);
    ++run;
    wrong += distance.most() <= 1 ? 0 : 1;
    worst[cell.set].first += 1;
    worst[cell.set].second.raise_to(distance);
    if (std::getenv("HETHUB_GRID") == nullptr) continue;
    std::cout << (distance.most() <= 1 ? "right " : "WRONG ") << text_of(cell) << "  "
              << text_of(distance) << std::endl;
  }
  for (const auto& [set, of] : worst) {
    std::cout << set << ": " << of.first << " cells, worst " << text_of(of.second) << '\n';
  }
  std::cout << wrong << " wrong; " << run << " cells run; " << beyond << " of more than "
            << kMostRanks << " ranks and " << impossible
            << " that a set has too few layers or sequences for left out\n";
  EXPECT_GT(run, 5);
}

}  // namespace
}  // namespace hethub

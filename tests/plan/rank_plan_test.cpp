#include "hethub/plan/rank_plan.h"

#include <map>
#include <set>
#include <tuple>

#include <gtest/gtest.h>

#include "hethub/base/error.h"
#include "hethub/plan/alike_ranks.h"
#include "hethub/plan/group_ops.h"
#include "tests/plan/small_plan.h"

namespace hethub {
namespace {

TEST(Segments, hold_each_tensor_once_and_list_all_its_holders) {
  for (const bool tied : {false, true}) {
    const ModelConfig model = small_model(tied);
    const Plan plan = small_plan(true);
    std::map<std::string, std::vector<int>> holders;
    for (const Segment& segment : segments_of(plan, model)) {
      for (const TensorShard& part : segment.parts) {
        EXPECT_TRUE(holders.try_emplace(part.tensor.name, segment.ranks).second)
            << part.tensor.name;
      }
    }
    EXPECT_EQ(holders.size(), tensors_of(model).size());
    EXPECT_EQ(holders.at("model.embed_tokens.weight"),
              tied ? (std::vector<int>{0, 1, 2}) : (std::vector<int>{0, 2}));
    EXPECT_EQ(holders.at("model.layers.3.mlp.down_proj.weight"), (std::vector<int>{1, 2}));
    EXPECT_EQ(holders.at("model.norm.weight"), (std::vector<int>{1, 2}));
  }
}

TEST(Segments, respect_the_size_of_a_bucket) {
  Plan plan = small_plan(true);
  plan.bucket_bytes = 100'000;
  for (const Segment& segment : segments_of(plan, small_model())) {
    EXPECT_TRUE(segment.elements * 4 <= plan.bucket_bytes || segment.parts.size() == 1);
  }
}

// One rank a stage; pipelines of these layers each, all on one kind or each on its own.
Plan plan_of_splits(const std::vector<std::vector<int>>& splits, bool own_kinds) {
  Plan plan{.sequence_length = 32, .global_batch = std::ssize(splits), .bucket_bytes = 40'000};
  int rank = 0;
  for (const std::vector<int>& split : splits) {
    Pipeline& pipeline = plan.pipelines.emplace_back();
    int layer = 0;
    for (const int layers : split) {
      pipeline.stages.push_back(
          stage_on(own_kinds ? text("kind", plan.pipelines.size() % 2) : "cpu", rank++, layer,
                   layer + layers));
      layer += layers;
    }
  }
  return plan;
}

TEST(Segments, of_unlike_pipelines_are_summed_in_rounds_in_which_no_rank_has_two) {
  const ModelConfig model = small_model(false, 12);
  const Plan plan = plan_of_splits({{4, 4, 4}, {2, 2, 2, 2, 2, 2}, {3, 5, 3, 1}}, false);
  const std::vector<Segment> segments = segments_of(plan, model);
  std::set<std::pair<int, int>> busy;  // rank and round
  std::map<int, int> of_rank;
  int rounds = 0;
  int all = 0;
  for (const int summed : summed_segments(segments)) {
    ++all;
    rounds = std::max(rounds, segments[summed].round + 1);
    for (const int rank : segments[summed].ranks) {
      ++of_rank[rank];
      EXPECT_TRUE(busy.insert({rank, segments[summed].round}).second) << rank;
    }
  }
  int most = 0;
  for (const auto& [rank, count] : of_rank) {
    most = std::max(most, count);
  }
  EXPECT_GE(rounds, most);
  EXPECT_LE(rounds, 2 * most) << "not all in a row";
  EXPECT_LT(rounds, all / 2);
}

TEST(Segments, of_alike_pipelines_are_summed_from_last_to_first) {
  const ModelConfig model = small_model(true, 12);
  const Plan plan = plan_of_splits({{4, 4, 4}, {4, 4, 4}}, false);
  const std::vector<Segment> segments = segments_of(plan, model);
  for (int rank = 0; rank < plan.world_size(); ++rank) {
    const std::vector<Holding> held = holdings_of(segments, rank);
    const std::vector<int> buckets = buckets_of(segments, held);
    EXPECT_GT(buckets.size(), 2);
    EXPECT_TRUE(std::is_sorted(buckets.rbegin(), buckets.rend())) << rank;
  }
}

TEST(Segments, that_several_kinds_hold_are_summed_inside_each_first) {
  const ModelConfig model = small_model(false, 4);
  for (const Segment& segment :
       segments_of(plan_of_splits({{4}, {4}, {4}, {4}, {4}}, true), model)) {
    EXPECT_EQ(segment.kinds, (std::vector<std::vector<int>>{{1, 3}, {0, 2, 4}}));
    EXPECT_EQ(gradient_algorithm(segment).name, "hierarchical_reduce_scatter");
    EXPECT_EQ(parameter_algorithm(segment).name, "hierarchical_all_gather");
  }
  for (const Segment& segment : segments_of(plan_of_splits({{4}, {4}}, true), model)) {
    EXPECT_TRUE(segment.kinds.empty()) << "one of each: a ring sends as much over each link";
    EXPECT_EQ(gradient_algorithm(segment).name, "ring_reduce_scatter");
  }
}

// The other way: with the steps that the collectives have.
TEST(SegmentScratch, is_what_the_algorithms_of_a_segment_need_however_many_hold_it) {
  SegmentScratch scratch;
  for (int ranks = 2; ranks <= 12; ++ranks) {
    Segment segment{.elements = 1000 + ranks, .owned = even_chunks(1000 + ranks, ranks)};
    for (int rank = 0; rank < ranks; ++rank) {
      segment.ranks.push_back(rank);
    }
    for (int first = 0; first < ranks; ++first) {  // ranks of a first kind, if there are two
      segment.kinds.assign(first > 0 ? 2 : 0, {});
      for (int rank = 0; first > 0 && rank < ranks; ++rank) {
        segment.kinds[rank < first ? 0 : 1].push_back(rank);
      }
      const std::int64_t needed =
          std::max(scratch_elements(gradient_algorithm(segment), segment.owned),
                   scratch_elements(parameter_algorithm(segment), segment.owned));
      EXPECT_EQ(scratch.bytes_of(segment), 4 * needed) << ranks << ' ' << first;
    }
  }
}

// Every kind of group op in wide and narrow numbers, whose sums take other algorithms.

TEST(GroupOps, a_workspace_holds_what_the_collective_needs_of_every_kind_and_dtype) {
  for (const GroupKind kind :
       {GroupKind::kAllReduce, GroupKind::kAllGather, GroupKind::kReduceScatter}) {
    for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
      for (int ranks = 1; ranks <= 9; ++ranks) {
        for (const std::int64_t part : {1, 7, 64, 1000}) {
          const std::int64_t whole = part * ranks;
          const GroupStart op{.kind = kind,
                              .in_count = kind == GroupKind::kAllGather ? part : whole,
                              .out_count = kind == GroupKind::kReduceScatter ? part : whole,
                              .ranks = ranks};
          Program program;
          const int x = program.add_value("x", {dtype, {op.in_count}});
          append(program, program.forward, {"sum", dtype, op}, {x}, 0);
          reserve_group_scratch(program);
          const CollectiveAlgorithm algorithm = group_algorithm(op, dtype);
          const std::int64_t needed = scratch_elements(algorithm, group_chunks(op)) +
                                      (kind == GroupKind::kReduceScatter ? whole : 0);
          EXPECT_EQ(facts_of(program.forward.front().op).workspace_bytes, needed * size_of(dtype));
          const bool sums = kind != GroupKind::kAllGather;
          EXPECT_TRUE(!sums || dtype == DType::kF32 || ranks <= 2 || algorithm.rounds_once);
        }
      }
    }
  }
}

TEST(RankPlan, a_schedule_that_gives_positions_to_other_workers_than_the_plan_is_refused) {
  const ModelConfig model = small_model();
  const Plan plan = small_plan(false);
  Schedule schedule = schedule_of(plan, 0);
  EXPECT_NO_THROW(make_rank_plan(plan, model, segments_of(plan, model), {}, schedule));
  std::swap(schedule.worker_of[0][0], schedule.worker_of[0][1]);
  EXPECT_THROW(make_rank_plan(plan, model, segments_of(plan, model), {}, schedule), Error);
}

// Every element of every tensor is updated by exactly one rank.
TEST(RankPlan, each_element_has_one_owner) {
  for (const bool tied : {false, true}) {
    for (const std::int64_t bucket : {1 << 14, 64 << 20}) {
      const ModelConfig model = small_model(tied);
      Plan plan = small_plan(true);
      plan.bucket_bytes = bucket;
      const auto segments = segments_of(plan, model);
      std::map<std::string, std::int64_t> owned;
      std::set<std::pair<std::string, std::int64_t>> starts;
      for (int rank = 0; rank < 3; ++rank) {
        const RankPlan made = make_rank_plan(plan, model, segments, rank);
        for (const OwnedPiece& piece : made.owned) {
          owned[piece.slice.tensor.name] += piece.slice.count;
          EXPECT_TRUE(starts.insert({piece.slice.tensor.name, piece.slice.first}).second);
        }
      }
      for (const ModelTensor& tensor : tensors_of(model)) {
        EXPECT_EQ(owned[tensor.name], tensor.elements()) << tensor.name;
      }
    }
  }
}

TEST(RankPlan, pieces_lie_where_their_parameters_do) {
  const ModelConfig model = small_model(true);
  const Plan plan = small_plan(true);
  const auto segments = segments_of(plan, model);
  for (int rank = 0; rank < 3; ++rank) {
    const RankPlan made = make_rank_plan(plan, model, segments, rank);
    for (const OwnedPiece& piece : made.owned) {
      const int parameter = made.programs.front().find(piece.slice.tensor.name);
      EXPECT_EQ(made.memory.offset_of(0, parameter, 0) + piece.slice.first * 4,
                piece.parameters.offset);
      EXPECT_EQ(piece.gradients.offset - made.gradients.offset,
                piece.parameters.offset - made.parameters.offset);
    }
    for (const HeldSegment& held : made.segments) {
      const int first =
          made.programs.front().find(segments[held.segment].parts.front().tensor.name);
      EXPECT_EQ(held.parameters.offset, made.memory.offset_of(0, first, 0));
      EXPECT_EQ(held.gradients.offset,
                made.memory.offset_of(0, made.programs.front().gradient_of(first), 0));
    }
  }
}

TEST(RankPlan, little_of_the_arena_is_wasted) {
  for (const char* schedule : {"gpipe", "1f1b"}) {
    for (const bool recompute : {false, true}) {
      for (const int layers : {4, 12}) {
        const ModelConfig model = small_model(false, layers);
        Plan plan = small_plan(true);
        plan.schedule = schedule;
        plan.pipelines[0].stages[0].layers[0].end = layers - 1;
        plan.pipelines[0].stages[1].layers[0] = {layers - 1, layers};
        plan.pipelines[1].stages[0].layers[0].end = layers;
        if (recompute) {
          plan.pipelines[1].stages[0].recompute = {{Recompute::kFull, {0, layers}}};
          plan.pipelines[0].stages[0].recompute = {{Recompute::kSelective, {0, layers - 1}}};
        }
        const auto segments = segments_of(plan, model);
        for (int rank = 0; rank < 3; ++rank) {
          const MemoryPlan memory = make_rank_plan(plan, model, segments, rank).memory;
          EXPECT_GE(memory.arena_bytes, memory.live_bytes);
          EXPECT_LE(memory.arena_bytes, 1.10 * memory.live_bytes)
              << schedule << " rank " << rank << " layers " << layers;
        }
      }
    }
  }
}

TEST(RankPlan, recompute_shrinks_the_arena) {
  const ModelConfig model = small_model(false, 12);
  Plan plan{.sequence_length = 64, .global_batch = 16, .schedule = "gpipe"};
  plan.pipelines.push_back(
      {.micro_batch_size = 4, .micro_batches = 4, .stages = {stage_on("cpu", 0, 0, 12)}});
  std::map<Recompute, std::int64_t> bytes;
  for (const Recompute kind : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
    plan.pipelines[0].stages[0].recompute = {{kind, {0, 12}}};
    bytes[kind] = make_rank_plan(plan, model, segments_of(plan, model), 0).memory.arena_bytes;
  }
  EXPECT_LT(bytes[Recompute::kFull], bytes[Recompute::kSelective]);
  EXPECT_LT(bytes[Recompute::kSelective], bytes[Recompute::kNone]);
}

std::vector<Op> step_ops(const RankPlan& plan) {
  std::vector<Op> ops;
  for (const Program& program : plan.programs) {
    for (const auto* list : {&program.forward, &program.backward, &program.backward_weight}) {
      for (const Instruction& one : *list)
        ops.push_back(one.op);
    }
  }
  for (const auto* list :
       {&plan.check_ops, &plan.norm_ops, &plan.update_ops, &plan.copy_ops, &plan.zero_ops}) {
    for (const StepOp& one : *list)
      ops.push_back(one.op);
  }
  return ops;
}

// Three pipelines of four stages, the last with recompute; each takes `more` micro-batches more
// than the one before.
Plan alike_plan(const std::string& schedule, int micro_batches, int more) {
  Plan plan{.sequence_length = 32, .schedule = schedule, .bucket_bytes = 1 << 16};
  for (int pipeline = 0; pipeline < 3; ++pipeline) {
    const int at = 4 * pipeline;
    plan.pipelines.push_back(
        {.micro_batch_size = 1,
         .micro_batches = micro_batches + more * pipeline,
         .stages = {stage_on("a", at, 0, 2), stage_on("a", at + 1, 2, 3),
                    stage_on("b", at + 2, 3, 4), stage_on("a", at + 3, 4, 6)}});
    plan.global_batch += plan.pipelines.back().sequences();
  }
  plan.pipelines[2].stages[0].recompute = {{Recompute::kFull, {0, 1}}};
  return plan;
}

void expect_like_their_own(const Plan& plan, const ModelConfig& model) {
  const auto segments = segments_of(plan, model);
  const RankPlans plans = distinct_rank_plans(plan, model, segments);
  for (int rank = 0; rank < plan.world_size(); ++rank) {
    SCOPED_TRACE(text(plan.schedule, " rank ", rank));
    const RankPlan own = make_rank_plan(plan, model, segments, rank);
    const RankPlan& shared = plans.of(rank);
    EXPECT_EQ(shared.kind, own.kind);
    EXPECT_EQ(shared.memory.arena_bytes, own.memory.arena_bytes);
    const std::vector<Op> found = step_ops(shared);
    const std::vector<Op> expected = step_ops(own);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t op = 0; op < found.size(); ++op) {
      EXPECT_TRUE(same_work(found[op], expected[op])) << expected[op].name;
    }
    ASSERT_EQ(shared.buckets.size(), own.buckets.size());
    for (std::size_t bucket = 0; bucket < own.buckets.size(); ++bucket) {
      const BucketReady& a = shared.buckets[bucket].ready;
      const BucketReady& b = own.buckets[bucket].ready;
      EXPECT_EQ(std::tuple(a.program, a.micro_batch, a.phase, a.instruction),
                std::tuple(b.program, b.micro_batch, b.phase, b.instruction));
      if (b.program >= 0) {
        EXPECT_EQ(shared.positions[a.program], own.positions[b.program]);
      }
    }
  }
}

TEST(AlikeRanks, have_the_arena_and_the_ops_of_their_own_rank_plans) {
  const ModelConfig model = small_model(true, 6);
  for (const char* schedule : {"1f1b", "gpipe", "zero-bubble"}) {
    for (const int micro_batches : {1, 3, 8}) {
      expect_like_their_own(alike_plan(schedule, micro_batches, 0), model);
    }
  }
  Plan narrow = alike_plan("1f1b", 3, 0);
  narrow.dtype = "bf16";
  expect_like_their_own(narrow, model);
}

// Uneven experts, and biases whose gradients one rank of a group makes.
TEST(AlikeRanks, of_tensor_parallel_groups_are_alike_in_every_family) {
  const std::string sizes = R"(,"vocab_size":67,"hidden_size":64,"intermediate_size":176,
    "num_attention_heads":4,"num_key_value_heads":4,"num_hidden_layers":4,
    "max_position_embeddings":64,"num_local_experts":3})";
  const std::vector<std::string> models = {
      R"({"model_type":"gpt2","vocab_size":67,"n_embd":64,"n_layer":4,"n_head":4,"n_positions":64})",
      R"({"model_type":"llama")" + sizes.substr(0, sizes.rfind(',')) + "}",
      R"({"model_type":"mixtral")" + sizes};
  for (const std::string& model : models) {
    for (const bool sequence : {false, true}) {
      Plan plan{.sequence_length = 32, .global_batch = 4, .sequence_parallel = sequence};
      plan.bucket_bytes = 4;  // each tensor alone, so that the ranks own alike
      Stage first{.kind = "a", .ranks = {0, 1}, .tensor_parallel = 2, .layers = {{0, 2}}};
      Stage second{.kind = "a", .ranks = {2, 3}, .tensor_parallel = 2, .layers = {{2, 4}}};
      plan.pipelines = {{.micro_batch_size = 2, .micro_batches = 2, .stages = {first, second}}};
      SCOPED_TRACE(text(model, sequence));
      expect_like_their_own(plan, parse_model(model, "c"));
    }
  }
}

TEST(AlikeRanks, have_buckets_that_are_ready_at_the_same_time) {
  const ModelConfig model = small_model(true, 6);
  for (const char* schedule : {"1f1b", "gpipe", "zero-bubble"}) {
    for (const int micro_batches : {1, 3}) {
      Plan plan = alike_plan(schedule, micro_batches, 2);
      plan.overlap = true;
      expect_like_their_own(plan, model);
    }
  }
}

}  // namespace
}  // namespace hethub

// What a user sees of runs that resume, skip and save, with real processes as ranks.

#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "tests/processes/program.h"

namespace hethub {
namespace {

constexpr const char* kTrain = " -- train --data text --held-out-fraction 0 --lr 1e-3 ";

// Which samples were read, by their number in the stream.
std::map<std::int64_t, std::int64_t> samples_of(const Workspace& space, const std::string& name) {
  std::map<std::int64_t, std::int64_t> read;
  for (int rank = 0; rank < 4; ++rank) {
    std::ifstream in(space.path(text(name, ".rank-", rank)));
    for (std::int64_t sample = 0, id = 0; in >> sample >> id;) {
      read[sample] = id;
    }
  }
  return read;
}

TEST(Training, replicas_are_checked_bit_by_bit_and_sgd_does_not_go_on_as_adamw) {
  const Workspace space("replicas");
  space.make_data(16);
  space.write_plan("plan.json", {replica_of("cpu", 0, 1, 1), replica_of("cpu", 1, 1, 1)});
  const std::string train =
      "launch --plan plan.json -- train --data text --checkpoint-dir saved "
      "--resume auto --verify-replicas --lr-schedule wsd --decay-steps 1 ";
  const Outcome first = space.hethub(train + "--optimizer sgd --steps 2");
  ASSERT_EQ(first.status, 0) << first.output;
  EXPECT_TRUE(first.says("are bit-equal on all their ranks")) << first.output;
  const Outcome other = space.hethub(train + "--optimizer adamw --steps 3");
  EXPECT_NE(other.status, 0);
  EXPECT_TRUE(other.says("expected sgd, as the run began")) << other.output;
}

TEST(Resume, goes_on_with_the_next_sample_and_the_same_bits_across_an_epoch) {
  const Workspace space("resume");
  space.make_data(64);  // 16 steps of 4 are an epoch
  space.write_plan("plan.json", {replica_of("cpu", 0, 1, 2), replica_of("cpu", 1, 2, 1)});
  const std::string train = std::string("launch --plan plan.json") + kTrain +
                            "--steps 24 --checkpoint-every 1 --keep-last 3 ";
  ASSERT_EQ(space
                .hethub(train + "--checkpoint-dir whole --log-json whole.jsonl "
                                "--log-samples whole")
                .status,
            0);
  const Outcome killed =
      space.hethub(train +
                   "--checkpoint-dir parts --log-json parts.jsonl --log-samples before "
                   "--inject kill:after=ckpt_bytes:50%,step=20");
  EXPECT_NE(killed.status, 0);
  const Outcome resumed = space.hethub(train +
                                       "--checkpoint-dir parts --log-json parts.jsonl "
                                       "--log-samples after --resume auto");
  ASSERT_EQ(resumed.status, 0) << resumed.output;
  EXPECT_TRUE(resumed.says("resumed from step-00000019 at step 19")) << resumed.output;
  EXPECT_TRUE(resumed.says("ignored step-20: incomplete (no COMMIT)")) << resumed.output;
  const auto whole = steps_of(space.path("whole.jsonl"));
  const auto parts = steps_of(space.path("parts.jsonl"));
  ASSERT_EQ(whole.size(), 24U);
  ASSERT_EQ(parts.size(), 24U);
  for (const auto& [step, line] : whole) {
    EXPECT_EQ(line["loss"], parts.at(step)["loss"]) << step;
    EXPECT_EQ(line["grad_norm"], parts.at(step)["grad_norm"]) << step;
  }
  const auto all = samples_of(space, "whole");
  const auto after = samples_of(space, "after");
  EXPECT_EQ(all.size(), 96U);
  EXPECT_EQ(after.size(), 20U);  // steps 19 to 23
  for (const auto& [sample, id] : after) {
    EXPECT_EQ(all.at(sample), id);
  }
  std::set<std::int64_t> epoch;
  for (std::int64_t sample = 0; sample < 64; ++sample) {
    epoch.insert(all.at(sample));
  }
  EXPECT_EQ(epoch.size(), 64U);
}

// Plans of one global batch that have as little as possible in common.
void write_plans(const Workspace& space) {
  space.write_plan("two.json", {replica_of("cpu", 0, 1, 2), replica_of("cpu", 1, 2, 1)});
  space.write_plan("one.json", {replica_of("cpu", 0, 4, 1)});
  space.write_plan("four.json", {replica_of("cpu", 0, 1, 1), replica_of("cpu", 1, 1, 1),
                                 replica_of("cpu", 2, 1, 1), replica_of("cpu", 3, 1, 1)});
  space.write_plan("stages.json",
                   {{.micro_batch_size = 2,
                     .micro_batches = 2,
                     .stages = {stage_of("cpu", 0, 0, 1), stage_of("opencl", 1, 1, 4)}}});
  space.write_plan(
      "split.json",
      {{.micro_batches = 4, .stages = {stage_of("opencl", 0, 0, 2), stage_of("cpu", 1, 2, 4)}}},
      "zero-bubble");
  space.write_plan("virtual.json",
                   {{.micro_batches = 4,
                     .stages = {{.kind = "cpu", .ranks = {0}, .layers = {{0, 1}, {2, 3}}},
                                {.kind = "opencl", .ranks = {1}, .layers = {{1, 2}, {3, 4}}}}}},
                   "interleaved");
  space.write_plan(
      "wide.json",  // layers shared by two ranks, then by two copies of one
      {{.micro_batch_size = 2,
        .micro_batches = 2,
        .stages = {{.kind = "cpu", .ranks = {0, 1}, .tensor_parallel = 2, .layers = {{0, 2}}},
                   {.kind = "opencl", .ranks = {2, 3}, .layers = {{2, 4}}}}}});
}

// Stops a run under plan `first` half-way and ends it under each of `others`.
void resume_under(const Workspace& space, const std::string& first,
                  const std::vector<std::string>& others) {
  ASSERT_EQ(space
                .hethub(text("launch --plan ", first, ".json", kTrain,
                             "--lr-schedule constant --steps 6 --checkpoint-every 3 ",
                             "--checkpoint-dir ", first, "-c --log-json ", first,
                             ".jsonl --log-samples ", first))
                .status,
            0);
  const auto whole = steps_of(space.path(first + ".jsonl"));
  const auto ids = samples_of(space, first);
  ASSERT_EQ(whole.size(), 6U);
  for (const std::string& under : others) {
    const std::string other = text(first, "-", under);
    const Outcome outcome = space.hethub(
        text("launch --plan ", under, ".json", kTrain, "--lr-schedule constant --steps 6 --resume ",
             first, "-c/step-00000003 --log-json ", other, ".jsonl --log-samples ", other));
    ASSERT_EQ(outcome.status, 0) << outcome.output;
    const auto steps = steps_of(space.path(other + ".jsonl"));
    ASSERT_EQ(steps.size(), 3U) << other;
    for (const auto& [step, line] : steps) {
      const double expected = whole.at(step)["loss"];
      const double tolerance = under == first ? 0 : 1e-5 * expected;  // one plan: the same bits
      EXPECT_NEAR(line["loss"].get<double>(), expected, tolerance) << other << step;
    }
    for (const auto& [sample, id] : samples_of(space, other)) {
      EXPECT_EQ(ids.at(sample), id);
    }
  }
}

TEST(Resume, works_under_any_other_plan) {
  const Workspace space("replan");
  space.make_data(64);
  write_plans(space);
  resume_under(space, "two", {"one", "four", "stages", "split", "virtual"});
  resume_under(space, "virtual", {"one", "split", "virtual", "wide"});
  resume_under(space, "wide", {"one", "split", "wide"});
}

TEST(Resume, an_explicit_checkpoint_that_was_never_committed_is_refused) {
  const Workspace space("incomplete");
  space.make_data(32);
  space.write_plan("plan.json", {replica_of("cpu", 0, 2, 1)});
  const std::string train =
      "train --plan plan.json --data text --held-out-fraction 0 --steps 20 "
      "--checkpoint-dir c --checkpoint-every 10 ";
  EXPECT_NE(space.hethub(train + "--inject kill:after=ckpt_bytes:50%,step=20").status, 0);
  const Outcome named = space.hethub(train + "--resume c/step-20");
  EXPECT_EQ(named.status, 65) << named.output;
  EXPECT_TRUE(named.says("incomplete (no COMMIT)")) << named.output;
  const Outcome latest = space.hethub(train + "--resume auto");
  EXPECT_EQ(latest.status, 0);
  EXPECT_TRUE(latest.says("at step 10")) << latest.output;
  EXPECT_EQ(space.hethub("checkpoint verify c/step-20").status, 0);
}

TEST(Skipping, all_ranks_skip_the_step_in_which_one_has_a_nan) {
  const Workspace space("nan");
  space.make_data(64);
  space.write_plan("plan.json", {replica_of("cpu", 0, 1, 2), replica_of("cpu", 1, 1, 2)});
  const std::string train =
      std::string("launch --plan plan.json") + kTrain + "--steps 8 --log-json log.jsonl ";
  const Outcome outcome = space.hethub(train + "--inject nan_grad:rank=1,step=3");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_TRUE(outcome.says("skipped=1 reason=nonfinite rank=1 param=")) << outcome.output;
  const auto steps = steps_of(space.path("log.jsonl"));
  ASSERT_EQ(steps.size(), 8U);
  for (const auto& [step, line] : steps) {
    EXPECT_EQ(line["skipped"], step == 3 ? 1 : 0);
  }
}

TEST(Skipping, five_in_a_row_end_the_run_with_the_same_text_everywhere) {
  const Workspace space("nans");
  space.make_data(64);
  space.write_plan("plan.json", {replica_of("cpu", 0, 1, 2), replica_of("cpu", 1, 1, 2)});
  const Outcome outcome =
      space.hethub(std::string("launch --plan plan.json --log-dir logs") + kTrain +
                   "--steps 20 --inject nan_grad:rank=1,step=3,last=20");
  EXPECT_EQ(outcome.status, 70) << outcome.output;
  for (const int rank : {0, 1}) {
    const std::string log = read_file(space.path(text("logs/rank-", rank, ".log")));
    EXPECT_NE(log.find("5 skipped steps in a row, the last at step 7"), std::string::npos) << log;
  }
}

// Loss and norm of the first step, for a tied model under several layouts.
TEST(TiedModel, has_one_loss_and_norm_under_every_layout_and_exports_no_head) {
  const Workspace space("tied");
  space.make_data(32);
  space.write("config.json", Workspace::config(R"(,"tie_word_embeddings":true)"));
  space.write_plan("a.json", {replica_of("cpu", 0, 4, 1)});
  space.write_plan("b.json", {replica_of("cpu", 0, 1, 2), replica_of("cpu", 1, 2, 1)});
  space.write_plan("c.json", {{.micro_batches = 4,
                               .stages = {stage_of("cpu", 0, 0, 2), stage_of("cpu", 1, 2, 4)}}});
  space.write_plan("d.json", {{.micro_batches = 4,
                               .stages = {stage_of("cpu", 0, 0, 1), stage_of("cpu", 1, 1, 2),
                                          stage_of("cpu", 2, 2, 3), stage_of("cpu", 3, 3, 4)}}});
  Json first;
  for (const std::string plan : {"a", "b", "c", "d"}) {
    const Outcome outcome =
        space.hethub(text("launch --plan ", plan, ".json", kTrain, "--grad-clip 1 --steps 3 ",
                          "--checkpoint-dir ", plan, " --log-json ", plan, ".jsonl"));
    ASSERT_EQ(outcome.status, 0) << outcome.output;
    const Json step = steps_of(space.path(plan + ".jsonl")).at(1);
    if (first.is_null()) first = step;
    for (const char* number : {"loss", "grad_norm"}) {
      const double expected = first[number];
      EXPECT_NEAR(step[number].get<double>(), expected, 1e-5 * expected) << plan << number;
    }
  }
  const Outcome exported = space.hethub("checkpoint export d -o hf");
  ASSERT_EQ(exported.status, 0) << exported.output;
  EXPECT_FALSE(space.hethub("checkpoint inspect hf").says("lm_head"));
  EXPECT_TRUE(space.hethub("checkpoint inspect hf").says("model.embed_tokens.weight"));
  const Outcome again = space.hethub(std::string("launch --plan c.json") + kTrain +
                                     "--steps 1 --init-from hf --log-json again.jsonl");
  EXPECT_EQ(again.status, 0) << again.output;
}

}  // namespace
}  // namespace hethub

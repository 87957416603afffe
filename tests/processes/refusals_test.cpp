// What would lose a run, mix two, or end in the middle is refused before the first step.

#include <functional>

#include <gtest/gtest.h>

#include "tests/processes/program.h"

namespace hethub {
namespace {

class Refusals : public testing::Test {
 protected:
  Refusals() : space_(testing::UnitTest::GetInstance()->current_test_info()->name()) {
    space_.make_data(16);
    space_.write_plan("plan.json", {replica_of("cpu", 0, 2, 1)});
  }

  Outcome train(const std::string& more) {
    return space_.hethub("train --plan plan.json --data text --held-out-fraction 0 " + more);
  }

  // A run of two steps with a checkpoint of each.
  void save_two_steps() {
    const Outcome saved = train("--steps 2 --checkpoint-every 1 --checkpoint-dir c");
    ASSERT_EQ(saved.status, 0) << saved.output;
  }

  // Changes a byte of a step's only shard, counted from the end if `at` is negative.
  void damage(int step, std::int64_t at) {
    const std::string file = space_.path(text("c/step-0000000", step, "/shard-0.safetensors"));
    std::string content = read_file(file);
    char& byte = content[at < 0 ? content.size() - static_cast<std::size_t>(-at)
                                : static_cast<std::size_t>(at)];
    byte = static_cast<char>(byte ^ 1);
    write_file(file, content);
  }

  bool trained() { return std::filesystem::exists(space_.path("log.jsonl")); }

  Workspace space_;
};

TEST_F(Refusals, a_damaged_newest_checkpoint_is_passed_over_aloud_by_resume_auto) {
  for (const std::int64_t byte : {-1, 20}) {  // of the data, of the header
    std::filesystem::remove_all(space_.path("c"));
    save_two_steps();
    damage(2, byte);
    const Outcome resumed =
        train("--steps 3 --checkpoint-dir c --resume auto --log-json log.jsonl");
    EXPECT_EQ(resumed.status, 0) << resumed.output;
    EXPECT_TRUE(resumed.says("ignored step-2: ")) << resumed.output;
    EXPECT_TRUE(resumed.says("shard-0.safetensors")) << resumed.output;
    EXPECT_TRUE(resumed.says("resumed from step-00000001 at step 1")) << resumed.output;
    EXPECT_EQ(steps_of(space_.path("log.jsonl")).begin()->first, 2);
    std::filesystem::remove(space_.path("log.jsonl"));
  }
}

TEST_F(Refusals, a_damaged_checkpoint_that_was_named_is_refused_with_its_shard) {
  save_two_steps();
  damage(2, -1);
  const Outcome resumed = train("--steps 3 --resume c/step-2 --log-json log.jsonl");
  EXPECT_EQ(resumed.status, 65) << resumed.output;
  EXPECT_TRUE(resumed.says("shard-0.safetensors: checksum")) << resumed.output;
  EXPECT_FALSE(trained());
}

TEST_F(Refusals, a_run_whose_checkpoints_are_all_damaged_does_not_begin_anew) {
  save_two_steps();
  damage(1, -1);
  damage(2, -1);
  const Outcome resumed = train("--steps 3 --checkpoint-dir c --resume auto --log-json log.jsonl");
  EXPECT_EQ(resumed.status, 65) << resumed.output;
  EXPECT_TRUE(resumed.says("damage in each of 2 checkpoints")) << resumed.output;
  EXPECT_FALSE(trained());
}

TEST_F(Refusals, resuming_with_another_seed_names_both) {
  save_two_steps();
  for (const char* from : {"auto", "c/step-1"}) {
    const Outcome resumed =
        train(text("--steps 3 --seed 41 --checkpoint-dir c --log-json log.jsonl --resume ", from));
    EXPECT_EQ(resumed.status, 78) << resumed.output;
    EXPECT_TRUE(resumed.says("--seed, found 41, expected 0, that of c/step-0")) << resumed.output;
    EXPECT_FALSE(trained());
  }
}

TEST_F(Refusals, resuming_with_other_samples_is_refused_unless_it_is_asked_for) {
  save_two_steps();
  space_.write("other.txt", std::string(5000, 'z') + "\n");
  ASSERT_EQ(space_.hethub("data tokenize --input other.txt --tokenizer bytes -o other").status, 0);
  const std::string resume =
      "train --plan plan.json --data other --held-out-fraction 0 --steps 3 --checkpoint-dir c "
      "--log-json log.jsonl --resume auto";
  const Outcome refused = space_.hethub(resume);
  EXPECT_EQ(refused.status, 78) << refused.output;
  EXPECT_TRUE(refused.says("other training samples")) << refused.output;
  EXPECT_FALSE(trained());
  const Outcome resumed = space_.hethub(resume + " --other-data");
  EXPECT_EQ(resumed.status, 0) << resumed.output;
  EXPECT_TRUE(trained());
}

TEST_F(Refusals, a_resume_into_another_runs_folder_is_refused) {
  save_two_steps();
  ASSERT_EQ(train("--steps 2 --checkpoint-every 1 --checkpoint-dir d").status, 0);
  const Outcome refused =
      train("--steps 3 --checkpoint-dir d --resume c/step-2 --log-json log.jsonl");
  EXPECT_EQ(refused.status, 78) << refused.output;
  EXPECT_TRUE(refused.says("checkpoints of another run")) << refused.output;
  EXPECT_FALSE(trained());
}

TEST_F(Refusals, resuming_with_another_model_names_what_differs_in_both) {
  save_two_steps();
  space_.write("config.json", Workspace::config(R"(,"rope_theta":5e5,"num_key_value_heads":2)"));
  const Outcome resumed = train("--steps 3 --checkpoint-dir c --resume auto --log-json log.jsonl");
  EXPECT_EQ(resumed.status, 78) << resumed.output;
  EXPECT_TRUE(resumed.says("another model")) << resumed.output;
  EXPECT_TRUE(resumed.says("num_key_value_heads (4, not 2)")) << resumed.output;
  EXPECT_TRUE(resumed.says("rope_theta (10000, not 500000)")) << resumed.output;
  EXPECT_FALSE(trained());
}

TEST_F(Refusals, a_new_run_in_the_folder_of_another_is_refused) {
  save_two_steps();
  const Outcome outcome = train("--steps 2 --checkpoint-dir c --log-json log.jsonl");
  EXPECT_EQ(outcome.status, 78) << outcome.output;
  EXPECT_TRUE(outcome.says("checkpoints of another run, up to step 2")) << outcome.output;
  EXPECT_TRUE(outcome.says("--resume auto")) << outcome.output;
  EXPECT_FALSE(trained());
}

TEST_F(Refusals, a_trace_that_cannot_be_written_is_found_before_the_first_step) {
  space_.write_plan("two.json", {replica_of("cpu", 0, 1, 1), replica_of("cpu", 1, 1, 1)});
  const std::string more =
      "--data text --held-out-fraction 0 --steps 2 --trace nowhere/trace.json --log-json log.jsonl";
  for (const std::string& command :
       {"train --plan plan.json " + more, "launch --plan two.json -- train " + more}) {
    const Outcome outcome = space_.hethub(command);
    EXPECT_EQ(outcome.status, 73) << outcome.output;
    EXPECT_TRUE(outcome.says("nowhere/trace.json")) << outcome.output;
    EXPECT_FALSE(trained());
  }
}

TEST_F(Refusals, a_list_of_samples_that_cannot_be_written_is_found_before_the_first_step) {
  const Outcome outcome = train("--steps 2 --log-samples nowhere/samples --log-json log.jsonl");
  EXPECT_EQ(outcome.status, 73) << outcome.output;
  EXPECT_TRUE(outcome.says("nowhere/samples.rank-0")) << outcome.output;
  EXPECT_FALSE(trained());
}

TEST_F(Refusals, a_kind_that_no_backend_opens_is_refused_before_any_rank_starts) {
  space_.write_plan("mixed.json", {replica_of("cpu", 0, 1, 1), replica_of("npu", 1, 1, 1)});
  const std::string more = "--data text --steps 2 --log-json log.jsonl";
  for (const std::string& command :
       {"launch --plan mixed.json -- train " + more, "train --plan mixed.json --dry-run " + more}) {
    const Outcome outcome = space_.hethub(command);
    EXPECT_EQ(outcome.status, 78) << outcome.output;
    EXPECT_TRUE(outcome.says("kind npu, found backend 'npu'")) << outcome.output;
    EXPECT_TRUE(outcome.says("one of its backends: cpu")) << outcome.output;
    EXPECT_TRUE(outcome.says("--cluster")) << outcome.output;
    EXPECT_FALSE(outcome.says("[rank")) << outcome.output;
    EXPECT_FALSE(trained());
  }
}

TEST_F(Refusals, a_cluster_file_says_what_opens_a_kind) {
  const auto write_cluster = [&](const std::string& backend) {
    space_.write("cluster.yaml", "format: hethub-cluster/1\nkinds:\n  npu: {backend: " + backend +
                                     ", memory_gib: 8}\nnodes:\n  - {name: a, devices: [{kind: "
                                     "npu, count: 1}]}\n");
  };
  space_.write_plan("plan.json", {replica_of("npu", 0, 2, 1)});
  const std::string launch =
      "launch --plan plan.json -- train --data text --held-out-fraction 0 --steps 2 --cluster";
  write_cluster("cpu");
  EXPECT_EQ(train("--steps 2 --dry-run --cluster cluster.yaml").status, 0);
  for (const char* space : {" ", "="}) {
    const Outcome outcome = space_.hethub(launch + space + "cluster.yaml");
    EXPECT_EQ(outcome.status, 0) << outcome.output;
  }
  write_cluster("tpu");
  const Outcome outcome = space_.hethub(launch + " cluster.yaml");
  EXPECT_EQ(outcome.status, 78) << outcome.output;
  EXPECT_TRUE(outcome.says("kind npu, found backend 'tpu'")) << outcome.output;
  EXPECT_TRUE(outcome.says("in cluster.yaml")) << outcome.output;
  EXPECT_FALSE(outcome.says("[rank")) << outcome.output;
}

TEST_F(Refusals, verify_and_profile_refuse_a_backend_that_was_not_built) {
  const std::string golden = HETHUB_TEST_DATA "/golden/llama";
  for (const std::string& command :
       {"verify " + golden + " --backend npu",
        std::string("profile --model config.json --backends npu -o costs.json")}) {
    const Outcome outcome = space_.hethub(command);
    EXPECT_EQ(outcome.status, 78) << outcome.output;
    EXPECT_TRUE(outcome.says("kind npu, found backend 'npu'")) << outcome.output;
  }
}

TEST_F(Refusals, a_strategy_that_is_unknown_is_a_wrong_command_line) {
  const Outcome outcome = space_.hethub(
      "plan --model config.json --cluster cluster.yaml --global-batch 2 --sequence-length 32 "
      "-o out.json --strategy magic");
  EXPECT_EQ(outcome.status, 64) << outcome.output;
  EXPECT_TRUE(outcome.says("found magic, expected exact")) << outcome.output;
}

TEST_F(Refusals, ranks_of_several_hosts_need_a_secret) {
  space_.write_plan("two.json", {replica_of("cpu", 0, 1, 1), replica_of("cpu", 1, 1, 1)});
  const std::string without =
      text("cd ", space_.path("."), " && env -u HETHUB_SECRET -u HETHUB_SECRET_FILE ");
  const std::string train = " train --plan two.json --data text --steps 2";
  const Outcome launch = run_command(
      text(without, HETHUB_PROGRAM,
           " launch --plan two.json --ranks 0 --port 29517 -- train --data text --steps 2"));
  EXPECT_EQ(launch.status, 78) << launch.output;
  EXPECT_TRUE(launch.says("HETHUB_SECRET_FILE")) << launch.output;
  const Outcome rank =
      run_command(text(without, "RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29517 ",
                       HETHUB_PROGRAM, train));
  EXPECT_EQ(rank.status, 78) << rank.output;
  EXPECT_TRUE(rank.says("HETHUB_SECRET_FILE")) << rank.output;
}

TEST_F(Refusals, verify_says_no_if_the_newest_checkpoint_is_broken_and_names_the_good_one) {
  const std::string newest = space_.path("c/step-00000002");
  const std::vector<std::function<void()>> breakages = {
      [&] { damage(2, -1); }, [&] { damage(2, 20); },
      [&] { std::filesystem::remove(newest + "/shard-0.safetensors"); },
      [&] { std::filesystem::remove(newest + "/manifest.json"); }};
  for (const auto& breakage : breakages) {
    std::filesystem::remove_all(space_.path("c"));
    save_two_steps();
    EXPECT_EQ(space_.hethub("checkpoint verify c").status, 0);
    breakage();
    const Outcome outcome = space_.hethub("checkpoint verify c");
    EXPECT_EQ(outcome.status, 1) << outcome.output;
    EXPECT_TRUE(outcome.says("c/step-00000002: ")) << outcome.output;
    EXPECT_TRUE(outcome.says("the newest good one is step 1")) << outcome.output;
    const Outcome json = space_.hethub("checkpoint verify c --json");
    EXPECT_EQ(json.status, 1);
    EXPECT_EQ(Json::parse(json.output)["step"], 2);
    EXPECT_EQ(Json::parse(json.output)["newest_good_step"], 1);
  }
  damage(1, -1);
  const Outcome none = space_.hethub("checkpoint verify c");
  EXPECT_EQ(none.status, 1);
  EXPECT_TRUE(none.says("none of them is good")) << none.output;
}

TEST_F(Refusals, verify_does_not_mind_a_save_that_is_under_way) {
  save_two_steps();
  std::filesystem::create_directory(space_.path("c/step-00000003.tmp"));
  const Outcome outcome = space_.hethub("checkpoint verify c");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_TRUE(outcome.says("step 2: 1 of 1 shards")) << outcome.output;
}

}  // namespace
}  // namespace hethub

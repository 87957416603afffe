#include "hethub/comm/launch_environment.h"

#include <map>

#include <gtest/gtest.h>

#include "tests/comm/errors.h"

namespace hethub {
namespace {

using Variables = std::map<std::string, std::string>;

Environment environment_of(Variables variables) {
  return [variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

TEST(LaunchEnvironment, reads_torchruns_environment) {
  const RendezvousOptions options =
      rendezvous_from_environment(environment_of({{"RANK", "3"},
                                                  {"WORLD_SIZE", "4"},
                                                  {"LOCAL_RANK", "1"},
                                                  {"MASTER_ADDR", "node0"},
                                                  {"MASTER_PORT", "29500"},
                                                  {"HETHUB_SECRET", "s"}}));
  EXPECT_EQ(options.rank, 3);
  EXPECT_EQ(options.world_size, 4);
  EXPECT_EQ(options.local_rank, 1);
  EXPECT_EQ(options.master_address, "node0");
  EXPECT_EQ(options.master_port, 29500);
  EXPECT_EQ(options.secret, "s");
}

TEST(LaunchEnvironment, an_empty_environment_is_a_world_of_one_rank) {
  const RendezvousOptions options = rendezvous_from_environment(environment_of({}));
  EXPECT_EQ(options.world_size, 1);
}

TEST(LaunchEnvironment, half_set_or_contradicting_variables_are_named) {
  const Variables good = {{"RANK", "0"},
                          {"WORLD_SIZE", "2"},
                          {"MASTER_ADDR", "node0"},
                          {"MASTER_PORT", "29500"},
                          {"HETHUB_SECRET", "s"}};
  const auto said_of = [&](const std::string& name, const std::optional<std::string>& value) {
    auto variables = good;
    variables.erase(name);
    if (value) variables[name] = *value;
    return error_text([&] { rendezvous_from_environment(environment_of(variables)); },
                      ErrorCode::kInvalidConfig);
  };
  expect_contains(said_of("MASTER_ADDR", std::nullopt), "without MASTER_ADDR");
  expect_contains(said_of("RANK", std::nullopt), "without RANK");
  expect_contains(said_of("RANK", "2"), "RANK=2 WORLD_SIZE=2");
  expect_contains(said_of("RANK", "-1"), "RANK");
  expect_contains(said_of("WORLD_SIZE", "two"), "WORLD_SIZE, found 'two'");
  expect_contains(said_of("MASTER_PORT", "70000"), "MASTER_PORT");
  expect_contains(said_of("HETHUB_SECRET", std::nullopt), "HETHUB_SECRET_FILE");
}

std::string refusal_of(const Variables& variables, const RankFlags& flags = {}) {
  return error_text([&] { rendezvous_from_environment(environment_of(variables), flags); },
                    ErrorCode::kInvalidConfig);
}

const Variables kSlurm = {
    {"SLURM_PROCID", "5"},    {"SLURM_NTASKS", "6"},  {"SLURM_NPROCS", "6"},
    {"SLURM_LOCALID", "1"},   {"SLURM_NODEID", "2"},  {"SLURM_NNODES", "3"},
    {"SLURM_JOB_ID", "4711"}, {"SLURM_STEP_ID", "0"}, {"SLURM_JOB_NODELIST", "node[07-09]"},
    {"HETHUB_SECRET", "s"}};

Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) {
    variables[name] = value;
  }
  return variables;
}

Variables without(Variables variables, const std::string& name) {
  variables.erase(name);
  return variables;
}

TEST(LaunchEnvironment, a_slurm_task_needs_nothing_but_a_secret) {
  const RendezvousOptions options = rendezvous_from_environment(environment_of(kSlurm));
  EXPECT_EQ(options.rank, 5);
  EXPECT_EQ(options.world_size, 6);
  EXPECT_EQ(options.local_rank, 1);
  EXPECT_EQ(options.master_address, "node07");
  EXPECT_GE(options.master_port, 20000);
  EXPECT_LT(options.master_port, 32000);
  EXPECT_EQ(options.several_hosts, true);
  expect_contains(options.source, "Slurm: rank 5 of 6, rank 0 at node07 port ");
  // All tasks find the same port; another job finds another.
  const auto port_of = [](const Variables& more) {
    return rendezvous_from_environment(environment_of(with(kSlurm, more))).master_port;
  };
  EXPECT_EQ(port_of({{"SLURM_PROCID", "0"}}), options.master_port);
  EXPECT_NE(port_of({{"SLURM_JOB_ID", "4712"}}), options.master_port);
  EXPECT_EQ(port_of({{"MASTER_PORT", "29500"}}), 29500);
}

TEST(LaunchEnvironment, a_heterogeneous_job_of_slurm_meets_at_its_first_components_first_host) {
  const Variables job = with(kSlurm, {{"SLURM_HET_SIZE", "2"},
                                      {"SLURM_JOB_NODELIST", "b[1-2]"},
                                      {"SLURM_JOB_NODELIST_HET_GROUP_0", "a3"},
                                      {"SLURM_JOB_NODELIST_HET_GROUP_1", "b[1-2]"}});
  const RendezvousOptions options = rendezvous_from_environment(environment_of(job));
  EXPECT_EQ(options.master_address, "a3");
  expect_contains(options.source, "Slurm (heterogeneous job)");
  expect_contains(refusal_of(without(job, "SLURM_JOB_NODELIST_HET_GROUP_1")),
                  "SLURM_HET_SIZE=2 without SLURM_JOB_NODELIST_HET_GROUP_1");
}

TEST(LaunchEnvironment, a_shell_inside_slurm_is_no_rank) {
  for (const Variables& shell : {with(kSlurm, {{"SLURM_JOB_NAME", "bash"}}),
                                 with(kSlurm, {{"SLURM_JOB_NAME", "interactive"}}),
                                 with(without(kSlurm, "SLURM_STEP_ID"), {{"ENVIRONMENT", "BATCH"}}),
                                 without(kSlurm, "SLURM_PROCID")}) {
    const RendezvousOptions options = rendezvous_from_environment(environment_of(shell));
    EXPECT_EQ(options.world_size, 1);
    EXPECT_EQ(options.source, "a single process");
  }
}

TEST(LaunchEnvironment, slurms_contradictions_are_named) {
  expect_contains(refusal_of(with(kSlurm, {{"SLURM_PROCID", "6"}})),
                  "SLURM_PROCID=6 SLURM_NTASKS=6");
  expect_contains(refusal_of(with(kSlurm, {{"SLURM_NPROCS", "4"}})),
                  "SLURM_NTASKS=6 SLURM_NPROCS=4");
  expect_contains(refusal_of(with(kSlurm, {{"SLURM_NODEID", "3"}})),
                  "SLURM_NODEID=3 SLURM_NNODES=3");
  expect_contains(refusal_of(without(without(kSlurm, "SLURM_NTASKS"), "SLURM_NPROCS")),
                  "SLURM_PROCID without SLURM_NTASKS");
  expect_contains(refusal_of(without(kSlurm, "SLURM_JOB_NODELIST")), "without MASTER_ADDR");
  expect_contains(refusal_of(without(kSlurm, "SLURM_JOB_ID")), "without MASTER_PORT");
  expect_contains(refusal_of(with(kSlurm, {{"SLURM_JOB_NODELIST", "node[3-1]"}})), "backwards");
}

TEST(LaunchEnvironment, ranks_of_mpi_on_one_host_need_no_address) {
  const Variables open_mpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                              {"OMPI_COMM_WORLD_SIZE", "2"},
                              {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                              {"PMIX_NAMESPACE", "prterun-7@1"},
                              {"PMIX_RANK", "1"},
                              {"HETHUB_SECRET", "s"}};
  const RendezvousOptions options = rendezvous_from_environment(environment_of(open_mpi));
  EXPECT_EQ(options.rank, 1);
  EXPECT_EQ(options.master_address, "127.0.0.1");
  EXPECT_EQ(options.several_hosts, false);
  expect_contains(options.source, "Open MPI: rank 1 of 2");
  const Variables spread =
      with(open_mpi, {{"OMPI_COMM_WORLD_LOCAL_RANK", "0"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}});
  expect_contains(refusal_of(spread), "Open MPI with 2 ranks, without MASTER_ADDR");
  const RendezvousOptions told = rendezvous_from_environment(
      environment_of(with(spread, {{"MASTER_ADDR", "node0"}, {"MASTER_PORT", "29500"}})));
  EXPECT_EQ(told.master_address, "node0");
  EXPECT_EQ(told.several_hosts, true);
  expect_contains(refusal_of(with(open_mpi, {{"PMIX_RANK", "0"}})),
                  "OMPI_COMM_WORLD_RANK=1 PMIX_RANK=0");
  expect_contains(refusal_of({{"PMIX_RANK", "0"}}), "PMIX_RANK without OMPI_COMM_WORLD_SIZE");
}

TEST(LaunchEnvironment, reads_mpichs_and_mvapichs_environment) {
  const Variables mpich = {{"PMI_RANK", "2"},        {"PMI_SIZE", "4"},
                           {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "2"},
                           {"MASTER_ADDR", "node0"}, {"MASTER_PORT", "29500"},
                           {"HETHUB_SECRET", "s"}};
  const RendezvousOptions options = rendezvous_from_environment(environment_of(mpich));
  EXPECT_EQ(options.rank, 2);
  EXPECT_EQ(options.local_rank, 0);
  expect_contains(options.source, "MPICH: rank 2 of 4");
  expect_contains(refusal_of(without(mpich, "PMI_SIZE")), "PMI_RANK without PMI_SIZE");
  expect_contains(refusal_of(with(mpich, {{"MPI_LOCALRANKID", "2"}})),
                  "MPI_LOCALRANKID=2 MPI_LOCALNRANKS=2");
  expect_contains(refusal_of(with(mpich, {{"MPI_LOCALNRANKS", "5"}})),
                  "MPI_LOCALNRANKS=5 PMI_SIZE=4");
  expect_contains(refusal_of({{"MV2_COMM_WORLD_RANK", "1"}, {"MV2_COMM_WORLD_SIZE", "1"}}),
                  "MV2_COMM_WORLD_RANK=1 MV2_COMM_WORLD_SIZE=1");
}

// flags > HETHUB_* > torchrun > Slurm > MPI.
TEST(LaunchEnvironment, each_source_goes_before_the_next) {
  Variables all = with(kSlurm, {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "9"}});
  const auto world_of = [&](const RankFlags& flags = {}) {
    return rendezvous_from_environment(environment_of(all), flags).world_size;
  };
  EXPECT_EQ(world_of(), 6);
  all = with(all, {{"RANK", "0"}, {"WORLD_SIZE", "7"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}});
  EXPECT_EQ(world_of(), 7);
  all = with(all, {{"HETHUB_RANK", "0"}, {"HETHUB_WORLD_SIZE", "8"}});
  EXPECT_EQ(world_of(), 8);
  EXPECT_EQ(world_of({.rank = 1, .world_size = 3}), 3);
  const RendezvousOptions flagged = rendezvous_from_environment(
      environment_of(with(all, {{"HETHUB_MASTER_ADDR", "h"}})),
      {.rank = 1, .world_size = 3, .master_port = 7, .interfaces = "ib"});
  EXPECT_EQ(flagged.master_address, "h");
  EXPECT_EQ(flagged.master_port, 7);
  EXPECT_EQ(flagged.interfaces, "ib");
}

TEST(LaunchEnvironment, half_given_or_contradicting_options_are_named) {
  expect_contains(refusal_of({}, {.rank = 0}), "--rank without --world-size");
  expect_contains(refusal_of({}, {.rank = 2, .world_size = 2}), "--rank 2 --world-size 2");
  expect_contains(refusal_of({}, {.master_address = "a"}), "--master-addr");
  expect_contains(refusal_of({{"MASTER_ADDR", "a"}}), "MASTER_ADDR without RANK, WORLD_SIZE");
}

}  // namespace
}  // namespace hethub

#include "hethub/launch/launch.h"

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <numeric>
#include <optional>

#include <nlohmann/json.hpp>

#include "cli/train_setup.h"
#include "cli/verb.h"
#include "hethub/base/error.h"
#include "hethub/base/files.h"
#include "hethub/base/json.h"
#include "hethub/comm/host_list.h"
#include "hethub/comm/launch_environment.h"
#include "hethub/plan/plan_file.h"

namespace hethub {
namespace {

struct LaunchArguments {
  std::string plan = {};
  std::string log_dir = {};
  std::string master_address = "127.0.0.1";
  int port = 0;
  std::string cores = {};
  std::vector<int> ranks = {};
  double grace_s = 5;
  bool print_hosts = false;
  std::optional<std::string> nodelist = {};
  std::vector<std::string> command = {};
};

// "0,1" or "0-3,4-7": the cores of each rank.
std::vector<std::vector<int>> parse_cores(const std::string& list, std::size_t ranks) {
  std::vector<std::vector<int>> all;
  const auto refuse = [&](const std::string& found) {
    throw Error(ErrorCode::kUsage, {.what = text("--cores ", list),
                                    .found = found,
                                    .expected = text("a core or a range of cores for each of ",
                                                     ranks, " ranks, as in 0,1 or 0-3,4-7"),
                                    .fix = "name the cores in the order of the ranks"});
  };
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    int first = -1;
    int last = -1;
    const char* const stop = list.data() + end;
    auto parsed = std::from_chars(list.data() + begin, stop, first);
    last = first;
    if (parsed.ec == std::errc() && parsed.ptr != stop && *parsed.ptr == '-') {
      parsed = std::from_chars(parsed.ptr + 1, stop, last);
    }
    constexpr int kMostCores = 1024;
    const bool valid = parsed.ec == std::errc() && parsed.ptr == stop && first >= 0 &&
                       last >= first && last < kMostCores;
    if (!valid) refuse(text("'", list.substr(begin, end - begin), "'"));
    all.emplace_back(static_cast<std::size_t>(last - first + 1));
    std::iota(all.back().begin(), all.back().end(), first);
    begin = end + 1;
  }
  if (all.size() != ranks) refuse(text(all.size(), " entries"));
  return all;
}

// Ranks of several hosts share a secret that the user made; those of one host get a fresh one.
std::string secret_of(const LaunchArguments& arguments) {
  const char* secret = std::getenv("HETHUB_SECRET");
  const char* file = std::getenv("HETHUB_SECRET_FILE");
  if (arguments.ranks.empty()) return {};
  if (secret != nullptr && *secret != '\0') return secret;
  if (file == nullptr) return {};
  std::string read = read_file(file);
  while (!read.empty() && (read.back() == '\n' || read.back() == '\r')) {
    read.pop_back();
  }
  return read;
}

// The cluster file that the ranks' command names, which says what opens their kinds.
std::string cluster_of(const std::vector<std::string>& command) {
  const std::string option = "--cluster";
  for (std::size_t at = 0; at < command.size(); ++at) {
    if (command[at].starts_with(option + "=")) return command[at].substr(option.size() + 1);
    if (command[at] == option && at + 1 < command.size()) return command[at + 1];
  }
  return {};
}

std::vector<RankCommand> commands_of(const LaunchArguments& arguments, const Plan& plan) {
  const std::vector<std::string> kinds = plan.kind_of_rank();
  const auto unnamed = std::find(kinds.begin(), kinds.end(), "");
  if (kinds.empty() || unnamed != kinds.end()) {
    throw Error(
        ErrorCode::kInvalidPlan,
        {.what = arguments.plan + ": ranks",
         .found = kinds.empty() ? "none" : text("no stage for rank ", unnamed - kinds.begin()),
         .expected = "every rank from 0 on in one stage",
         .fix = "add a stage, or number the ranks without gaps"});
  }
  std::vector<int> ranks = arguments.ranks;
  if (ranks.empty()) {
    ranks.resize(kinds.size());
    std::iota(ranks.begin(), ranks.end(), 0);
  }
  std::vector<std::string> argv = {std::filesystem::read_symlink("/proc/self/exe").string(),
                                   arguments.command.front(), "--plan", arguments.plan};
  argv.insert(argv.end(), arguments.command.begin() + 1, arguments.command.end());
  std::vector<RankCommand> commands;
  std::vector<std::string> here;
  for (const int rank : ranks) {
    if (rank < 0 || rank >= static_cast<int>(kinds.size())) {
      throw Error(ErrorCode::kUsage,
                  {.what = "--ranks",
                   .found = text(rank),
                   .expected = text("ranks of the plan, 0 to ", kinds.size() - 1),
                   .fix = "name the plan's ranks that this host runs"});
    }
    here.push_back(kinds[static_cast<std::size_t>(rank)]);
    commands.push_back({.rank = rank, .label = here.back(), .argv = argv});
  }
  require_backends(here, cluster_of(arguments.command));
  if (arguments.cores.empty()) return commands;
  const auto cores = parse_cores(arguments.cores, commands.size());
  for (std::size_t local = 0; local < commands.size(); ++local) {
    commands[local].cores = cores[local];
  }
  return commands;
}

Json json_of(const LaunchResult& result) {
  Json json = {{"exit_status", result.exit_status}, {"ends", Json::array()}};
  for (const RankEnd& end : result.ends) {
    json["ends"].push_back({{"rank", end.rank},
                            {"kind", end.label},
                            {"exit_status", end.exit_status},
                            {"signal", end.signal},
                            {"last_error", end.last_error_line}});
  }
  if (result.interrupted_by > 0) json["interrupted_by"] = result.interrupted_by;
  if (result.first_failure) json["first_failure"] = result.first_failure->rank;
  return json;
}

// The hosts of --nodelist, or of the Slurm job that this is in.
int print_hosts(const LaunchArguments& arguments, bool json) {
  const std::string here = process_environment()("SLURM_JOB_NODELIST").value_or("");
  const std::vector<std::string> hosts = expand_host_list(arguments.nodelist.value_or(here));
  if (json) std::cout << Json(hosts).dump() << '\n';
  for (std::size_t host = 0; host < hosts.size() && !json; ++host) {
    std::cout << hosts[host] << '\n';
  }
  return 0;
}

void require_given(bool given, const char* option) {
  if (given) return;
  throw Error(ErrorCode::kUsage, {.what = text("launch: ", option),
                                  .found = "nothing",
                                  .expected = "one",
                                  .fix = "see hethub launch --help"});
}

int run_launch(const LaunchArguments& arguments, bool json) {
  if (arguments.print_hosts) return print_hosts(arguments, json);
  require_given(!arguments.plan.empty(), "--plan");
  require_given(!arguments.command.empty(), "the verb that each rank runs, after --");
  const Plan plan = read_plan(arguments.plan);
  LaunchOptions options{.ranks = commands_of(arguments, plan),
                        .world_size = plan.world_size(),
                        .master_address = arguments.master_address,
                        .master_port = arguments.port,
                        .secret = secret_of(arguments),
                        .log_dir = arguments.log_dir,
                        .grace_s = arguments.grace_s};
  options.on_line = [](std::string_view line, bool is_error) {
    (is_error ? std::cerr : std::cout) << line << '\n' << std::flush;
  };
  const LaunchResult result = run_ranks(options);
  if (json)
    std::cout << json_of(result).dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
  if (result.interrupted_by > 0 && !json) {
    std::cerr << "hethub: launch: "
              << (result.interrupted_by == SIGINT ? "interrupted by the user"
                                                  : "told to end by SIGTERM")
              << "; its " << result.ends.size() << " ranks have ended\n";
  }
  if (result.first_failure && !json) {
    std::cerr << "hethub: launch: " << result.first_failure->text() << "; it was the first of "
              << result.ends.size() << " ranks to fail"
              << (arguments.log_dir.empty() ? "" : text("; logs are in ", arguments.log_dir))
              << '\n';
  }
  return result.exit_status;
}

}  // namespace

void add_launch(CLI::App& app, VerbCall& call) {
  CLI::App& command = *app.add_subcommand("launch", "start this host's ranks and watch them");
  const auto arguments = std::make_shared<LaunchArguments>();
  command.add_option("--plan", arguments->plan, "the plan file; one rank a process");
  command.add_option("--log-dir", arguments->log_dir, "each rank's output goes to DIR/rank-N.log");
  command.add_option("--port", arguments->port, "where rank 0 listens; default: one that is free")
      ->check(CLI::Range(1, 65535));
  command
      .add_option("--cores", arguments->cores, "cores of each rank: 0,1 or 0-3,4-7; default: all")
      ->option_text("LIST");
  command.add_option("--ranks", arguments->ranks, "only these ranks, as in 0,1: for several hosts")
      ->expected(1)
      ->delimiter(',');
  command.add_option("--master-addr", arguments->master_address, "the host of rank 0")
      ->capture_default_str();
  command
      .add_option("--grace", arguments->grace_s,
                  "seconds that the others have to end after the first failure")
      ->capture_default_str();
  command.add_option("command", arguments->command,
                     "the verb that each rank runs, and its arguments");
  command.add_flag("--print-hosts", arguments->print_hosts)
      ->description("print the hosts of --nodelist and start nothing");
  command.add_option("--nodelist", arguments->nodelist,
                     "hosts as Slurm lists them; default: SLURM_JOB_NODELIST");
  command.footer(
      "Examples: hethub launch --plan plan.json --log-dir logs -- train --model config.json "
      "--data corpus --steps 100\n"
      "          on each of two hosts, with one HETHUB_SECRET_FILE: hethub launch --plan plan.json "
      "--ranks 0,1 --master-addr node0 --port 29500 -- train ...");
  on_chosen(command, call, "launch", arguments, run_launch);
}

}  // namespace hethub

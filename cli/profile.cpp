#include "hethub/profile/profile.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>

#include <nlohmann/json.hpp>

#include "cli/flight.h"
#include "cli/meeting.h"
#include "cli/profile_ranks.h"
#include "cli/temporary_folder.h"
#include "cli/train_setup.h"
#include "cli/verb.h"
#include "hethub/base/clock.h"
#include "hethub/base/error.h"
#include "hethub/base/files.h"
#include "hethub/cluster/cluster_file.h"
#include "hethub/comm/launch_environment.h"
#include "hethub/comm/tags.h"
#include "hethub/cost/costs_file.h"
#include "hethub/launch/launch.h"
#include "hethub/profile/link_timer.h"
#include "hethub/profile/program_costs.h"

namespace hethub {
namespace {

constexpr int kMostTensorWidth = 8;  // that the planner considers

struct Options {
  std::string model = {};
  std::vector<std::string> backends = {};
  std::string cluster = {};
  std::string output = {};
  std::string parts = {};  // folder for the ranks' results: this process is one of them
  std::vector<int> cores = {};
  std::int64_t sequence_length = 128;
  std::vector<int> micro_batch_sizes = {1, 2, 4};
  int threads = 1;
  bool contended = true;
  bool quick = false;
  MeetingOptions meeting = {};
};

// What is measured: the cluster's kinds that a backend of the list opens, or the backends' own.
std::vector<std::string> kinds_of(const Options& options) {
  if (options.cluster.empty()) {
    return options.backends.empty() ? backend_names() : options.backends;
  }
  std::vector<std::string> kinds;
  const std::vector<std::string>& list = options.backends;
  for (const Kind& kind : read_cluster(options.cluster).kinds) {
    const bool listed = std::find(list.begin(), list.end(), kind.backend) != list.end();
    if (list.empty() ? is_backend(kind.backend) : listed) kinds.push_back(kind.name);
  }
  if (kinds.empty()) {
    throw Error(ErrorCode::kInvalidConfig, {.what = options.cluster,
                                            .found = "no kind with one of these backends",
                                            .expected = "a kind that this machine can open",
                                            .fix = "check --backends and the file's kinds"});
  }
  return kinds;
}

// Groups of a kind stay within a node: those widths that a node of the cluster has devices for.
std::vector<int> tensor_widths(const Options& options) {
  std::vector<int> widths;
  if (options.cluster.empty()) return widths;
  int most = 0;
  for (const Node& node : read_cluster(options.cluster).nodes) {
    for (const DeviceGroup& group : node.devices) {
      most = std::max(most, group.count);
    }
  }
  for (int width = 2; width <= std::min(most, kMostTensorWidth); width *= 2) {
    widths.push_back(width);
  }
  return widths;
}

ProfileOptions profile_options(const Options& options) {
  ProfileOptions profile{.model = read_model(options.model),
                         .covered = {.sequence_length = options.sequence_length,
                                     .micro_batch_sizes = options.micro_batch_sizes,
                                     .tensor_widths = tensor_widths(options)}};
  profile.timing.seconds_per_op = options.quick ? 0.03 : 0.12;
  return profile;
}

std::filesystem::path file_of_part(const std::filesystem::path& folder, int rank) {
  return folder / text("rank-", rank, ".json");
}

// Tells the others that this rank has measured, and keeps its device busy until they have too.
void finish_together(Messenger& messenger, Backend& backend, const ProfileOptions& options) {
  std::byte word{};
  std::vector<std::byte> words(static_cast<std::size_t>(messenger.world_size()));
  std::vector<Handle> handles;
  const Tag tag = point_to_point_tag(0, 99);
  for (int peer = 0; peer < messenger.world_size(); ++peer) {
    if (peer == messenger.rank()) continue;
    handles.push_back(messenger.post_send(peer, tag, {&word, 1}));
    handles.push_back(messenger.post_recv(peer, tag, {&words[static_cast<std::size_t>(peer)], 1}));
  }
  keep_busy(backend, options, [&] {
    return std::all_of(handles.begin(), handles.end(), [&](const Handle& handle) {
      return messenger.test(handle, {.name = "profile"});
    });
  });
}

// What one rank has measured.
Json part_of(const KindProfile& profile, const std::vector<LinkCosts>& links,
             const std::string& kind) {
  return {{"costs", to_json(Costs{.kinds = {{kind, profile.costs}}, .links = links})},
          {"problems", profile.problems},
          {"memory_bytes_per_s", profile.memory_bytes_per_s},
          {"program_seconds", profile.program_seconds},
          {"ops_seconds", profile.ops_seconds}};
}

// Host-staged messages travel between the hosts' memories: what is measured between two processes
// here holds for each pair of kinds.
std::vector<LinkCosts> measure_links(Messenger& messenger, const std::vector<std::string>& kinds) {
  std::vector<LinkCosts> links;
  for (int low = 0; low < messenger.world_size(); ++low) {
    for (int high = low + 1; high < messenger.world_size(); ++high) {
      meet(messenger, 3);
      const int self = messenger.rank();
      if (self != low && self != high) continue;
      const auto points =
          time_messages(messenger, self == low ? high : low, self == low, message_sizes());
      if (self != low) continue;
      const auto named = [&](int rank) {
        return kinds[std::min<std::size_t>(static_cast<std::size_t>(rank), kinds.size() - 1)];
      };
      links.push_back(
          {.first = named(low), .second = named(high), .rate = fit_link(points), .points = points});
    }
  }
  return links;
}

// Ranks beyond the kinds measure messages alone: then there is no part of them.
Json measure(const Options& options, const std::vector<std::string>& kinds, Messenger& messenger) {
  const ProfileOptions profile_of = profile_options(options);
  const int rank = messenger.rank();
  const bool computes = rank < static_cast<int>(kinds.size());
  std::unique_ptr<Backend> backend;
  KindProfile profile;
  const std::string kind = computes ? kinds[static_cast<std::size_t>(rank)] : kinds.back();
  if (computes) backend = open_kind(kind, options.cluster, {.threads = options.threads});
  meet(messenger, 1);
  const bool together = options.contended && kinds.size() > 1;
  for (int turn = 0; turn < static_cast<int>(kinds.size()); ++turn) {
    if (computes && (together ? turn == 0 : turn == rank)) {
      profile = profile_kind(*backend, profile_of);
      if (together) finish_together(messenger, *backend, profile_of);
    }
    meet(messenger, 2);
  }
  // The operands are given back: what stays is the program, its libraries and the driver.
  profile.costs.fixed_memory_bytes = resident_bytes();
  const std::vector<LinkCosts> links = measure_links(messenger, kinds);
  return computes ? part_of(profile, links, kind) : Json();
}

int run_as_rank(const Options& options) {
  const RendezvousOptions meeting = meeting_of(options.meeting, true);
  run_in_world(meeting, {}, [&](Messenger& messenger) {
    const Json part = measure(options, kinds_of(options), messenger);
    if (!part.is_null()) write_file(file_of_part(options.parts, meeting.rank), part.dump());
  });
  return 0;
}

std::string joined(const std::vector<int>& numbers) {
  std::string list;
  for (const int number : numbers) {
    list += text(list.empty() ? "" : ",", number);
  }
  return list;
}

// One rank a kind; where there is one kind, a second rank for the link alone.
LaunchOptions ranks_of(const Options& options, const std::vector<std::string>& kinds,
                       const std::filesystem::path& parts) {
  LaunchOptions launch;
  std::vector<std::string> argv = {std::filesystem::read_symlink("/proc/self/exe").string(),
                                   "profile",
                                   "--model",
                                   options.model,
                                   "--parts",
                                   parts.string(),
                                   "--threads",
                                   text(options.threads),
                                   "--sequence-length",
                                   text(options.sequence_length),
                                   "--micro-batch-sizes",
                                   joined(options.micro_batch_sizes),
                                   options.contended ? "--contended" : "--alone"};
  if (options.quick) argv.emplace_back("--quick");
  if (!options.cluster.empty()) argv.insert(argv.end(), {"--cluster", options.cluster});
  for (const std::string& backend : options.backends) {
    argv.insert(argv.end(), {"--backends", backend});
  }
  const std::vector<std::string> meeting = words_of(options.meeting);
  argv.insert(argv.end(), meeting.begin(), meeting.end());
  const int ranks = std::max<int>(static_cast<int>(kinds.size()), 2);
  for (int rank = 0; rank < ranks; ++rank) {
    const bool computes = rank < static_cast<int>(kinds.size());
    RankCommand command{.rank = rank,
                        .label = computes ? kinds[static_cast<std::size_t>(rank)] : "link",
                        .argv = argv};
    if (rank < static_cast<int>(options.cores.size())) {
      command.cores = {options.cores[static_cast<std::size_t>(rank)]};
    }
    launch.ranks.push_back(std::move(command));
  }
  launch.on_line = [](std::string_view line, bool) { std::cerr << line << '\n'; };
  return launch;
}

// Each pair of kinds, and each kind with itself, gets a link: see measure_links.
void complete_links(Costs& costs) {
  if (costs.links.empty()) return;
  const LinkCosts measured = costs.links.front();
  for (const auto& [kind, ignored] : costs.kinds) {
    const bool has = std::any_of(
        costs.links.begin(), costs.links.end(),
        [&](const LinkCosts& link) { return link.first == kind && link.second == kind; });
    if (has) continue;
    LinkCosts link = measured;
    link.first = kind;
    link.second = kind;
    costs.links.push_back(std::move(link));
  }
}

void print_kind(const std::string& kind, const KindCosts& costs, const Json& part) {
  const auto peak = costs.gemm_flops_per_s.find("f32");
  std::printf("%-10s %5zu %11.2f %9.2f %9.2f %10.1f %12s %11.2f\n", kind.c_str(), costs.ops.size(),
              peak == costs.gemm_flops_per_s.end() ? 0 : peak->second / 1e9,
              get<double>(part, "part", "memory_bytes_per_s") / 1e9, costs.launch_seconds * 1e6,
              costs.action_seconds * 1e6,
              bytes_text(static_cast<double>(costs.fixed_memory_bytes)).c_str(),
              get<double>(part, "part", "ops_seconds") /
                  std::max(get<double>(part, "part", "program_seconds"), 1e-12));
}

void print_table(const Costs& costs, const std::vector<std::pair<std::string, Json>>& parts,
                 double seconds) {
  std::printf("%-10s %5s %11s %9s %9s %10s %12s %11s\n", "kind", "ops", "products", "memory",
              "launch", "program", "fixed", "ops/program");
  std::printf("%-10s %5s %11s %9s %9s %10s %12s %11s\n", "", "", "GFLOP/s", "GB/s", "us", "us",
              "memory", "");
  for (const auto& [kind, part] : parts) {
    print_kind(kind, costs.kinds.at(kind), part);
    if (costs.kinds.at(kind).emulated) {
      std::printf("  emulated: what %s would take, slowed down, on this machine\n", kind.c_str());
    }
    for (const Json& problem : part.at("problems")) {
      std::printf("  not measured: %s\n", problem.get<std::string>().c_str());
    }
  }
  for (const auto& [kind, measured] : costs.kinds) {
    if (measured.download.bytes_per_s <= 0) continue;
    std::printf(
        "copies     %s: to the host %.1f us + bytes / %.2f GB/s, back %.1f us + bytes / "
        "%.2f GB/s\n",
        kind.c_str(), measured.download.latency_s * 1e6, measured.download.bytes_per_s / 1e9,
        measured.upload.latency_s * 1e6, measured.upload.bytes_per_s / 1e9);
  }
  for (const LinkCosts& link : costs.links) {
    std::printf("link       %s - %s: %.1f us + bytes / %.2f GB/s\n", link.first.c_str(),
                link.second.c_str(), link.rate.latency_s * 1e6, link.rate.bytes_per_s / 1e9);
  }
  std::printf(
      "\nEach op: median of batches run back to back on its device, then scaled so that the ops of "
      "a forward\nor backward pass add up to what it took. ops/program: their sum before that. "
      "Program: what running\none costs beside its ops. Links: a message each way at once, fitted. "
      "All of it took %.1f s.\n",
      seconds);
}

int write_measured(const Options& options, const std::vector<std::string>& kinds,
                   std::vector<Json> measured, double seconds, bool json) {
  Costs costs;
  std::vector<std::pair<std::string, Json>> parts;
  for (std::size_t rank = 0; rank < kinds.size(); ++rank) {
    Costs of_rank = parse_costs(measured[rank].at("costs"), text("costs of rank ", rank));
    const bool known = costs.kinds.contains(kinds[rank]);
    costs.kinds.merge(of_rank.kinds);
    for (LinkCosts& link : of_rank.links) {
      const bool has = std::any_of(costs.links.begin(), costs.links.end(), [&](const auto& other) {
        return (other.first == link.first && other.second == link.second) ||
               (other.first == link.second && other.second == link.first);
      });
      if (!has) costs.links.push_back(std::move(link));
    }
    if (!known) parts.emplace_back(kinds[rank], std::move(measured[rank]));
  }
  complete_links(costs);
  write_costs(costs, options.output);
  if (json) {
    std::cout << to_json(costs).dump() << '\n';
  } else {
    print_table(costs, parts, seconds);
  }
  return 0;
}

// One of ranks on any hosts: each measures one of its own --backends, rank 0 writes what all have
// measured. Of several ranks of one kind the first counts, and of several links between two kinds.
int run_started_elsewhere(const Options& options, const RendezvousOptions& meeting, bool json) {
  const double begin = seconds_now();
  const std::vector<std::string> own = kinds_of(options);
  int status = 0;
  run_in_world(meeting, options.meeting.flight, [&](Messenger& messenger) {
    const auto kinds =
        exchange_names(messenger, own[static_cast<std::size_t>(meeting.local_rank) % own.size()]);
    const auto texts = gather_texts(messenger, measure(options, kinds, messenger).dump());
    if (meeting.rank != 0) return;
    std::vector<Json> parts;
    for (const std::string& part : texts) {
      parts.push_back(parse_json(part, text("costs of rank ", parts.size())));
    }
    status = write_measured(options, kinds, std::move(parts), seconds_now() - begin, json);
  });
  return status;
}

int run(const Options& options, bool json) {
  if (!options.parts.empty()) return run_as_rank(options);
  if (options.output.empty()) {
    throw Error(ErrorCode::kUsage, {.what = "profile",
                                    .found = "no --output",
                                    .expected = "where to write the costs",
                                    .fix = "add -o costs.json"});
  }
  const RendezvousOptions meeting = meeting_of(options.meeting);
  if (meeting.world_size > 1) return run_started_elsewhere(options, meeting, json);
  const double begin = seconds_now();
  const std::vector<std::string> kinds = kinds_of(options);
  profile_options(options);  // faults of the model are told here, once
  const TemporaryFolder folder("profile");
  const LaunchResult result = run_ranks(ranks_of(options, kinds, folder.path));
  if (result.exit_status != 0) return result.exit_status;
  std::vector<Json> parts;
  for (std::size_t rank = 0; rank < kinds.size(); ++rank) {
    parts.push_back(read_document(file_of_part(folder.path, static_cast<int>(rank))));
  }
  return write_measured(options, kinds, std::move(parts), seconds_now() - begin, json);
}

}  // namespace

void add_profile(CLI::App& app, VerbCall& call) {
  CLI::App& command = *app.add_subcommand("profile", "measure what ops and messages cost here");
  const auto options = std::make_shared<Options>();
  command.add_option("--model", options->model, "config.json of the model")->required();
  command.add_option("--backends", options->backends, "which to measure; default: all built in")
      ->delimiter(',');
  command.add_option("--cluster", options->cluster, "measure the kinds of this file");
  command.add_option("-o,--output", options->output, "the costs file to write");
  command.add_option("--sequence-length", options->sequence_length, "tokens of a sequence")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  command
      .add_option("--micro-batch-sizes", options->micro_batch_sizes,
                  "sequences of a micro-batch that plans may use")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  command.add_option("--threads", options->threads, "compute threads of each kind")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command.add_option("--cores", options->cores, "the core of each kind's process")->delimiter(',');
  command.add_flag("--contended,!--alone", options->contended)
      ->description("measure all kinds at once, as they train (default), or one after another");
  command.add_flag("--quick", options->quick)->description("a quarter of the time for each op");
  command.add_option("--parts", options->parts)->group("");
  add_meeting(command, options->meeting);
  command.footer(
      "Example:\n  hethub profile --model config.json --backends cpu,opencl --cores 0,1 "
      "-o costs.json\n"
      "Over several hosts: start it on each, with its own --backends, by torchrun, srun or mpirun, "
      "or "
      "with\n--rank and --world-size; rank 0 writes what all have measured.");
  on_chosen(command, call, "profile", options, run);
}

}  // namespace hethub

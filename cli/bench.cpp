#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/bench_compute.h"
#include "cli/bench_rank.h"
#include "cli/bench_text.h"
#include "cli/flight.h"
#include "cli/meeting.h"
#include "cli/temporary_folder.h"
#include "cli/verb.h"
#include "hethub/accel/registry.h"
#include "hethub/base/error.h"
#include "hethub/base/files.h"
#include "hethub/collective/tuning.h"
#include "hethub/comm/launch_environment.h"
#include "hethub/comm/rendezvous.h"
#include "hethub/launch/launch.h"

namespace hethub {
namespace {

struct Options {
  int ranks = 2;
  std::vector<std::string> backends = {"cpu"};  // of the ranks, in turn
  std::vector<int> cores = {};
  std::vector<std::string> ops = {"all_reduce"};
  std::vector<std::string> sizes = {"1KiB", "16KiB", "256KiB", "1MiB", "4MiB", "16MiB", "64MiB"};
  std::string dtype = "f32";
  std::string reduction = "sum";
  int root = 0;
  double seconds = 0.25;
  double timeout_s = 120;
  std::string choices = {};
  std::string algorithm = {};
  std::string parts = {};  // of the ranks: "0,1/2,3"
  std::string show = {};
  std::string output = {};
  std::string result = {};  // where rank 0 leaves its rows: this process is a rank
  std::string inject = {};
  int port = 0;  // of ranks started here; 0: one that is free
  MeetingOptions meeting = {};
  bool tune = false;
  bool pairs = false;
  bool host_staged = false;
  bool dump = false;
};

[[noreturn]] void refuse(std::string what, std::string found, std::string expected) {
  throw Error(ErrorCode::kUsage, {.what = std::move(what),
                                  .found = std::move(found),
                                  .expected = std::move(expected),
                                  .fix = "see hethub bench comm --help"});
}

// "16KiB", "64M" (of 1024), "1000".
std::int64_t parse_size(const std::string& size) {
  constexpr double kMostBytes = 1e12;
  char* end = nullptr;
  const double number = std::strtod(size.c_str(), &end);
  const std::string unit = end;
  const std::size_t power = unit.empty() ? 0 : std::string("KMG").find(unit.front()) + 1;
  const bool known = unit.empty() || (power > 0 && (unit.size() == 1 || unit.substr(1) == "iB"));
  const double bytes = number * std::pow(1024.0, static_cast<double>(power));
  if (end == size.c_str() || !known || !(bytes >= 0 && bytes <= kMostBytes)) {
    refuse("--sizes", size, "numbers of bytes, as in 1000, 16KiB or 64MiB");
  }
  return static_cast<std::int64_t>(bytes);
}

template <typename Table, typename NameOf>
int position_of(const Table& table, const std::string& name, const char* option, NameOf name_of) {
  std::string known;
  int position = 0;
  for (const auto& row : table) {
    if (name_of(row) == name) return position;
    known += text(known.empty() ? "" : ", ", name_of(row));
    ++position;
  }
  refuse(option, name, known);
}

std::vector<CollectiveOp> ops_of(const Options& options) {
  std::vector<CollectiveOp> ops;
  if (options.ops == std::vector<std::string>{"all"}) {
    for (int op = 0; op < kCollectiveOps; ++op) {
      ops.push_back(static_cast<CollectiveOp>(op));
    }
    return ops;
  }
  for (const std::string& name : options.ops) {
    if (name != "none") ops.push_back(collective_op_of(name));
  }
  return ops;
}

// "numel:rank=0,x2".
void read_injection(const std::string& spec, CommBench& bench) {
  int end = 0;
  const int read = std::sscanf(spec.c_str(), "numel:rank=%d,x%d%n", &bench.numel_rank,
                               &bench.numel_factor, &end);
  if (read == 2 && end == static_cast<int>(spec.size()) && bench.numel_factor > 0) return;
  refuse("--inject", spec, "numel:rank=R,xN");
}

CommBench bench_of(const Options& options) {
  CommBench bench{.ops = ops_of(options),
                  .root = options.root,
                  .seconds = options.seconds,
                  .timeout_s = options.timeout_s,
                  .algorithm = options.algorithm,
                  .all_algorithms = options.tune,
                  .pairs = options.pairs,
                  .host_staged = options.host_staged};
  for (const std::string& size : options.sizes) {
    bench.sizes.push_back(parse_size(size));
  }
  bench.dtype = static_cast<DType>(
      position_of(kDTypes, options.dtype, "--dtype", [](const auto& row) { return row.name; }));
  bench.reduction =
      static_cast<Reduction>(position_of(kReductionNames, options.reduction, "--reduction",
                                         [](std::string_view name) { return name; }));
  if (!options.inject.empty()) read_injection(options.inject, bench);
  if (!options.choices.empty()) bench.choices = read_choices(options.choices);
  if (options.root >= options.ranks) {
    refuse("--root", text(options.root), text("0 to ", options.ranks - 1));
  }
  return bench;
}

// ---- one rank -----------------------------------------------------------------------------------

// The rows come back on rank 0.
Json run_as_rank(const Options& options, const RendezvousOptions& meeting) {
  const auto rank = static_cast<std::size_t>(meeting.rank);
  const auto backend = open_backend(options.backends[rank % options.backends.size()], {});
  FlightOptions flight = options.meeting.flight;
  flight.at_end = options.dump;
  Json rows;
  run_in_world(meeting, flight, [&](Messenger& messenger) {
    rows = run_comm_bench(bench_of(options), messenger, *backend);
  });
  return rows;
}

// ---- the command --------------------------------------------------------------------------------

// As it was called, with where to leave the rows.
std::vector<std::string> command_of_rank(const std::filesystem::path& result) {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::string> argv;
  for (std::size_t begin = 0; begin < all.size();) {
    const std::size_t end = all.find('\0', begin);
    argv.push_back(all.substr(begin, end - begin));
    begin = end + 1;
  }
  argv.front() = std::filesystem::read_symlink("/proc/self/exe").string();
  argv.insert(argv.end(), {"--result", result.string()});
  return argv;
}

LaunchOptions ranks_of(const Options& options, const std::filesystem::path& result) {
  LaunchOptions launch;
  for (int rank = 0; rank < options.ranks; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    RankCommand command{.rank = rank,
                        .label = options.backends[at % options.backends.size()],
                        .argv = command_of_rank(result)};
    if (!options.cores.empty()) command.cores = {options.cores[at % options.cores.size()]};
    launch.ranks.push_back(std::move(command));
  }
  launch.master_port = options.port;
  launch.on_line = [](std::string_view line, bool) { std::cerr << line << '\n'; };
  return launch;
}

std::vector<std::vector<int>> parts_of(const Options& options) {
  std::vector<std::vector<int>> parts;
  if (options.parts.empty()) return parts;
  parts.emplace_back();
  for (const char* at = options.parts.c_str(); *at != '\0';) {
    char* end = nullptr;
    parts.back().push_back(static_cast<int>(std::strtol(at, &end, 10)));
    if (end == at || (*end != '\0' && *end != ',' && *end != '/')) {
      refuse("--parts", options.parts, "ranks of the parts, as in 0,1/2,3");
    }
    if (*end == '/') parts.emplace_back();
    at = *end == '\0' ? end : end + 1;
  }
  return parts;
}

// The steps that the ranks would take.
int show(const Options& options, const CommBench& bench, bool json) {
  const CollectiveOp op = collective_op_of(options.show);
  const std::int64_t bytes = bench.sizes.empty() ? 0 : bench.sizes.front();
  CollectiveCall call = call_of(op, options.ranks, bytes / size_of(bench.dtype), bench.dtype);
  call.root = options.root;
  call.parts = parts_of(options);
  const std::string name =
      options.algorithm.empty() ? choose(bench.choices, call) : options.algorithm;
  const CollectiveAlgorithm algorithm = make_algorithm(name, call);
  if (json) {
    std::cout << Json({{"op", name_of(op)},
                       {"algorithm", algorithm.name},
                       {"chunks", algorithm.chunks},
                       {"steps", steps_text(algorithm)}})
                     .dump()
              << '\n';
    return 0;
  }
  std::cout << name_of(op) << " of " << size_text(bytes) << " over " << options.ranks
            << " ranks: " << algorithm.name << ", " << algorithm.chunks << " chunks\n"
            << steps_text(algorithm);
  return 0;
}

std::int64_t wrong_in(const Json& rows) {
  double wrong = 0;
  for (const Json& row : rows) {
    for (const char* half : {"in_place", "out_of_place"}) {
      if (row.contains(half)) wrong += row[half]["wrong"].get<double>();
    }
  }
  return static_cast<std::int64_t>(wrong);
}

// Writes the table that the rows call for.
void write_tuned(const Json& rows, const ChoiceTable& base, const std::string& output) {
  std::vector<AlgorithmTime> times;
  for (const Json& row : rows) {
    if (!row.contains("in_place")) continue;
    times.push_back({.op = collective_op_of(row["op"].get<std::string>()),
                     .algorithm = row["algorithm"],
                     .ranks = row["ranks"],
                     .bytes = row["bytes"],
                     .seconds = row["in_place"]["seconds"]});
  }
  write_file(output, choices_text(tuned_choices(times, base)));
}

int report(const Options& options, const CommBench& bench, const Json& rows, bool json) {
  if (json) {
    std::cout << rows.dump(1) << '\n';
  } else {
    print_comm_rows(rows);
  }
  if (options.tune) write_tuned(rows, bench.choices, options.output);
  return wrong_in(rows) == 0 ? 0 : 1;
}

int run(const Options& options, bool json) {
  const CommBench bench = bench_of(options);  // faults of the options are told here, once
  if (!options.show.empty()) return show(options, bench, json);
  if (options.tune && options.output.empty()) {
    refuse("--tune", "no --output", "where to write the table of choices");
  }
  // A rank that another bench has started need not say so.
  const RendezvousOptions meeting = meeting_of(options.meeting, !options.result.empty());
  if (meeting.world_size > 1) {
    const Json rows = run_as_rank(options, meeting);
    if (meeting.rank != 0) return 0;
    if (options.result.empty()) return report(options, bench, rows, json);
    write_file(options.result, rows.dump());
    return 0;
  }
  const TemporaryFolder folder("bench");
  const std::filesystem::path result = folder.path / "rows.json";
  const LaunchResult ended = run_ranks(ranks_of(options, result));
  if (ended.exit_status != 0) return ended.exit_status;
  return report(options, bench, read_document(result), json);
}

void add_what(CLI::App& command, Options& options) {
  command.add_option("--ops", options.ops, "collectives; or all, or none")
      ->delimiter(',')
      ->capture_default_str();
  command.add_option("--sizes", options.sizes, "bytes of the data of the rank that has most")
      ->delimiter(',')
      ->capture_default_str();
  command.add_option("--dtype", options.dtype, "f64 f32 f16 bf16 i64 i32 i8 u8")
      ->capture_default_str();
  command.add_option("--reduction", options.reduction, "sum avg min max prod")
      ->capture_default_str();
  command.add_option("--root", options.root, "of broadcast, reduce, gather, scatter")
      ->check(CLI::NonNegativeNumber);
  command.add_option("--choices", options.choices, "the table of algorithms to use");
  command.add_option("--algorithm", options.algorithm, "this one instead of the table's");
  command.add_flag("--pairs", options.pairs)->description("also messages between each two ranks");
  command.add_flag("--tune", options.tune)
      ->description("time every algorithm and write the table of the fastest to --output");
  command.add_option("-o,--output", options.output, "the table of choices to write");
  command.add_option("--show", options.show, "print the steps of this collective, run nothing");
  command.add_option("--parts", options.parts, "for --show: ranks of one kind and node, 0,1/2,3");
}

void add_where(CLI::App& command, Options& options) {
  command.add_option("--ranks", options.ranks, "how many to start, all on this host")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command
      .add_option("--port", options.port, "where rank 0 of them listens; default: one that is free")
      ->check(CLI::Range(1, 65535));
  command.add_option("--backends", options.backends, "of the ranks, in turn")
      ->delimiter(',')
      ->capture_default_str();
  command.add_option("--cores", options.cores, "of the ranks, in turn; default: any")
      ->delimiter(',');
  command.add_flag("--host-staged", options.host_staged)
      ->description("take that route also where the CPU addresses the memory");
  command.add_option("--seconds", options.seconds, "for each row")
      ->check(CLI::Range(0.001, 1e4))
      ->capture_default_str();
  command.add_option("--timeout", options.timeout_s, "seconds that one call may take")
      ->check(CLI::Range(0.1, 1e5))
      ->capture_default_str();
  command.add_flag("--dump", options.dump)
      ->description("each rank ends with its flight recorder, on standard error");
  command.add_option("--inject", options.inject, "numel:rank=R,xN: a fault, for tests");
  command.add_option("--result", options.result)->group("");
  add_meeting(command, options.meeting);
}

void add_comm(CLI::App& bench, VerbCall& call) {
  CLI::App& command = *bench.add_subcommand("comm", "time collectives between ranks");
  const auto options = std::make_shared<Options>();
  add_what(command, *options);
  add_where(command, *options);
  command.footer(
      "Starts its ranks on this host; or is one of ranks that were started otherwise, by torchrun, "
      "srun,\nmpirun, or with --rank and --world-size on each host.\n"
      "Time: the median of five batches of calls, of each the slowest rank's. algbw = size / "
      "time;\n"
      "busbw is that times what the busiest rank must send, as in nccl-tests. #wrong counts "
      "elements\n"
      "on all ranks; the exit status is 1 if there are any.\n"
      "Examples:\n  hethub bench comm --ops all_reduce,all_gather --ranks 4\n"
      "  hethub bench comm --backends cpu,opencl --sizes 4MiB --pairs\n"
      "  hethub bench comm --show all_reduce --ranks 4 --sizes 1MiB --parts 0,1/2,3\n"
      "  hethub bench comm --ops all --ranks 4 --tune -o choices.json");
  on_chosen(command, call, "bench comm", options, run);
}

}  // namespace

void add_bench(CLI::App& app, VerbCall& call) {
  CLI::App& bench = *app.add_subcommand("bench", "measure how fast the parts are here");
  bench.require_subcommand(1);
  add_comm(bench, call);
  add_bench_ops(bench, call);
  add_bench_step(bench, call);
}

}  // namespace hethub

#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/verb.h"
#include "hethub/base/error.h"
#include "hethub/base/files.h"
#include "hethub/cluster/cluster_file.h"
#include "hethub/cluster/gather.h"
#include "hethub/cluster/topology.h"

namespace hethub {
namespace {

struct ClusterArguments {
  std::vector<std::string> files = {};
  std::string hostfile = {};
  std::string kind = {};  // of hosts without a type
  std::vector<std::string> topologies = {};
  double network_gb_per_s = 0;
  double network_latency_us = 20;
  std::string output = {};
};

// "KIND=FILE": the link inside a node of that kind, unless a cluster file states it.
void add_topology(const std::string& given, Cluster& cluster, std::vector<std::string>& notes) {
  const std::size_t equals = given.find('=');
  if (equals == 0 || equals == std::string::npos) {
    throw Error(ErrorCode::kUsage, {.what = "--topology",
                                    .found = given,
                                    .expected = "KIND=FILE",
                                    .fix = "name the kind that the file is about"});
  }
  const std::string kind = kind_named(cluster, given.substr(0, equals)).name;
  const std::string file = given.substr(equals + 1);
  if (find_link(cluster, kind, kind, LinkScope::kNode) != nullptr) {
    notes.push_back(text(file, ": the link ", kind, "-", kind, " is stated already"));
    return;
  }
  const Link link = link_of(parse_topology(read_file(file), file), kind);
  notes.push_back(text("link ", kind, "-", kind, ": ", link.rate.bytes_per_s / 1e9,
                       " GB/s by its data sheet, over the slowest pair; hethub profile measures"));
  cluster.links.push_back(link);
}

int run_cluster(const ClusterArguments& arguments, bool json) {
  if (arguments.files.empty() && arguments.hostfile.empty()) {
    throw Error(ErrorCode::kUsage, {.what = "cluster",
                                    .found = "neither cluster files nor --hostfile",
                                    .expected = "one of them at least",
                                    .fix = "see hethub cluster --help"});
  }
  std::vector<Cluster> parts;
  for (const std::string& file : arguments.files) {
    parts.push_back(read_cluster(file));
  }
  std::vector<std::string> notes;
  Cluster cluster = merged(parts, notes);
  if (!arguments.hostfile.empty()) {
    add_hosts(read_file(arguments.hostfile), arguments.hostfile, arguments.kind, known_sheets(),
              cluster);
  }
  for (const std::string& topology : arguments.topologies) {
    add_topology(topology, cluster, notes);
  }
  if (arguments.network_gb_per_s > 0) {
    add_network({arguments.network_latency_us / 1e6, arguments.network_gb_per_s * 1e9}, cluster);
  }
  parse_cluster(to_json(cluster), "the cluster");  // refuses what a cluster file may not say
  write_cluster(cluster, arguments.output);
  for (const std::string& note : notes) {
    std::cerr << "hethub: cluster: " << note << '\n';
  }
  const auto devices = static_cast<int>(rank_places(cluster).size());
  if (json) {
    std::cout
        << Json{{"devices", devices}, {"kinds", cluster.kinds.size()}, {"notes", notes}}.dump()
        << '\n';
    return 0;
  }
  std::printf("%d devices of %zu kinds: %s\n", devices, cluster.kinds.size(),
              arguments.output.c_str());
  return 0;
}

}  // namespace

void add_cluster(CLI::App& app, VerbCall& call) {
  CLI::App& command =
      *app.add_subcommand("cluster", "make one cluster file of what the machines say");
  const auto arguments = std::make_shared<ClusterArguments>();
  command.add_option("files", arguments->files, "what hethub devices --cluster wrote on each node");
  command.add_option("--hostfile", arguments->hostfile, "lines HOST [slots=N] [type=KIND]");
  command.add_option("--kind", arguments->kind, "of hosts without a type");
  command.add_option("--topology", arguments->topologies)
      ->description("KIND=FILE: what nvidia-smi topo -m or rocm-smi --showtopo --json printed");
  command.add_option("--network", arguments->network_gb_per_s)
      ->description("GB/s one way of a device between nodes, for kinds without such a link")
      ->check(CLI::PositiveNumber);
  command.add_option("--network-latency", arguments->network_latency_us, "microseconds")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command.add_option("-o,--output", arguments->output, "the cluster file to write")->required();
  command.footer(
      "Examples:\n  hethub cluster node1.json node2.json --network 12.5 -o cluster.json\n"
      "  hethub cluster --hostfile hosts --topology A100-80GB-SXM=topo.txt --network 12.5 \\\n"
      "      -o cluster.json");
  on_chosen(command, call, "cluster", arguments, run_cluster);
}

}  // namespace hethub

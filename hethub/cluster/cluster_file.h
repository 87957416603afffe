#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "hethub/base/json.h"
#include "hethub/cluster/cluster.h"

namespace hethub {

/// Reads a cluster from a parsed file named `name`. Throws kInvalidConfig for unknown keys (with
/// the nearest known one), wrong types and every fault of faults_of, all in one message.
Cluster parse_cluster(const Json& file, const std::string& name);

/// parse_cluster of a JSON or YAML file.
Cluster read_cluster(const std::filesystem::path& file);

/// The cluster as parse_cluster reads it.
Json to_json(const Cluster& cluster);

/// Writes the cluster as JSON, whole or not at all. Throws kCannotWrite.
void write_cluster(const Cluster& cluster, const std::filesystem::path& file);

/// A device that was found on this machine.
struct MachineDevice {
  Kind kind = {};
  int count = 1;
};

/// One node with these devices: the cluster file of a single machine. Kinds that several entries
/// share are listed once. Links are left out: `hethub profile` measures them.
Cluster cluster_of_machine(const std::string& node, const std::vector<MachineDevice>& devices);

}  // namespace hethub

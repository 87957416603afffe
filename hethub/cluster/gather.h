#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hethub/cluster/cluster.h"
#include "hethub/cluster/sheets.h"

namespace hethub {

/// The machines of several cluster files as one cluster, in their order: what `hethub devices
/// --cluster` wrote on each node. Where two state one link differently, the slower is taken, of two
/// memories of a kind within 5 % the smaller, and `notes` says so. Throws kInvalidConfig, naming
/// the kind and what differs, or the node, where two describe a kind otherwise differently or name
/// a node alike.
Cluster merged(const std::vector<Cluster>& parts, std::vector<std::string>& notes);

/// Adds the machines of a hostfile, a line each: "HOST [slots=N] [type=KIND]", as MPI, DeepSpeed
/// and FlagScale write it; '#' begins a comment. A host without a type has `kind`, and without
/// slots one device. A kind that the cluster has not is taken from the data sheet of that name.
/// Throws kInvalidConfig with file and line for what is none of this, and for a kind that neither
/// has.
void add_hosts(std::string_view hostfile, const std::string& name, const std::string& kind,
               const Sheets& sheets, Cluster& cluster);

/// Adds a network link of that rate between every two kinds that have none.
void add_network(LinkRate rate, Cluster& cluster);

}  // namespace hethub

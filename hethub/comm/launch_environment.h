#pragma once

#include <functional>
#include <optional>
#include <string>

#include "hethub/comm/rendezvous.h"

namespace hethub {

/// A variable of the environment, or nothing.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

/// This process's environment.
Environment process_environment();

/// What the command line says of a rank's place; it goes before all variables.
struct RankFlags {
  std::optional<int> rank = {};
  std::optional<int> world_size = {};
  std::optional<int> local_rank = {};
  std::string master_address = {};
  int master_port = 0;
  std::string interfaces = {};
};

/// Reads a rank's place from the first of these that is there:
/// - flags;
/// - HETHUB_RANK, HETHUB_WORLD_SIZE, HETHUB_LOCAL_RANK, HETHUB_LOCAL_WORLD_SIZE;
/// - torchrun's RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE;
/// - Slurm's SLURM_PROCID and its kin in a task of srun, also of a heterogeneous job;
/// - Open MPI's OMPI_COMM_WORLD_*, checked against PMIX_RANK; MVAPICH2's MV2_COMM_WORLD_*; PMI_RANK
///   and PMI_SIZE of MPICH and Intel MPI;
/// - otherwise a world of one rank.
///
/// Where rank 0 listens is said by flags, HETHUB_MASTER_ADDR and HETHUB_MASTER_PORT, or MASTER_ADDR
/// and MASTER_PORT. Slurm's first host, and this host where all ranks of MPI are on it, need no
/// address; their port is then made from the job's number. HETHUB_IFACE has a list of interfaces
/// (comm/tcp/interfaces.h), HETHUB_SECRET or HETHUB_SECRET_FILE the secret.
///
/// `source` of the result says what was used. Throws kInvalidConfig naming the variables or flags
/// if some are set and others not, or they contradict each other.
RendezvousOptions rendezvous_from_environment(const Environment& environment,
                                              const RankFlags& flags = {});

}  // namespace hethub

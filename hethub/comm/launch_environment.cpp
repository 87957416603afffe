#include "hethub/comm/launch_environment.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "hethub/base/error.h"
#include "hethub/base/files.h"
#include "hethub/comm/host_list.h"

namespace hethub {
namespace {

constexpr int kMostRanks = 1'000'000;
constexpr const char* kFix = "let `hethub launch`, torchrun, srun or mpirun set them";

// The variables of one launcher.
struct Launcher {
  const char* name = nullptr;
  const char* rank = nullptr;
  const char* world_size = nullptr;
  const char* local_rank = nullptr;
  const char* local_size = nullptr;
  const char* job = nullptr;  // a text that the ranks of one job share; null: none
};

constexpr Launcher kHethub = {.name = "HETHUB_*",
                              .rank = "HETHUB_RANK",
                              .world_size = "HETHUB_WORLD_SIZE",
                              .local_rank = "HETHUB_LOCAL_RANK",
                              .local_size = "HETHUB_LOCAL_WORLD_SIZE"};
constexpr Launcher kTorchrun = {.name = "torchrun",
                                .rank = "RANK",
                                .world_size = "WORLD_SIZE",
                                .local_rank = "LOCAL_RANK",
                                .local_size = "LOCAL_WORLD_SIZE"};
constexpr std::array<Launcher, 3> kMpi = {{{.name = "Open MPI",
                                            .rank = "OMPI_COMM_WORLD_RANK",
                                            .world_size = "OMPI_COMM_WORLD_SIZE",
                                            .local_rank = "OMPI_COMM_WORLD_LOCAL_RANK",
                                            .local_size = "OMPI_COMM_WORLD_LOCAL_SIZE",
                                            .job = "PMIX_NAMESPACE"},
                                           {.name = "MVAPICH2",
                                            .rank = "MV2_COMM_WORLD_RANK",
                                            .world_size = "MV2_COMM_WORLD_SIZE",
                                            .local_rank = "MV2_COMM_WORLD_LOCAL_RANK",
                                            .local_size = "MV2_COMM_WORLD_LOCAL_SIZE"},
                                           {.name = "MPICH",
                                            .rank = "PMI_RANK",
                                            .world_size = "PMI_SIZE",
                                            .local_rank = "MPI_LOCALRANKID",
                                            .local_size = "MPI_LOCALNRANKS"}}};

[[noreturn]] void refuse(std::string what, std::string found, std::string expected,
                         std::string fix = kFix) {
  throw Error(ErrorCode::kInvalidConfig, {.what = std::move(what),
                                          .found = std::move(found),
                                          .expected = std::move(expected),
                                          .fix = std::move(fix)});
}

class PlaceReader {
 public:
  PlaceReader(const Environment& environment, const RankFlags& flags)
      : environment_(environment), flags_(flags) {}

  RendezvousOptions read() {
    read_rank();
    options_.interfaces =
        flags_.interfaces.empty() ? environment_("HETHUB_IFACE").value_or("") : flags_.interfaces;
    if (source_.empty()) {
      refuse_lone_address();
      options_.source = "a single process";
      return options_;
    }
    read_master();
    options_.source = text(source_, ": rank ", options_.rank, " of ", options_.world_size,
                           ", rank 0 at ", options_.master_address, " port ", options_.master_port);
    if (options_.world_size > 1) options_.secret = secret();
    return options_;
  }

 private:
  bool has(const char* name) const { return name != nullptr && environment_(name).has_value(); }
  std::string spelled(const char* name) const {
    return text(name, '=', environment_(name).value_or(""));
  }

  int number(const char* name, int least, int most) const {
    const std::string value = environment_(name).value_or("");
    int number = 0;
    const auto [end, failed] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (failed != std::errc() || end != value.data() + value.size() || number < least ||
        number > most) {
      refuse(text("environment variable ", name), text("'", value, "'"),
             text("a number from ", least, " to ", most));
    }
    return number;
  }

  void read_rank() {
    if (read_flags() || read_launcher(kHethub) || read_launcher(kTorchrun) || read_slurm()) return;
    for (const Launcher& launcher : kMpi) {
      if (!read_launcher(launcher)) continue;
      require_equal(launcher.rank, "PMIX_RANK");
      return;
    }
    if (has("PMIX_RANK")) {
      refuse("environment variables of the launcher", "PMIX_RANK without OMPI_COMM_WORLD_SIZE",
             "both, or HETHUB_RANK and HETHUB_WORLD_SIZE");
    }
  }

  bool read_flags() {
    if (!flags_.rank && !flags_.world_size) return false;
    if (!flags_.rank || !flags_.world_size) {
      refuse("options of a rank's place",
             flags_.rank ? "--rank without --world-size" : "--world-size without --rank",
             "both or none", "give both, or let a launcher set its variables");
    }
    if (*flags_.rank < 0 || *flags_.rank >= *flags_.world_size) {
      refuse("options --rank and --world-size",
             text("--rank ", *flags_.rank, " --world-size ", *flags_.world_size),
             "a rank from 0 on, below the world size", "number the ranks from 0");
    }
    options_.rank = *flags_.rank;
    options_.world_size = *flags_.world_size;
    options_.local_rank = flags_.local_rank.value_or(options_.rank);
    source_ = "options";
    return true;
  }

  // Whether the launcher's variables are there. They are all read, or an error.
  bool read_launcher(const Launcher& launcher) {
    if (!has(launcher.rank) && !has(launcher.world_size)) return false;
    if (!has(launcher.rank) || !has(launcher.world_size)) {
      const char* lacks = has(launcher.rank) ? launcher.world_size : launcher.rank;
      refuse("environment variables of the launcher",
             text(has(launcher.rank) ? launcher.rank : launcher.world_size, " without ", lacks),
             text(launcher.rank, " and ", launcher.world_size, ", both or none"));
    }
    options_.world_size = number(launcher.world_size, 1, kMostRanks);
    options_.rank = number(launcher.rank, 0, kMostRanks);
    require_below(launcher.rank, options_.rank, launcher.world_size, options_.world_size);
    options_.local_rank = options_.rank;
    if (has(launcher.local_rank)) options_.local_rank = number(launcher.local_rank, 0, kMostRanks);
    read_local_size(launcher);
    if (has(launcher.job)) job_ = *environment_(launcher.job);
    source_ = launcher.name;
    return true;
  }

  void read_local_size(const Launcher& launcher) {
    if (!has(launcher.local_size)) return;
    const int local_size = number(launcher.local_size, 1, kMostRanks);
    if (local_size > options_.world_size) {
      refuse(text("environment variables ", launcher.local_size, " and ", launcher.world_size),
             text(spelled(launcher.local_size), ' ', spelled(launcher.world_size)),
             text(launcher.local_size, " at most ", launcher.world_size));
    }
    options_.several_hosts = local_size < options_.world_size;
    if (!has(launcher.local_rank)) return;
    require_below(launcher.local_rank, options_.local_rank, launcher.local_size, local_size);
  }

  void require_below(const char* name, int value, const char* limit_name, int limit) const {
    if (value < limit) return;
    refuse(text("environment variables ", name, " and ", limit_name),
           text(spelled(name), ' ', spelled(limit_name)), text(name, " below ", limit_name));
  }

  void require_equal(const char* name, const char* other) const {
    if (!has(name) || !has(other) || environment_(name) == environment_(other)) return;
    refuse(text("environment variables ", name, " and ", other),
           text(spelled(name), ' ', spelled(other)), "the same number",
           "unset the one that another launcher left behind");
  }

  // ---- Slurm ------------------------------------------------------------------------------------

  // The shell of salloc or `srun --pty bash` and the script of sbatch are no ranks of a job.
  bool is_slurm_task() const {
    if (!has("SLURM_PROCID")) return false;
    const std::string job = environment_("SLURM_JOB_NAME").value_or("");
    if (job == "bash" || job == "interactive") return false;
    return has("SLURM_STEP_ID") || environment_("ENVIRONMENT").value_or("") != "BATCH";
  }

  bool read_slurm() {
    if (!is_slurm_task()) return false;
    require_equal("SLURM_NTASKS", "SLURM_NPROCS");
    const char* size = has("SLURM_NTASKS") ? "SLURM_NTASKS" : "SLURM_NPROCS";
    if (!has(size)) {
      refuse("environment variables of Slurm", "SLURM_PROCID without SLURM_NTASKS",
             "SLURM_PROCID and SLURM_NTASKS, both or none");
    }
    options_.world_size = number(size, 1, kMostRanks);
    options_.rank = number("SLURM_PROCID", 0, kMostRanks);
    require_below("SLURM_PROCID", options_.rank, size, options_.world_size);
    options_.local_rank =
        has("SLURM_LOCALID") ? number("SLURM_LOCALID", 0, kMostRanks) : options_.rank;
    const char* nodes = has("SLURM_NNODES") ? "SLURM_NNODES" : "SLURM_JOB_NUM_NODES";
    if (has(nodes)) {
      const int count = number(nodes, 1, kMostRanks);
      if (has("SLURM_NODEID")) {
        require_below("SLURM_NODEID", number("SLURM_NODEID", 0, kMostRanks), nodes, count);
      }
      options_.several_hosts = count > 1;
    }
    source_ = has("SLURM_HET_SIZE") ? "Slurm (heterogeneous job)" : "Slurm";
    master_host_ = first_slurm_host();
    if (has("SLURM_JOB_ID")) {
      job_ = text(*environment_("SLURM_JOB_ID"), '.', environment_("SLURM_STEP_ID").value_or("0"));
    }
    return true;
  }

  // Where rank 0 runs: the first host of the step; of a heterogeneous job, of its first component.
  std::string first_slurm_host() const {
    std::vector<std::string> names = {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST",
                                      "SLURM_NODELIST"};
    if (has("SLURM_HET_SIZE")) {
      const int components = number("SLURM_HET_SIZE", 1, kMostRanks);
      for (int group = 0; group < components; ++group) {
        const std::string name = text("SLURM_JOB_NODELIST_HET_GROUP_", group);
        if (has(name.c_str())) continue;
        refuse("environment variables of Slurm",
               text("SLURM_HET_SIZE=", components, " without ", name),
               "the list of nodes of each component");
      }
      names = {"SLURM_JOB_NODELIST_HET_GROUP_0"};
    }
    for (const std::string& name : names) {
      if (has(name.c_str())) return expand_host_list(*environment_(name)).front();
    }
    return {};
  }

  // ---- where rank 0 listens ---------------------------------------------------------------------

  // An address without a rank is half of something.
  void refuse_lone_address() const {
    std::string found;
    for (const char* name : {"HETHUB_MASTER_ADDR", "HETHUB_MASTER_PORT", "MASTER_ADDR",
                             "MASTER_PORT", "LOCAL_RANK", "HETHUB_LOCAL_RANK"}) {
      if (has(name)) found += text(found.empty() ? "" : ", ", name);
    }
    if (!flags_.master_address.empty() || flags_.master_port > 0) found = "--master-addr or --port";
    if (found.empty()) return;
    refuse("environment variables of the launcher", text(found, " without RANK, WORLD_SIZE"),
           "RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, all or none");
  }

  void read_master() {
    const char* address = has("HETHUB_MASTER_ADDR") ? "HETHUB_MASTER_ADDR" : "MASTER_ADDR";
    const char* port = has("HETHUB_MASTER_PORT") ? "HETHUB_MASTER_PORT" : "MASTER_PORT";
    options_.master_address = flags_.master_address;
    if (options_.master_address.empty()) {
      options_.master_address = environment_(address).value_or("");
    }
    options_.master_port = flags_.master_port;
    if (options_.master_port == 0 && has(port)) options_.master_port = number(port, 1, 65535);
    if (options_.world_size == 1) return;
    if (options_.master_address.empty()) options_.master_address = usual_address();
    if (options_.master_port == 0) options_.master_port = usual_port();
    if (!options_.master_address.empty() && options_.master_port > 0) return;
    const std::string missing =
        text(options_.master_address.empty() ? "MASTER_ADDR" : "",
             options_.master_address.empty() && options_.master_port == 0 ? ", " : "",
             options_.master_port == 0 ? "MASTER_PORT" : "");
    refuse("environment variables of the launcher",
           text(source_, " with ", options_.world_size, " ranks, without ", missing),
           "MASTER_ADDR and MASTER_PORT: a host name or address of rank 0, and a port there",
           "set them alike on all ranks (mpirun -x MASTER_ADDR -x MASTER_PORT)");
  }

  std::string usual_address() const {
    if (!master_host_.empty()) return master_host_;
    const bool on_one_host = !options_.several_hosts.value_or(true);
    return on_one_host && !job_.empty() ? "127.0.0.1" : "";
  }

  // Below the ports that systems give out by themselves, from 32768 on.
  int usual_port() const {
    if (job_.empty()) return 0;
    std::uint64_t hash = 14695981039346656037U;  // FNV-1a
    for (const char letter : job_) {
      hash = (hash ^ static_cast<unsigned char>(letter)) * 1099511628211U;
    }
    constexpr std::uint64_t kPorts = 12000;
    return 20000 + static_cast<int>(hash % kPorts);
  }

  std::string secret() const {
    const auto secret = environment_("HETHUB_SECRET");
    const auto file = environment_("HETHUB_SECRET_FILE");
    if (secret && !secret->empty()) return *secret;
    std::string read = file ? read_file(*file) : "";
    while (!read.empty() && (read.back() == '\n' || read.back() == '\r')) {
      read.pop_back();
    }
    if (!read.empty()) return read;
    refuse("environment variables HETHUB_SECRET and HETHUB_SECRET_FILE", "no secret",
           "one of them, alike on all ranks",
           "put 32 random bytes (openssl rand -hex 32) in a file that only you may read, and name "
           "it in HETHUB_SECRET_FILE");
  }

  const Environment& environment_;
  const RankFlags& flags_;
  RendezvousOptions options_ = {};
  std::string source_ = {};       // empty: nothing says that there are other ranks
  std::string master_host_ = {};  // as the launcher tells
  std::string job_ = {};          // the same on all ranks, of no other job
};

}  // namespace

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return value;
  };
}

RendezvousOptions rendezvous_from_environment(const Environment& environment,
                                              const RankFlags& flags) {
  return PlaceReader(environment, flags).read();
}

}  // namespace hethub

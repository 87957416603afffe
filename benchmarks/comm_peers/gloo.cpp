// Times gloo's all-reduce (float, sum, in place, over TCP on loopback) as `hethub bench comm` does:
// five batches, of each the slowest rank, of these the median. It starts its ranks itself.
//
//     gloo RANKS SECONDS BYTES...      one JSON object a line
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

constexpr int kBatches = 5;
constexpr int kWarmUps = 5;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void reduce(const std::shared_ptr<gloo::Context>& context,
            void (*how)(void*, const void*, const void*, size_t), std::vector<float>& data) {
  gloo::AllreduceOptions options(context);
  options.setOutput(data.data(), data.size());
  options.setReduceFunction(how);
  gloo::allreduce(options);
}

void sum(const std::shared_ptr<gloo::Context>& context, std::vector<float>& data) {
  reduce(context, &gloo::sum<float>, data);
}

void most(const std::shared_ptr<gloo::Context>& context, std::vector<float>& data) {
  reduce(context, &gloo::max<float>, data);
}

void barrier(const std::shared_ptr<gloo::Context>& context) {
  gloo::BarrierOptions options(context);
  gloo::barrier(options);
}

double time_of(const std::shared_ptr<gloo::Context>& context, std::vector<float>& data,
               double seconds) {
  for (int repeat = 0; repeat < kWarmUps; ++repeat)
    sum(context, data);
  barrier(context);
  double begin = now();
  for (int repeat = 0; repeat < kWarmUps; ++repeat)
    sum(context, data);
  // The slowest rank says how many calls a batch has, so that all make as many.
  std::vector<float> each = {static_cast<float>((now() - begin) / kWarmUps)};
  most(context, each);
  const int calls = std::clamp(static_cast<int>(seconds / kBatches / each[0]), 1, 20000);
  std::vector<float> batches(kBatches);
  for (float& batch : batches) {
    barrier(context);
    begin = now();
    for (int repeat = 0; repeat < calls; ++repeat)
      sum(context, data);
    batch = static_cast<float>((now() - begin) / calls);
  }
  most(context, batches);
  std::sort(batches.begin(), batches.end());
  return batches[kBatches / 2];
}

void run(int rank, int ranks, const std::string& folder, double seconds, char** sizes) {
  if (ranks <= sysconf(_SC_NPROCESSORS_ONLN)) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(rank, &set);
    sched_setaffinity(0, sizeof set, &set);
  }
  gloo::transport::tcp::attr where;
  where.hostname = "127.0.0.1";
  auto device = gloo::transport::tcp::CreateDevice(where);
  gloo::rendezvous::FileStore store(folder);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
  context->connectFullMesh(store, device);
  for (; *sizes != nullptr; ++sizes) {
    const long bytes = std::atol(*sizes);
    std::vector<float> data(static_cast<size_t>(bytes) / sizeof(float));
    const double each = time_of(context, data, seconds);
    if (rank == 0) std::printf("{\"bytes\": %ld, \"all_reduce\": %.9f}\n", bytes, each);
    std::fflush(stdout);
  }
  barrier(context);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 64;
  const int ranks = std::atoi(argv[1]);
  std::string folder = "/tmp/gloo-bench-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) return 73;
  for (int rank = 0; rank < ranks; ++rank) {
    if (fork() == 0) {
      run(rank, ranks, folder, std::atof(argv[2]), argv + 3);
      _exit(0);
    }
  }
  int failed = 0;
  for (int status = 0; wait(&status) > 0;)
    failed |= status;
  std::system(("rm -r " + folder).c_str());
  return failed == 0 ? 0 : 70;
}

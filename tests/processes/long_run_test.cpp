// Twelve ranks of three kinds, with tensor, pipeline and data parallel, ZeRO 1, recompute and sums
// beside the backward pass, run long: their memory stays flat, and no file or thread is left over.
// HETHUB_LONG=1 makes it 1,000 steps and prints a table.

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <thread>

#include <gtest/gtest.h>

#include "program.h"

namespace hethub {
namespace {

constexpr const char* kEmulated = "emulated:A100-80GB-SXM:scale=0.01";

// What a process holds. The rings of messages in shared memory are of one size, but their pages
// become resident only as messages first reach them, those of few and small messages over thousands
// of steps: they are counted apart.
struct Held {
  std::int64_t own_kib = 0;
  std::int64_t ring_kib = 0;
  std::ptrdiff_t files = 0;
  std::ptrdiff_t threads = 0;
};

std::ptrdiff_t entries_of(const std::filesystem::path& folder) {
  return std::distance(std::filesystem::directory_iterator(folder), {});
}

Held held_by(const std::filesystem::path& process) {
  Held held;
  std::ifstream status(process / "status");
  for (std::string word; status >> word;) {
    std::int64_t kib = 0;
    if (word == "RssAnon:" || word == "RssFile:" || word == "RssShmem:") status >> kib;
    (word == "RssShmem:" ? held.ring_kib : held.own_kib) += kib;
  }
  held.files = entries_of(process / "fd");
  held.threads = entries_of(process / "task");
  return held;
}

// The program's processes that work in a folder, by their numbers.
std::map<std::string, Held> processes_in(const std::filesystem::path& folder) {
  const std::filesystem::path program = std::filesystem::canonical(HETHUB_PROGRAM);
  std::map<std::string, Held> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::error_code ended;
    const bool mine = std::filesystem::read_symlink(entry.path() / "exe", ended) == program &&
                      std::filesystem::read_symlink(entry.path() / "cwd", ended) == folder;
    if (mine && !ended) found[name] = held_by(entry.path());
  }
  return found;
}

Stage two_ranks(const std::string& kind, int first, LayerRange layers) {
  return {.kind = kind,
          .ranks = {first, first + 1},
          .tensor_parallel = 2,
          .layers = {layers},
          .recompute = {{Recompute::kFull, {layers.begin, layers.begin + 1}}}};
}

Plan twelve_ranks() {
  Plan plan{.model = "config.json", .sequence_length = 32, .zero_stage = 1, .overlap = true};
  plan.pipelines = {{.micro_batch_size = 1,
                     .micro_batches = 3,
                     .stages = {two_ranks("cpu", 0, {0, 2}), two_ranks("opencl", 2, {2, 3}),
                                two_ranks(kEmulated, 4, {3, 4})}},
                    {.micro_batch_size = 1,
                     .micro_batches = 2,
                     .stages = {two_ranks(kEmulated, 6, {0, 1}), two_ranks("cpu", 8, {1, 3}),
                                two_ranks("opencl", 10, {3, 4})}}};
  plan.global_batch = 5;
  return plan;
}

std::int64_t last_step(const std::string& log) {
  if (!std::filesystem::exists(log)) return 0;
  std::int64_t last = 0;
  std::ifstream in(log);
  for (std::string line; std::getline(in, line);) {
    const Json json = Json::parse(line, nullptr, false);  // its last line may be half written
    if (json.is_object() && json.contains("loss")) last = json["step"].get<std::int64_t>();
  }
  return last;
}

// Waits until the log has that step, or ten minutes.
void await_step(const std::string& log, std::int64_t step) {
  for (int tries = 0; tries < 6000 && last_step(log) < step; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

TEST(LongRun, of_twelve_ranks_on_three_kinds_takes_no_more_memory_files_or_threads) {
  const bool is_long = std::getenv("HETHUB_LONG") != nullptr;
  const std::int64_t steps = is_long ? 1000 : 120;
  const Workspace space("long");
  space.make_data(40);
  space.write("plan.json", to_json(twelve_ranks()).dump());
  Outcome outcome;
  std::thread run([&] {
    outcome = space.hethub(
        text("launch --plan plan.json -- train --data text --held-out-fraction 0 --steps ", steps,
             " --lr 1e-3 --log-json log.jsonl"));
  });
  await_step(space.path("log.jsonl"), steps / 4);
  const std::filesystem::path folder = std::filesystem::canonical(space.path("."));
  const auto early = processes_in(folder);
  await_step(space.path("log.jsonl"), steps * 9 / 10);
  const auto late = processes_in(folder);
  run.join();
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  ASSERT_EQ(early.size(), 13U);  // the ranks, and who started them
  for (const auto& [process, before] : early) {
    ASSERT_TRUE(late.contains(process));
    const Held& after = late.at(process);
    EXPECT_LE(static_cast<double>(after.own_kib), 1.01 * static_cast<double>(before.own_kib));
    EXPECT_LE(after.ring_kib, 11 * 2 * 1024);  // two of 1 MiB for each other rank
    EXPECT_LE(after.files, before.files + 1);  // one may be open for a moment
    EXPECT_EQ(after.threads, before.threads);
    if (!is_long) continue;
    std::cout << "process " << process << ": " << before.own_kib << " to " << after.own_kib
              << " KiB, rings " << before.ring_kib << " to " << after.ring_kib << " KiB, "
              << after.files << " files, " << after.threads << " threads\n";
  }
  const auto logged = steps_of(space.path("log.jsonl"));
  EXPECT_LT(logged.at(steps)["loss"].get<double>(), logged.at(1)["loss"].get<double>());
  EXPECT_TRUE(processes_in(folder).empty());
}

}  // namespace
}  // namespace hethub

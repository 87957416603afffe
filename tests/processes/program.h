#pragma once

#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include "hethub/base/files.h"
#include "hethub/base/json.h"
#include "hethub/base/text.h"
#include "hethub/plan/plan_file.h"

namespace hethub {

/// How a command ended, and what it wrote to both of its outputs.
struct Outcome {
  int status = -1;
  std::string output = {};
  double seconds = 0;

  bool says(const std::string& part) const { return output.find(part) != std::string::npos; }
};

inline Outcome run_command(const std::string& command) {
  const auto begin = std::chrono::steady_clock::now();
  Outcome outcome;
  FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  std::array<char, 4096> block = {};
  while (const std::size_t got = std::fread(block.data(), 1, block.size(), pipe)) {
    outcome.output.append(block.data(), got);
  }
  const int status = ::pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return outcome;
}

/// A folder of its own for one test, with a tiny model and a made-up text; removed at the end.
class Workspace {
 public:
  explicit Workspace(const std::string& name)
      : folder_(text(testing::TempDir(), "hethub-", name, "-", ::getpid())) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    write("config.json", config());
  }
  ~Workspace() { std::filesystem::remove_all(folder_); }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  static std::string config(const std::string& more = "") {
    return R"({"model_type":"llama","vocab_size":257,"hidden_size":64,"intermediate_size":128,
      "num_hidden_layers":4,"num_attention_heads":4,"max_position_embeddings":128,
      "rms_norm_eps":1e-5)" +
           more + "}";
  }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  void write(const std::string& name, const std::string& content) const {
    write_file(folder_ / name, content);
  }

  /// Runs `hethub ARGUMENTS` in the folder.
  Outcome hethub(const std::string& arguments) const {
    return run_command(text("cd ", folder_.string(), " && ", HETHUB_PROGRAM, " ", arguments));
  }

  /// `samples` sequences of 32 tokens as text.bin and text.idx.
  void make_data(int samples) const {
    std::string words;
    std::uint32_t state = 7;
    while (std::ssize(words) < samples * 32 + 1) {
      state = state * 1664525U + 1013904223U;
      words +=
          std::string(1 + (state >> 28U) % 5, static_cast<char>('a' + (state >> 20U) % 26)) + " ";
    }
    write("text.txt", words.substr(0, static_cast<std::size_t>(samples) * 32 + 1));
    const Outcome made = hethub("data tokenize --input text.txt --tokenizer bytes -o text");
    if (made.status != 0) throw std::runtime_error(made.output);
  }

  void write_plan(const std::string& name, std::vector<Pipeline> pipelines,
                  const std::string& schedule = "1f1b") const {
    Plan plan{.model = "config.json",
              .sequence_length = 32,
              .schedule = schedule,
              .pipelines = std::move(pipelines)};
    for (const Pipeline& pipeline : plan.pipelines) {
      plan.global_batch += pipeline.sequences();
    }
    write(name, to_json(plan).dump());
  }

 private:
  std::filesystem::path folder_;
};

inline Stage stage_of(const std::string& kind, int rank, int begin, int end) {
  return {.kind = kind, .ranks = {rank}, .layers = {{begin, end}}};
}

/// A replica of the tiny model on one rank.
inline Pipeline replica_of(const std::string& kind, int rank, int size, int count) {
  return {.micro_batch_size = size, .micro_batches = count, .stages = {stage_of(kind, rank, 0, 4)}};
}

/// The lines of a log that speak of steps, by step; where a step was done twice, the last.
inline std::map<std::int64_t, Json> steps_of(const std::string& file) {
  std::map<std::int64_t, Json> steps;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const Json json = Json::parse(line);
    if (json.contains("loss")) steps[json["step"].get<std::int64_t>()] = json;
  }
  return steps;
}

}  // namespace hethub

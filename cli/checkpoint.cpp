#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/verb.h"
#include "hethub/base/json.h"
#include "hethub/checkpoint/check.h"
#include "hethub/checkpoint/export.h"
#include "hethub/checkpoint/folder.h"
#include "hethub/checkpoint/inspect.h"
#include "hethub/checkpoint/reader.h"
#include "hethub/model/file_parts.h"

namespace hethub {
namespace {

struct PathArguments {
  std::string path = {};
};

struct ExportArguments {
  std::string path = {};
  std::string output = {};
  double most_file_gb = 5;
};

int run_inspect(const PathArguments& arguments, bool json) {
  std::cout << inspect(arguments.path, json);
  return 0;
}

void print_checked(const CheckedCheckpoint& checked) {
  for (const std::string& fault : checked.faults) {
    std::cout << checked.folder.string() << ": " << fault << '\n';
  }
  std::cout << "step " << checked.step << ": ";
  if (checked.shards == 0) {
    std::cout << "not a checkpoint that can be opened\n";
    return;
  }
  std::cout << checked.shards - std::ssize(checked.faults) << " of " << checked.shards
            << " shards are as they were written\n";
}

// The newest decides, even where an older one is good.
int run_verify(const PathArguments& arguments, bool json) {
  const std::vector<CheckedCheckpoint> all = check_checkpoints(arguments.path);
  const CheckedCheckpoint& newest = all.front();
  const bool any_good = all.back().good();
  if (json) {
    Json report = {{"folder", newest.folder.string()},
                   {"step", newest.step},
                   {"shards", newest.shards},
                   {"faults", newest.faults},
                   {"newest_good_step", nullptr}};
    if (any_good) report["newest_good_step"] = all.back().step;
    std::cout << report.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
    return newest.good() ? 0 : 1;
  }
  for (const CheckedCheckpoint& checked : all) {
    print_checked(checked);
  }
  if (newest.good()) return 0;
  if (any_good) {
    std::cout << "the newest good one is step " << all.back().step << '\n';
  } else if (all.size() > 1) {
    std::cout << "none of them is good\n";
  }
  return 1;
}

// The tensors of the family's files, where they are not the checkpoint's as they are.
std::vector<ExportTensor> file_tensors(const ModelConfig& model) {
  std::vector<ExportTensor> all;
  bool differ = false;
  for (const FileTensor& file : file_tensors_of(model)) {
    ExportTensor& made = all.emplace_back();
    made = {.name = file.name, .shape = file.shape, .transposed = file.transposed};
    for (const auto& [tensor, part] : file.parts) {
      differ = differ || tensor.name != file.name;
      made.parts.push_back({.tensor = tensor.name,
                            .row = part.row,
                            .rows = part.rows,
                            .row_length = tensor.elements() / tensor.shape[0],
                            .first = part.first});
    }
  }
  return differ ? all : std::vector<ExportTensor>();
}

int run_export(const ExportArguments& arguments, bool json) {
  const Checkpoint checkpoint = Checkpoint::open(resolve_checkpoint(arguments.path));
  const ModelConfig model = parse_model(checkpoint.facts().model_config, "model_config");
  export_hugging_face(checkpoint, arguments.output,
                      {.tensors = file_tensors(model),
                       .most_file_bytes = static_cast<std::int64_t>(arguments.most_file_gb * 1e9)});
  if (json) {
    const Json report = {{"folder", checkpoint.folder().string()},
                         {"step", checkpoint.facts().step},
                         {"output", arguments.output}};
    std::cout << report.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
    return 0;
  }
  std::cout << "step " << checkpoint.facts().step << " -> " << arguments.output << '\n';
  return 0;
}

void add_inspect(CLI::App& checkpoint, VerbCall& call) {
  CLI::App& command = *checkpoint.add_subcommand("inspect", "list tensors and facts");
  const auto arguments = std::make_shared<PathArguments>();
  command
      .add_option("path", arguments->path,
                  "a .safetensors file, a Hugging Face folder, a checkpoint or a run's folder")
      ->required();
  command.footer("Example: hethub checkpoint inspect runs/a/step-20");
  on_chosen(command, call, "checkpoint inspect", arguments, run_inspect);
}

void add_checksums(CLI::App& checkpoint, VerbCall& call) {
  CLI::App& command = *checkpoint.add_subcommand("verify", "compare checksums; exit 1 if wrong");
  const auto arguments = std::make_shared<PathArguments>();
  command.add_option("dir", arguments->path, "a checkpoint, or a run's folder: its newest decides")
      ->required();
  command.footer("Example: hethub checkpoint verify runs/a");
  on_chosen(command, call, "checkpoint verify", arguments, run_verify);
}

void add_export(CLI::App& checkpoint, VerbCall& call) {
  CLI::App& command = *checkpoint.add_subcommand("export", "write a Hugging Face folder");
  const auto arguments = std::make_shared<ExportArguments>();
  command.add_option("dir", arguments->path, "a checkpoint, or a run's folder: its newest")
      ->required();
  command.add_option("-o,--output", arguments->output, "the folder to make")->required();
  command.add_option("--shard-gb", arguments->most_file_gb, "split weights above this size (10^9)")
      ->check(CLI::Range(1e-6, 1e6))
      ->capture_default_str();
  command.footer("Example: hethub checkpoint export runs/a -o model");
  on_chosen(command, call, "checkpoint export", arguments, run_export);
}

}  // namespace

void add_checkpoint(CLI::App& app, VerbCall& call) {
  CLI::App& checkpoint =
      *app.add_subcommand("checkpoint", "look into, verify and export saved states");
  checkpoint.require_subcommand(1);
  add_inspect(checkpoint, call);
  add_checksums(checkpoint, call);
  add_export(checkpoint, call);
}

}  // namespace hethub

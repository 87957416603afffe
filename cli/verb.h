#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <CLI/CLI.hpp>

#include "hethub/base/error.h"

namespace hethub {

/// What the chosen verb does once its options are read.
struct VerbCall {
  std::string verb = {};          ///< as in messages: "plan", "checkpoint verify"
  bool json = false;              ///< the user wants output for machines, errors too
  std::function<int()> run = {};  ///< returns the exit status
};

/// Makes `run` what the program does when `command` is chosen, and gives it the option --json.
template <typename Options>
void on_chosen(CLI::App& command, VerbCall& call, std::string verb,
               std::shared_ptr<Options> options, int (*run)(const Options&, bool json)) {
  command.add_flag("--json")->description("print JSON, for machines");
  command.callback([&command, &call, verb = std::move(verb), options = std::move(options), run] {
    call.verb = verb;
    call.json = command.count("--json") > 0;
    call.run = [&call, options, run] { return run(*options, call.json); };
  });
}

/// What is told of an exception that is none of ours: a fault of the program.
inline Error unexpected(const std::exception& error) {
  return {ErrorCode::kInternal,
          {.what = "unexpected failure",
           .found = error.what(),
           .expected = "none",
           .fix = "report it with the command that led here"}};
}

// One file a verb: each adds its command to the program's.
void add_bench(CLI::App& app, VerbCall& call);
void add_checkpoint(CLI::App& app, VerbCall& call);
void add_cluster(CLI::App& app, VerbCall& call);
void add_data(CLI::App& app, VerbCall& call);
void add_devices(CLI::App& app, VerbCall& call);
void add_launch(CLI::App& app, VerbCall& call);
void add_plan(CLI::App& app, VerbCall& call);
void add_predict(CLI::App& app, VerbCall& call);
void add_profile(CLI::App& app, VerbCall& call);
void add_report(CLI::App& app, VerbCall& call);
void add_train(CLI::App& app, VerbCall& call);
void add_verify(CLI::App& app, VerbCall& call);

}  // namespace hethub

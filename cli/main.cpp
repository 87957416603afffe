#include <exception>
#include <iostream>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/flight.h"
#include "cli/verb.h"
#include "hethub/base/error.h"
#include "hethub/base/json.h"
#include "hethub/base/version.h"

namespace hethub {
namespace {

using AddVerb = void (*)(CLI::App& app, VerbCall& call);

// The verbs, in the order in which --help lists them.
const std::vector<AddVerb>& verbs() {
  static const std::vector<AddVerb> kAll = {
      // one a line
      add_devices, add_cluster, add_checkpoint, add_plan,   add_predict, add_profile,
      add_data,    add_launch,  add_train,      add_report, add_verify,  add_bench,
  };
  return kAll;
}

// One line for a person, or one JSON object for a machine.
int report(const Error& error, const VerbCall& call) {
  if (call.json) {
    const Json json = {{"error", name_of(error.code())},     {"verb", call.verb},
                       {"what", error.parts().what},         {"found", error.parts().found},
                       {"expected", error.parts().expected}, {"fix", error.parts().fix}};
    std::cerr << json.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
  } else {
    std::cerr << "hethub: " << call.verb << ": " << error.what() << '\n';
  }
  return exit_status_of(error.code());
}

int run_verb(const VerbCall& call) {
  try {
    return call.run();
  } catch (const Error& error) {
    return report(error, call);
  } catch (const std::exception& error) {
    return report(unexpected(error), call);
  }
}

int run(int argc, char** argv) {
  CLI::App app("hethub trains large language models on accelerators of different kinds");
  app.set_version_flag("--version", std::string(version()));
  app.require_subcommand(1);
  VerbCall call;
  for (const AddVerb add : verbs()) {
    add(app, call);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : exit_status_of(ErrorCode::kUsage);
  }
  return run_verb(call);
}

}  // namespace
}  // namespace hethub

int main(int argc, char** argv) {
  hethub::hold_flight_signal();
  return hethub::run(argc, argv);
}

#include "hethub/report/run_log.h"

#include <map>
#include <sstream>

#include <nlohmann/json.hpp>

#include "hethub/base/error.h"
#include "hethub/base/files.h"
#include "hethub/base/json.h"

namespace hethub {
namespace {

LoggedStep step_of(const Json& line, const std::string& where) {
  const double none = std::numeric_limits<double>::quiet_NaN();
  return {.step = get<std::int64_t>(line, where, "step"),
          .loss = get_or<double>(line, where, "loss", none),
          .step_seconds = get<double>(line, where, "step_seconds"),
          .tokens_per_second = get<double>(line, where, "tokens_per_second"),
          .predicted_step_seconds = get_or<double>(line, where, "predicted_step_seconds", 0),
          .peak_resident_bytes = get_or<std::int64_t>(line, where, "peak_resident_bytes", 0),
          .skipped = get_or<std::int64_t>(line, where, "skipped", 0) != 0};
}

// Gathers lines; later ones replace earlier ones of the same step.
class LogReader {
 public:
  void read(const std::string& line, const std::string& where) {
    const Json json = parse_json(line, where);
    if (json.is_object() && json.contains("pacing")) {
      emulated_ = true;
      void_ = void_ || get_or<bool>(json, where, "void", false);
      return;
    }
    if (!json.is_object() || !json.contains("step")) {
      throw Error(ErrorCode::kCorruptData, {.what = where,
                                            .found = line.substr(0, 60),
                                            .expected = "an object with \"step\"",
                                            .fix = "remove the line"});
    }
    if (json.contains("held_out_loss")) {
      const auto step = get<std::int64_t>(json, where, "step");
      evaluations_[step] = {.step = step, .loss = get<double>(json, where, "held_out_loss")};
      return;
    }
    const LoggedStep step = step_of(json, where);
    emulated_ = emulated_ || get_or<bool>(json, where, "emulated", false);
    steps_[step.step] = step;
  }

  RunLog log() const {
    RunLog log{.emulated = emulated_, .is_void = void_};
    for (const auto& [step, line] : steps_) {
      log.steps.push_back(line);
    }
    for (const auto& [step, line] : evaluations_) {
      log.evaluations.push_back(line);
    }
    return log;
  }

 private:
  std::map<std::int64_t, LoggedStep> steps_ = {};
  std::map<std::int64_t, LoggedEvaluation> evaluations_ = {};
  bool emulated_ = false;
  bool void_ = false;
};

}  // namespace

RunLog parse_run_log(const std::string& text, const std::string& name) {
  LogReader reader;
  std::istringstream lines(text);
  std::int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.empty()) continue;
    const std::string where = hethub::text(name, ":", number);
    try {
      reader.read(line, where);
    } catch (const Error& error) {
      throw Error(ErrorCode::kCorruptData,
                  {.what = error.code() == ErrorCode::kCorruptData ? where : error.parts().what,
                   .found = error.parts().found,
                   .expected = error.parts().expected,
                   .fix = "remove the line, or name the log of the run with --log"});
    }
  }
  return reader.log();
}

RunLog read_run_log(const std::filesystem::path& file) {
  return parse_run_log(read_file(file), file.string());
}

}  // namespace hethub

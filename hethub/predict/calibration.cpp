#include "hethub/predict/calibration.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "hethub/base/text.h"
#include "hethub/predict/run_pricer.h"

namespace hethub {
namespace {

struct Constant {
  const char* name;
  double least;
  double most;
  double& (*of)(EfficiencyClass&);
};

// Limits are physical: no library has been measured above 0.82 of a peak.
constexpr std::array<Constant, 8> kConstants = {{
    {"products", 0.2, 0.82, [](EfficiencyClass& c) -> double& { return c.ops.products; }},
    {"half_size", 5, 200, [](EfficiencyClass& c) -> double& { return c.ops.half_size; }},
    {"attention", 0.2, 0.7, [](EfficiencyClass& c) -> double& { return c.ops.attention; }},
    {"portable_attention", 0.1, 0.7,
     [](EfficiencyClass& c) -> double& { return c.ops.portable_attention; }},
    {"memory", 0.6, 0.9, [](EfficiencyClass& c) -> double& { return c.ops.memory; }},
    {"launch_us", 5e-6, 100e-6, [](EfficiencyClass& c) -> double& { return c.ops.launch_s; }},
    {"link", 0.03, 0.9, [](EfficiencyClass& c) -> double& { return c.link; }},
    {"network", 0.25, 0.9, [](EfficiencyClass& c) -> double& { return c.network; }},
}};

// A row that is further off does not pull: something else was wrong with it, or with us.
constexpr double kMostError = 0.3;

class Fit {
 public:
  Fit(const Sheets& sheets, const PublishedRuns& runs) : sheets_(sheets), pricer_(sheets_) {
    for (const PublishedRun& run : runs.runs) {
      if (!pricer_.obstacle(run).empty() || run.impaired || run.dtype == "fp8") continue;
      runs_.push_back(&run);
      ++rows_of_[run.part];
      for (const auto& kinds : run.stage_kinds) {
        for (const std::string& kind : kinds) {
          classes_of_[&run].insert(sheets_.find(kind)->efficiency_class);
        }
      }
      errors_.push_back(0);
    }
    measure("");
  }

  Calibration run(const CalibrationOptions& options) {
    Calibration made{.error_before = objective(), .rows = static_cast<int>(runs_.size())};
    for (auto& [name, body] : sheets_.classes) {
      if (!uses(name)) continue;
      for (const Constant& constant : kConstants) {
        const double value = constant.of(body);
        made.constants.push_back({text(name, '.', constant.name), value, value});
      }
    }
    constexpr std::array kSteps = {0.3, 0.12, 0.05, 0.02};
    for (int round = 0; round < options.rounds; ++round) {
      const double step = kSteps[static_cast<std::size_t>(round) % kSteps.size()];
      each([&](const std::string& name, EfficiencyClass& body, const Constant& constant, int) {
        improve(name, constant, constant.of(body), step);
      });
    }
    each([&](const std::string& name, EfficiencyClass& body, const Constant& constant, int at) {
      made.constants[at].after = constant.of(body);
      made.constants[at].low = bound(name, constant, constant.of(body), 0.93);
      made.constants[at].high = bound(name, constant, constant.of(body), 1.07);
    });
    made.error_after = objective();
    made.sheets = sheets_;
    return made;
  }

 private:
  template <typename Visit>
  void each(const Visit& visit) {
    int at = 0;
    for (auto& [name, body] : sheets_.classes) {
      if (!uses(name)) continue;
      for (const Constant& constant : kConstants) {
        visit(name, body, constant, at++);
      }
    }
  }

  bool uses(const std::string& name) const {
    return std::any_of(classes_of_.begin(), classes_of_.end(),
                       [&](const auto& one) { return one.second.contains(name); });
  }

  // Prices again what a class touches; "" is all.
  void measure(const std::string& name) {
    sheets_.apply_classes();
    for (std::size_t at = 0; at < runs_.size(); ++at) {
      if (!name.empty() && !classes_of_[runs_[at]].contains(name)) continue;
      const double error = pricer_.price(*runs_[at]).step_s / runs_[at]->measured_s - 1;
      errors_[at] = std::min(std::abs(error), kMostError);
    }
  }

  double objective() const {
    double sum = 0;
    for (std::size_t at = 0; at < runs_.size(); ++at) {
      sum += errors_[at] / rows_of_.at(runs_[at]->part);
    }
    return rows_of_.empty() ? 0 : sum / static_cast<double>(rows_of_.size());
  }

  // Goes on one way for as long as that helps.
  void improve(const std::string& name, const Constant& constant, double& value, double step) {
    for (const double factor : {1 + step, 1 / (1 + step)}) {
      bool helped = false;
      while (try_value(name, value, std::clamp(value * factor, constant.least, constant.most))) {
        helped = true;
      }
      if (helped) return;
    }
  }

  bool try_value(const std::string& name, double& value, double wanted) {
    if (wanted == value) return false;
    const double best = objective();
    const double kept = std::exchange(value, wanted);
    const std::vector<double> errors = errors_;
    measure(name);
    if (objective() < best) return true;
    value = kept;
    errors_ = errors;
    sheets_.apply_classes();
    return false;
  }

  double bound(const std::string& name, const Constant& constant, double& value, double factor) {
    const double most = 1.1 * objective();
    const double kept = value;
    const std::vector<double> errors = errors_;
    double last = kept;
    for (int step = 0; step < 8; ++step) {
      value = std::clamp(value * factor, constant.least, constant.most);
      measure(name);
      if (objective() > most || value == last) break;
      last = value;
    }
    value = kept;
    errors_ = errors;
    sheets_.apply_classes();
    return last;
  }

  Sheets sheets_;
  RunPricer pricer_;
  std::vector<const PublishedRun*> runs_ = {};
  std::vector<double> errors_ = {};
  std::map<std::string, int> rows_of_ = {};
  std::map<const PublishedRun*, std::set<std::string>> classes_of_ = {};
};

}  // namespace

Calibration calibrate(const Sheets& sheets, const PublishedRuns& runs,
                      const CalibrationOptions& options) {
  Sheets start = sheets;
  for (auto& [name, body] : start.classes) {
    const auto any = sheets.classes.find("any");
    if (options.afresh && any != sheets.classes.end()) body = any->second;
  }
  start.apply_classes();
  return Fit(start, runs).run(options);
}

}  // namespace hethub

#include "cli/verify_table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <limits>

#include <nlohmann/json.hpp>

#include "hethub/base/error.h"
#include "hethub/base/json.h"

namespace hethub {
namespace {

OptimizerOptions read_optimizer(const Json& json, const std::string& where) {
  OptimizerOptions optimizer{.learning_rate = get<double>(json, where, "lr"),
                             .beta1 = get<double>(json, where, "beta1"),
                             .beta2 = get<double>(json, where, "beta2"),
                             .epsilon = get<double>(json, where, "eps"),
                             .weight_decay = get<double>(json, where, "weight_decay"),
                             .clip_norm = get<double>(json, where, "clip"),
                             .schedule = "constant"};
  const std::string decayed = get_or<std::string>(json, where, "decayed", "2-D tensors only");
  if (decayed != "2-D tensors only") {
    throw Error(ErrorCode::kInvalidConfig, {.what = where + ": decayed",
                                            .found = decayed,
                                            .expected = "2-D tensors only",
                                            .fix = "make the reference with that rule"});
  }
  return optimizer;
}

VerifyRow row(std::string name, double expected, double found, double tolerance) {
  const double scale = std::abs(expected) > 0 ? std::abs(expected) : 1;
  return {std::move(name), expected, found, std::abs(found - expected) / scale, tolerance};
}

}  // namespace

ExpectedNumbers read_expected(const std::filesystem::path& file, const std::string& reference) {
  const Json json = read_document(file);
  const std::string where = file.string();
  if (!json.contains(reference) || !json.contains("optimizer")) {
    throw Error(ErrorCode::kInvalidConfig, {.what = where,
                                            .found = "no \"optimizer\" or no \"" + reference + "\"",
                                            .expected = "both",
                                            .fix = "name the section with --reference"});
  }
  const Json& section = json.at(reference);
  ExpectedNumbers expected{.optimizer = read_optimizer(json.at("optimizer"), where + ": optimizer"),
                           .loss = get<double>(section, where, "loss"),
                           .gradient_norm = get<double>(section, where, "grad_norm"),
                           .losses = get<std::vector<double>>(section, where, "training_losses")};
  const Json norms = section.value("param_grad_norms", Json::object());
  for (const auto& [name, norm] : norms.items()) {
    expected.gradient_norms[name] = get<double>(norms, where + ": param_grad_norms", name);
  }
  return expected;
}

std::vector<VerifyRow> compare(const ExpectedNumbers& expected, const FoundNumbers& found,
                               const VerifyTolerances& tolerances) {
  constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();
  std::vector<VerifyRow> rows = {
      row("first loss", expected.loss, found.loss, tolerances.loss),
      row("gradient norm", expected.gradient_norm, found.gradient_norm, tolerances.gradient_norm)};
  for (const auto& [name, norm] : expected.gradient_norms) {
    const auto at = found.gradient_norms.find(name);
    const double mine = at == found.gradient_norms.end() ? kNothing : at->second;
    rows.push_back(row("gradient norm " + name, norm, mine, tolerances.gradient_norm));
  }
  for (std::size_t step = 0; step < expected.losses.size(); ++step) {
    const double mine = step < found.losses.size() ? found.losses[step] : kNothing;
    rows.push_back(
        row(text("loss of step ", step + 1), expected.losses[step], mine, tolerances.losses));
  }
  return rows;
}

int print_rows(const std::vector<VerifyRow>& rows, const std::string& title, bool json) {
  const auto failed =
      std::count_if(rows.begin(), rows.end(), [](const VerifyRow& one) { return !one.passed(); });
  if (json) {
    Json list = Json::array();
    for (const VerifyRow& one : rows) {
      list.push_back({{"name", one.name},
                      {"expected", one.expected},
                      {"found", one.found},
                      {"relative_error", one.error},
                      {"tolerance", one.tolerance},
                      {"passed", one.passed()}});
    }
    std::cout << Json({{"title", title}, {"failed", failed}, {"rows", list}}).dump(1) << '\n';
    return static_cast<int>(failed);
  }
  std::cout << title << '\n';
  std::printf("%-56s %18s %18s %10s %10s\n", "number", "expected", "found", "error", "tolerance");
  for (const VerifyRow& one : rows) {
    std::printf("%-56s %18.10f %18.10f %10.2e %10.0e%s\n", one.name.c_str(), one.expected,
                one.found, one.error, one.tolerance, one.passed() ? "" : "  WRONG");
  }
  std::fflush(stdout);
  std::cout << rows.size() - static_cast<std::size_t>(failed) << " right, " << failed << " wrong"
            << std::endl;
  return static_cast<int>(failed);
}

}  // namespace hethub

#include "hethub/train/progress.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>

#include <nlohmann/json.hpp>

#include "hethub/base/files.h"
#include "hethub/base/json.h"
#include "hethub/base/text.h"

namespace hethub {
namespace {

template <typename... Args>
std::string printed(const char* format, Args... args) {
  std::array<char, 128> out = {};
  std::snprintf(out.data(), out.size(), format, args...);
  return out.data();
}

double tokens_per_second(const StepResult& result, const ProgressFacts& facts) {
  return facts.step_seconds > 0 ? result.tokens / facts.step_seconds : 0;
}

double gemm_fraction(const StepResult& result, const ProgressFacts& facts) {
  if (facts.gemm_flops_per_s <= 0) return 0;
  return tokens_per_second(result, facts) * facts.flops_per_token / facts.gemm_flops_per_s;
}

// Numbers that are none have no place in JSON.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

}  // namespace

std::string duration_text(double seconds) {
  const auto whole = static_cast<long long>(seconds + 0.5);
  if (whole >= 3600) {
    return printed("%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
  }
  return printed("%lld:%02lld", whole / 60, whole % 60);
}

std::string progress_line(const StepResult& result, const ProgressFacts& facts) {
  std::string line =
      printed("step %lld/%lld | loss %.4f | %.0f tok/s | %.3f s",
              static_cast<long long>(facts.step), static_cast<long long>(facts.total_steps),
              result.loss, tokens_per_second(result, facts), facts.step_seconds);
  if (facts.predicted_seconds > 0) {
    line += printed(" (predicted %.3f, %+.1f%%)", facts.predicted_seconds,
                    100 * (facts.predicted_seconds / facts.step_seconds - 1));
  }
  if (facts.gemm_flops_per_s > 0) {
    line += printed(" | %.1f%% of measured peak", 100 * gemm_fraction(result, facts));
  }
  line += printed(" | mem %s | gnorm %.3f | lr %.2e",
                  bytes_text(static_cast<double>(facts.arena_bytes)).c_str(), result.gradient_norm,
                  result.learning_rate);
  if (facts.emulated) line += " | emulated";
  if (facts.seconds_left > 0) line += " | left " + duration_text(facts.seconds_left);
  if (result.skipped) line += " | skipped=1 " + result.reason;
  return line;
}

std::string progress_json(const StepResult& result, const ProgressFacts& facts) {
  Json json = {{"step", facts.step},
               {"total_steps", facts.total_steps},
               {"loss", number(result.loss)},
               {"tokens", result.tokens},
               {"tokens_per_second", tokens_per_second(result, facts)},
               {"step_seconds", facts.step_seconds}};
  if (facts.predicted_seconds > 0) {
    json["predicted_step_seconds"] = facts.predicted_seconds;
    json["prediction_error"] = facts.predicted_seconds / facts.step_seconds - 1;
  }
  if (facts.gemm_flops_per_s > 0) json["gemm_fraction"] = gemm_fraction(result, facts);
  json["arena_bytes"] = facts.arena_bytes;
  json["peak_resident_bytes"] = peak_resident_bytes();
  json["grad_norm"] = number(result.gradient_norm);
  json["learning_rate"] = result.learning_rate;
  json["seconds_left"] = facts.seconds_left;
  json["skipped"] = result.skipped ? 1 : 0;
  json["skipped_steps"] = facts.skipped_steps;
  if (result.skipped) json["reason"] = result.reason;
  if (facts.emulated) json["emulated"] = true;
  return json.dump();
}

std::int64_t peak_resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) * 1024;
  }
  return 0;
}

}  // namespace hethub

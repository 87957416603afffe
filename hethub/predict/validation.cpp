#include "hethub/predict/validation.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace hethub {
namespace {

// Positions in rising order; equal values share the mean of theirs.
std::vector<double> ranks_of(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (std::size_t first = 0; first < order.size();) {
    std::size_t last = first;
    while (last < order.size() && values[order[last]] == values[order[first]])
      ++last;
    for (std::size_t at = first; at < last; ++at) {
      ranks[order[at]] = 0.5 * static_cast<double>(first + last - 1);
    }
    first = last;
  }
  return ranks;
}

double correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const auto count = static_cast<double>(a.size());
  const double mean_a = std::accumulate(a.begin(), a.end(), 0.0) / count;
  const double mean_b = std::accumulate(b.begin(), b.end(), 0.0) / count;
  double both = 0;
  double of_a = 0;
  double of_b = 0;
  for (std::size_t at = 0; at < a.size(); ++at) {
    both += (a[at] - mean_a) * (b[at] - mean_b);
    of_a += (a[at] - mean_a) * (a[at] - mean_a);
    of_b += (b[at] - mean_b) * (b[at] - mean_b);
  }
  return of_a > 0 && of_b > 0 ? both / std::sqrt(of_a * of_b) : 0;
}

ChoiceSummary choices_of(const std::vector<ValidatedRun>& rows) {
  std::map<std::string, std::vector<const ValidatedRun*>> alike;
  for (const ValidatedRun& row : rows) {
    alike[row.run.alike].push_back(&row);
  }
  ChoiceSummary summary;
  for (const auto& [key, plans] : alike) {
    if (plans.size() < 4) continue;
    const auto* chosen = *std::min_element(plans.begin(), plans.end(), [](auto* a, auto* b) {
      return a->predicted.step_s < b->predicted.step_s;
    });
    const auto* best = *std::min_element(plans.begin(), plans.end(), [](auto* a, auto* b) {
      return a->run.measured_s < b->run.measured_s;
    });
    const double ratio = chosen->run.measured_s / best->run.measured_s;
    ++summary.models;
    summary.mean_ratio += ratio;
    summary.worst_ratio = std::max(summary.worst_ratio, ratio);
  }
  if (summary.models > 0) summary.mean_ratio /= summary.models;
  return summary;
}

// Runs with 8-bit products have figures of their own.
std::string source_of(const PublishedRun& run) {
  return run.part + (run.dtype == "fp8" ? " fp8" : "");
}

// The memory that a source states of a run, beside ours.
void add_memory(const ValidatedRun& row, const Software& software,
                std::map<std::string, std::vector<ValidatedFigure>>& figures) {
  const PublishedRun& run = row.run;
  if (run.measured_bytes > 0) {
    figures[source_of(run)].push_back({run.measured_bytes, row.memory.total()});
  }
  if (run.table_states > 0) {
    figures[run.part + ", table: states"].push_back(
        {run.table_states, mean_state_bytes(run, software)});
  }
  if (run.table_activations <= 0) return;
  PublishedRun alone = run;
  if (alone.recompute == Recompute::kFull) alone.recompute = Recompute::kNone;
  figures[run.part + ", table: activations"].push_back(
      {run.table_activations, first_stage_layer_bytes(alone, software)});
}

// A run whose states and activations alone would not fit its devices without sequence parallel
// cannot have run without it, whatever its source left out.
RunMemory feasible_memory(const PublishedRun& run, const Software& software, const Sheets& sheets) {
  const RunMemory stated = peak_memory(run, software);
  const Kind& kind = sheets.find(run.stage_kinds.at(stated.stage).front())->kind;
  const bool fits = stated.states + stated.activations <= static_cast<double>(kind.memory_bytes);
  if (fits || run.sequence_parallel || run.tensor_parallel == 1) return stated;
  PublishedRun shared = run;
  shared.sequence_parallel = true;
  return peak_memory(shared, software);
}

}  // namespace

ErrorSummary summary_of(const std::vector<ValidatedFigure>& figures) {
  ErrorSummary summary{.rows = static_cast<int>(figures.size())};
  if (figures.empty()) return summary;
  std::vector<double> errors;
  std::vector<double> measured;
  std::vector<double> predicted;
  for (const ValidatedFigure& figure : figures) {
    errors.push_back(std::abs(figure.error()));
    summary.mean_error += figure.error() / summary.rows;
    summary.least_error = std::min(summary.least_error, figure.error());
    measured.push_back(figure.measured);
    predicted.push_back(figure.predicted);
  }
  summary.rank_correlation = correlation(ranks_of(measured), ranks_of(predicted));
  std::sort(errors.begin(), errors.end());
  summary.mean_abs_error = std::accumulate(errors.begin(), errors.end(), 0.0) / summary.rows;
  summary.median_abs_error = 0.5 * (errors[(errors.size() - 1) / 2] + errors[errors.size() / 2]);
  summary.max_abs_error = errors.back();
  return summary;
}

ErrorSummary summary_of(const std::vector<const ValidatedRun*>& rows) {
  std::vector<ValidatedFigure> figures;
  for (const ValidatedRun* row : rows) {
    figures.push_back({row->run.measured_s, row->predicted.step_s});
  }
  return summary_of(figures);
}

Validation validate_runs(const PublishedRuns& runs, RunPricer& pricer) {
  Validation validation{.unpriced = runs.unpriced};
  std::map<std::string, std::vector<ValidatedFigure>> memory;
  for (const PublishedRun& run : runs.runs) {
    if (const std::string why = pricer.obstacle(run); !why.empty()) {
      validation.unpriced.push_back({run.id, run.part, why});
    } else {
      validation.rows.push_back({run, pricer.price(run)});
      ValidatedRun& row = validation.rows.back();
      const Software software = pricer.software_of(run);
      if (run.measured_bytes > 0) row.memory = feasible_memory(run, software, pricer.sheets());
      add_memory(row, software, memory);
    }
  }
  for (const auto& [part, figures] : memory) {
    validation.memory[part] = summary_of(figures);
  }
  std::map<std::string, std::vector<const ValidatedRun*>> parts;
  for (const ValidatedRun& row : validation.rows) {
    parts[source_of(row.run)].push_back(&row);
    if (row.run.part == "bigscience_a100" && !row.run.impaired) {
      parts["bigscience_a100 from 02-25"].push_back(&row);
    }
    if (row.run.mixed) parts[row.run.part + " mixed"].push_back(&row);
  }
  for (const auto& [part, rows] : parts) {
    validation.summary[part] = summary_of(rows);
  }
  validation.choice = choices_of(validation.rows);
  return validation;
}

}  // namespace hethub

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

}  // namespace

ErrorSummary summary_of(const std::vector<const ValidatedRun*>& rows) {
  ErrorSummary summary{.rows = static_cast<int>(rows.size())};
  if (rows.empty()) return summary;
  std::vector<double> errors;
  std::vector<double> measured;
  std::vector<double> predicted;
  for (const ValidatedRun* row : rows) {
    errors.push_back(std::abs(row->error()));
    summary.mean_error += row->error() / summary.rows;
    measured.push_back(row->run.measured_s);
    predicted.push_back(row->predicted.step_s);
  }
  summary.rank_correlation = correlation(ranks_of(measured), ranks_of(predicted));
  std::sort(errors.begin(), errors.end());
  summary.mean_abs_error = std::accumulate(errors.begin(), errors.end(), 0.0) / summary.rows;
  summary.median_abs_error = 0.5 * (errors[(errors.size() - 1) / 2] + errors[errors.size() / 2]);
  summary.max_abs_error = errors.back();
  return summary;
}

Validation validate_runs(const PublishedRuns& runs, RunPricer& pricer) {
  Validation validation{.unpriced = runs.unpriced};
  for (const PublishedRun& run : runs.runs) {
    if (const std::string why = pricer.obstacle(run); !why.empty()) {
      validation.unpriced.push_back({run.id, run.part, why});
    } else {
      validation.rows.push_back({run, pricer.price(run)});
    }
  }
  std::map<std::string, std::vector<const ValidatedRun*>> parts;
  for (const ValidatedRun& row : validation.rows) {
    parts[row.run.part].push_back(&row);
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

#include "hethub/search/pipeline_tables.h"

#include <algorithm>

namespace hethub {

PipelineColumn column_of(const PipelineTables& tables, int size, std::vector<PickedStage> stages) {
  PipelineColumn column{.size = size};
  column.devices.assign(tables.kinds.size(), 0);
  for (const PickedStage& stage : stages) {
    const StageCost& cost = tables.cost(size, stage.choice, stage.begin, stage.end);
    const StageChoice& choice = tables.choices[stage.choice];
    column.devices[choice.kind] += choice.devices;
    column.slowest = std::max(column.slowest, cost.seconds);
    if (tables.fills) column.total += cost.seconds;
    column.update = std::max(column.update, cost.update);
    column.exchange = std::max(column.exchange, cost.exchange);
    const double more = tables.mixed_exchange.empty() ? 1 : tables.mixed_exchange[choice.kind];
    column.mixed_exchange = std::max(column.mixed_exchange, more * cost.exchange);
  }
  for (std::size_t stage = 1; stage < stages.size(); ++stage) {  // either way
    const double wire = tables.wire_seconds(size, tables.choices[stages[stage - 1].choice].kind,
                                            tables.choices[stages[stage].choice].kind);
    column.slowest = std::max(column.slowest, wire);
    if (tables.fills) column.total += 2 * wire;
  }
  if (!tables.fills) column.total = column.slowest;
  column.stages = std::move(stages);
  return column;
}

std::int64_t micro_batches_within(const PipelineTables& tables, const PipelineColumn& column,
                                  double seconds) {
  const std::int64_t width = tables.sizes[column.size];
  const std::int64_t most = (tables.global_batch + width - 1) / width;
  if (seconds < column.total) return 0;
  // Rounding must not lose the micro-batch that fits exactly.
  const double more = (seconds - column.total) / column.slowest + 1e-9;
  return more >= static_cast<double>(most) ? most : 1 + static_cast<std::int64_t>(more);
}

double step_seconds_of(const std::vector<ChosenPipeline>& pipelines) {
  double slowest = 0;
  double update = 0;
  double exchange = 0;
  double mixed = 0;
  bool alike = true;
  for (const ChosenPipeline& one : pipelines) {
    const auto more = static_cast<double>(one.micro_batches - 1);
    slowest = std::max(slowest, more * one.column.slowest + one.column.total);
    update = std::max(update, one.column.update);
    exchange = std::max(exchange, one.column.exchange);
    mixed = std::max(mixed, one.column.mixed_exchange);
    alike = alike && one.column.stages == pipelines.front().column.stages;
  }
  if (!alike) exchange = std::max(exchange, mixed);
  return slowest + update + exchanges(std::ssize(pipelines)) * exchange;
}

// Each micro-batch goes to the pipeline that would end it first: the last end is then the earliest
// possible, since what a pipeline takes grows with its micro-batches.
std::vector<ChosenPipeline> balanced(const PipelineTables& tables,
                                     const std::vector<PipelineColumn>& columns) {
  double low = 0;
  double high = 0;
  for (const PipelineColumn& column : columns) {
    high = std::max({high, column.total, column.slowest});
    low = low == 0 ? column.total : std::min(low, column.total);
  }
  const auto sequences = [&](double seconds) {
    std::int64_t all = 0;
    for (const PipelineColumn& column : columns) {
      all += micro_batches_within(tables, column, seconds) * tables.sizes[column.size];
    }
    return all;
  };
  while (sequences(high) < tables.global_batch) {
    high *= 2;
  }
  for (int round = 0; round < 60 && high > low * (1 + 1e-12); ++round) {
    const double middle = (low + high) / 2;
    (sequences(middle) < tables.global_batch ? low : high) = middle;
  }
  std::vector<ChosenPipeline> chosen;
  std::int64_t spare = sequences(high) - tables.global_batch;
  for (const PipelineColumn& column : columns) {
    ChosenPipeline one{column, micro_batches_within(tables, column, high)};
    const std::int64_t width = tables.sizes[column.size];
    const std::int64_t fewer = std::min(spare / width, one.micro_batches);
    one.micro_batches -= fewer;
    spare -= fewer * width;
    if (one.micro_batches > 0) chosen.push_back(std::move(one));
  }
  return chosen;
}

}  // namespace hethub

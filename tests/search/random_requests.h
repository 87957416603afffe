#pragma once

#include <cmath>
#include <random>

#include "hethub/search/strategy.h"
#include "tests/predict/example_plans.h"

namespace hethub {

/// What the tests of strategies ask.
inline SearchRequest request_of(const CostModel& costs, const ModelConfig& model,
                                int global_batch) {
  SearchRequest request(costs);
  request.model = model;
  request.sequence_length = 32;
  request.global_batch = global_batch;
  request.micro_batch_sizes = {1, 2};
  request.keep = 3;
  return request;
}

/// Made-up rates that differ from case to case.
inline Cluster random_cluster(std::mt19937& random, int a, int b) {
  const auto between = [&](double low, double high) {
    return low * std::pow(high / low, std::uniform_real_distribution<>(0, 1)(random));
  };
  Cluster cluster = example_cluster(a, b, {between(1e-7, 1e-4), between(1e7, 1e11)});
  for (Kind& kind : cluster.kinds) {
    kind.peak_flops_per_s["f32"] = between(2e10, 1e12);
    kind.memory_bytes_per_s = between(5e9, 2e11);
  }
  return cluster;
}

}  // namespace hethub

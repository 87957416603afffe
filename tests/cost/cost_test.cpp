#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "hethub/base/error.h"
#include "hethub/cost/cost_model.h"
#include "hethub/cost/costs_file.h"

namespace hethub {
namespace {

Op linear(std::int64_t rows, std::int64_t in = 64, std::int64_t out = 32) {
  return {"l", DType::kF32, Linear{.rows = rows, .in = in, .out = out}};
}

Op adamw(std::int64_t count) { return {"a", DType::kF32, AdamW{.count = count}}; }

// Rank 0 is "sheet", ranks 1 and 2 are "timed", rank 3 is "timed" on another machine.
Cluster cluster() {
  return {.kinds = {{.name = "sheet",
                     .memory_bytes = 1 << 30,
                     .peak_flops_per_s = {{"f32", 1e12}},
                     .memory_bytes_per_s = 1e11,
                     .host_copy = {1e-5, 1e10}},
                    {.name = "timed", .memory_bytes = 1 << 30}},
          .nodes = {{.name = "a", .devices = {{"sheet", 1}, {"timed", 2}}},
                    {.name = "b", .devices = {{"timed", 1}}}},
          .links = {{"sheet", "timed", LinkScope::kNode, RouteKind::kHostStaged, {1e-6, 1e9}},
                    {"timed", "timed", LinkScope::kNode, RouteKind::kHostStaged, {1e-6, 1e9}}}};
}

Costs costs() {
  Costs all;
  all.kinds["timed"] = {.launch_seconds = 1e-6,
                        .action_seconds = 2e-6,
                        .gemm_flops_per_s = {{"f32", 5e11}},
                        .fixed_memory_bytes = 77,
                        .ops = {row_of(linear(8), 1e-3, 5), row_of(linear(16), 3e-3, 5),
                                row_of(adamw(1000), 1e-4, 5)}};
  all.links = {{"timed",
                "timed",
                LinkScope::kNetwork,
                RouteKind::kHostStaged,
                {1e-4, 1e8},
                {{1000, 1.1e-4}}}};
  return all;
}

TEST(CostModel, a_timed_op_costs_what_was_timed) {
  const CostModel model(cluster(), costs());
  const OpCost cost = model.op_cost("timed", linear(16));
  EXPECT_EQ(cost.seconds, 3e-3);
  EXPECT_EQ(cost.source, CostSource::kMeasured);
}

TEST(CostModel, an_op_between_two_timed_ones_costs_in_between) {
  const CostModel model(cluster(), costs());
  const OpCost cost = model.op_cost("timed", linear(12));
  EXPECT_EQ(cost.source, CostSource::kScaled);
  EXPECT_NEAR(cost.seconds, 2e-3, 1e-9);
  EXPECT_NEAR(cost.distance, 16.0 / 12, 1e-9);
}

TEST(CostModel, beyond_what_was_timed_cost_is_in_proportion_and_says_how_far) {
  const CostModel model(cluster(), costs());
  const OpCost larger = model.op_cost("timed", linear(160));
  EXPECT_NEAR(larger.seconds, 1e-6 + 10 * (3e-3 - 1e-6), 1e-9);
  EXPECT_NEAR(larger.distance, 10, 1e-9);
  const OpCost smaller = model.op_cost("timed", adamw(500));
  EXPECT_GT(smaller.seconds, 0.5e-4);
  EXPECT_LT(smaller.seconds, 0.51e-4);
}

TEST(CostModel, other_shapes_of_a_timed_op_are_scaled_by_work) {
  const CostModel model(cluster(), costs());
  const OpCost cost = model.op_cost("timed", linear(8, 128, 64));
  EXPECT_EQ(cost.source, CostSource::kScaled);
  EXPECT_NEAR(cost.distance, 2, 1e-9) << "the 16-row op is half of it";
}

TEST(CostModel, an_op_that_was_not_timed_meets_the_roofline_of_the_data_sheet) {
  const CostModel model(cluster(), costs());
  const OpCost compute = model.op_cost("sheet", linear(1024, 1024, 1024));
  EXPECT_EQ(compute.source, CostSource::kRoofline);
  EXPECT_DOUBLE_EQ(compute.seconds, 2.0 * 1024 * 1024 * 1024 / 1e12);
  const OpCost memory = model.op_cost("sheet", adamw(1 << 20));
  EXPECT_NEAR(memory.seconds, 7.0 * 4 * (1 << 20) / 1e11, 1e-8);
}

TEST(CostModel, a_kind_without_costs_is_named) {
  const CostModel model(cluster(), {});
  try {
    model.op_cost("timed", linear(4));
    FAIL() << "a cost was made up";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidConfig);
    EXPECT_NE(std::string(error.what()).find("kind timed"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("hethub profile"), std::string::npos);
  }
}

TEST(CostModel, a_host_staged_message_is_downloaded_sent_and_uploaded) {
  const CostModel model(cluster(), costs());
  const TransferCost out = model.transfer_cost(0, 1, 1e6);
  EXPECT_DOUBLE_EQ(out.download_seconds, 1e-5 + 1e-4);
  EXPECT_DOUBLE_EQ(out.wire_seconds, 1e-6 + 1e-3);
  EXPECT_EQ(out.upload_seconds, 0) << "the host writes a timed device directly";
  EXPECT_DOUBLE_EQ(model.transfer_cost(2, 0, 1e6).upload_seconds, 1e-5 + 1e-4);
  EXPECT_DOUBLE_EQ(model.transfer_seconds(0, 1, 1e6), out.total());
}

TEST(CostModel, a_network_link_differs_from_the_node_s_own) {
  const CostModel model(cluster(), costs());
  EXPECT_DOUBLE_EQ(model.transfer_seconds(1, 2, 1e6), 1e-6 + 1e-3);
  EXPECT_DOUBLE_EQ(model.transfer_seconds(1, 3, 1e6), 1e-4 + 1e-2);
  EXPECT_THROW(model.transfer_seconds(0, 3, 1), Error) << "nobody stated that link";
}

TEST(CostModel, more_speed_is_never_slower) {
  for (double factor = 1; factor < 9; factor *= 1.5) {
    Cluster faster = cluster();
    faster.kinds[0].peak_flops_per_s["f32"] *= factor;
    faster.kinds[0].memory_bytes_per_s *= factor;
    for (Link& link : faster.links) {
      link.rate.bytes_per_s *= factor;
    }
    const CostModel before(cluster(), costs());
    const CostModel after(faster, costs());
    for (const std::int64_t size : {1, 7, 64, 1000}) {
      EXPECT_LE(after.op_cost("sheet", linear(size)).seconds,
                before.op_cost("sheet", linear(size)).seconds);
      EXPECT_LE(after.op_cost("sheet", adamw(size)).seconds,
                before.op_cost("sheet", adamw(size)).seconds);
      EXPECT_LE(after.transfer_seconds(0, 1, 1e3 * size),
                before.transfer_seconds(0, 1, 1e3 * size));
    }
  }
}

TEST(Costs, what_is_written_is_read_back) {
  const Json written = to_json(costs());
  EXPECT_EQ(to_json(parse_costs(written, "again")), written);
  EXPECT_EQ(parse_costs(written, "again").kinds.at("timed").ops.at(1).seconds, 3e-3);
}

TEST(Costs, costs_of_an_emulated_device_say_so_in_their_file) {
  Costs of_emulated = costs();
  EXPECT_TRUE(emulated_in(parse_costs(to_json(of_emulated), "again")).empty());
  of_emulated.kinds["timed"].emulated = true;
  const Costs read = parse_costs(to_json(of_emulated), "again");
  EXPECT_EQ(emulated_in(read), std::vector<std::string>{"timed"});
}

TEST(Costs, bad_files_are_refused_by_name) {
  const auto refusal = [](const std::string& content) -> std::string {
    try {
      parse_costs(parse_document(content, "costs.json"), "costs.json");
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing was refused";
  };
  EXPECT_NE(refusal(R"({"format": "x", "kinds": {}})").find("hethub-costs/1"), std::string::npos);
  EXPECT_NE(refusal(R"({"format": "hethub-costs/1", "kinds": []})").find("kinds"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"format": "hethub-costs/1", "kinds": {"a": {"ops": [
              {"op": "add", "sizes": "count=1", "dtype": "f32", "seconds": 0}]}}})")
                .find("kinds.a.ops[0]: seconds"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"format": "hethub-costs/1", "kinds": {}, "links": [
              {"between": ["a", "b"], "bytes_per_s": -1}]})")
                .find("bytes_per_s"),
            std::string::npos);
}

TEST(Costs, a_fitted_link_gives_back_the_line_its_points_lie_on) {
  const LinkRate truth{3e-6, 2e9};
  std::vector<LinkPoint> points;
  for (double bytes = 64; bytes < 1e8; bytes *= 8) {
    points.push_back({bytes, truth.seconds(bytes)});
  }
  const LinkRate fitted = fit_link(points);
  EXPECT_NEAR(fitted.latency_s, truth.latency_s, 1e-10);
  EXPECT_NEAR(fitted.bytes_per_s / truth.bytes_per_s, 1, 1e-6);
}

TEST(Costs, a_fitted_link_is_never_negative) {
  const LinkRate steep = fit_link({{100, 1e-6}, {1000, 1e-3}});
  EXPECT_EQ(steep.latency_s, 0);
  const LinkRate flat = fit_link({{100, 2e-6}, {1000, 1e-6}});
  EXPECT_GT(flat.bytes_per_s, 0);
  EXPECT_GT(flat.latency_s, 0);
  EXPECT_THROW(fit_link({{100, 1e-6}, {100, 1e-6}}), Error);
}

// Ops that make no products are bound by memory: a sheet of one dtype prices them in another.
TEST(CostModel, a_sheet_of_one_dtype_prices_other_dtypes_but_for_products) {
  const CostModel costs({.kinds = {{.name = "x",
                                    .memory_bytes = 1 << 20,
                                    .peak_flops_per_s = {{"bf16", 1e12}},
                                    .memory_bytes_per_s = 1e9}},
                         .nodes = {{.name = "n", .devices = {{"x", 1}}}}},
                        {});
  const Op fill{"fill", DType::kF32, Fill{1000}};
  EXPECT_DOUBLE_EQ(costs.op_cost("x", fill).seconds, 4000 / 1e9);
  EXPECT_THROW(costs.op_cost("x", {"y", DType::kF32, Linear{8, 8, 8}}), Error);
}

// The backend opencl makes floats of bf16 and computes on these.
TEST(CostModel, narrow_products_on_opencl_take_what_those_of_f32_take) {
  Kind kind{.name = "x",
            .backend = "opencl",
            .memory_bytes = 1 << 20,
            .peak_flops_per_s = {{"f32", 1e9}},
            .memory_bytes_per_s = 1e12};
  const auto seconds = [&](DType dtype) {
    const CostModel costs({.kinds = {kind}, .nodes = {{.name = "n", .devices = {{"x", 1}}}}}, {});
    return costs.op_cost("x", {"y", dtype, Linear{8, 8, 8}}).seconds;
  };
  EXPECT_DOUBLE_EQ(seconds(DType::kBf16), 2.0 * 8 * 8 * 8 / 1e9);
  kind.peak_flops_per_s["bf16"] = 4e9;  // of the device, not of these kernels
  EXPECT_DOUBLE_EQ(seconds(DType::kBf16), 2.0 * 8 * 8 * 8 / 1e9);
  kind = {.name = "x", .backend = "cuda", .peak_flops_per_s = {{"f32", 1e9}}};
  EXPECT_THROW((void)seconds(DType::kBf16), Error);
}

}  // namespace
}  // namespace hethub

#include "hethub/accel/emulated/emulated.h"

#include <set>

#include <gtest/gtest.h>

#include "hethub/accel/emulated/emulated_kind.h"
#include "hethub/accel/emulated/paced_clock.h"
#include "hethub/base/error.h"
#include "hethub/cluster/sheets.h"
#include "hethub/cost/analytic.h"

namespace hethub {
namespace {

Op linear(std::int64_t rows) { return {"l", DType::kF32, Linear{rows, 64, 64}}; }

Deadline at(int milliseconds) { return Deadline{} + std::chrono::milliseconds(milliseconds); }

std::string refusal_of(const std::string& text, ErrorCode code) {
  try {
    (void)EmulatedKind(parse_emulation(text));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << text;
    return error.what();
  }
  ADD_FAILURE() << text << " was taken";
  return "";
}

TEST(PacedClock, work_takes_its_time_from_when_the_device_is_free) {
  PacedClock clock;
  EXPECT_FALSE(clock.add(at(100), 0.010, at(101)));
  EXPECT_EQ(clock.free_at(), at(110));
  EXPECT_FALSE(clock.add(at(101), 0.005, at(102)));  // issued while the first is under way
  EXPECT_EQ(clock.free_at(), at(115));
  EXPECT_FALSE(clock.add(at(200), 0.005, at(203)));  // after the device was idle
  EXPECT_EQ(clock.free_at(), at(205));
}

TEST(PacedClock, a_processor_that_is_late_overruns_and_the_work_ends_with_it) {
  PacedClock clock;
  EXPECT_TRUE(clock.add(at(100), 0.010, at(111)));
  EXPECT_EQ(clock.free_at(), at(111));
  EXPECT_FALSE(clock.add(at(111), 0.010, at(121)));  // just in time
}

TEST(EmulatedKind, an_op_takes_what_a_part_of_the_data_sheet_gives_within_five_per_cent) {
  Kind sheet = known_sheets().find("T4")->kind;
  sheet.peak_flops_per_s["f32"] /= 40;
  sheet.memory_bytes_per_s /= 40;
  sheet.processors /= 40;
  ASSERT_EQ(sheet.processors, 1);
  const EmulatedKind kind(parse_emulation("T4:scale=40"));
  for (const std::int64_t rows : {1, 100, 5000, 100000}) {
    const double exact = analytic_seconds(sheet, product_peak(sheet, DType::kF32), linear(rows));
    EXPECT_NEAR(kind.op_seconds(linear(rows)), exact, 0.0501 * exact) << rows;
  }
}

TEST(EmulatedKind, deviations_depend_on_seed_kind_and_class_of_the_op_alone) {
  const auto seconds = [](const std::string& kind, const Op& op) {
    return EmulatedKind(parse_emulation(kind)).op_seconds(op);
  };
  std::set<double> seen;
  for (const char* seed : {"0", "1", "2", "3"}) {
    seen.insert(seconds(std::string("T4:seed=") + seed, linear(5000)));
  }
  EXPECT_EQ(seen.size(), 4U);
  EXPECT_EQ(seconds("T4:seed=2", linear(5000)), seconds("T4:seed=2", linear(5000)));
  const Op input{"i", DType::kF32, LinearGradInput{5000, 64, 64}};
  EXPECT_NE(seconds("T4", linear(5000)), seconds("T4", input));
}

TEST(EmulatedKind, what_cannot_be_emulated_is_refused_with_what_can) {
  EXPECT_NE(refusal_of("A1000", ErrorCode::kInvalidArgument).find("A100-80GB-SXM"),
            std::string::npos);
  EXPECT_NE(refusal_of("", ErrorCode::kInvalidArgument).find("no kind"), std::string::npos);
  EXPECT_NE(refusal_of("T4:scale=0", ErrorCode::kInvalidArgument).find("scale=0"),
            std::string::npos);
  EXPECT_NE(refusal_of("T4:scale=fast", ErrorCode::kInvalidArgument).find("'fast'"),
            std::string::npos);
  EXPECT_NE(refusal_of("T4:speed=2", ErrorCode::kInvalidArgument).find("'speed=2'"),
            std::string::npos);
  EXPECT_NE(refusal_of("H100-96GB-HBM2e-500W", ErrorCode::kUnsupported).find("peak"),
            std::string::npos);
}

TEST(Emulated, everything_a_device_is_called_says_so) {
  const auto backend = open_backend("emulated:T4", {});
  EXPECT_EQ(backend->info().backend, "emulated");
  EXPECT_NE(backend->info().name.find("emulated"), std::string::npos);
  EXPECT_NE(backend->info().driver.find("emulated"), std::string::npos);
  EXPECT_TRUE(pacing_of(*backend).has_value());
  EXPECT_FALSE(pacing_of(*open_backend("cpu", {})).has_value());
}

TEST(Emulated, ops_are_counted_and_an_impossible_pace_is_void) {
  const Op op = linear(3000);
  const auto pacing = [&](const char* name, int runs) {
    const auto backend = open_backend(name, {});
    const OpFacts facts = facts_of(op);
    std::vector<std::unique_ptr<Buffer>> buffers;
    const auto view = [&](const TensorSpec& spec) {
      buffers.push_back(backend->allocate(spec.bytes()));
      return View{buffers.back().get(), 0, spec.bytes()};
    };
    const std::vector<View> inputs = {view(facts.inputs[0]), view(facts.inputs[1])};
    const std::vector<View> outputs = {view(facts.outputs[0].spec)};
    buffers.push_back(backend->allocate(facts.workspace_bytes));
    const View workspace{buffers.back().get(), 0, facts.workspace_bytes};
    const auto prepared = backend->prepare(op);
    const auto queue = backend->make_queue();
    for (int run = 0; run < runs; ++run) {
      queue->run(*prepared, inputs, outputs, workspace);
    }
    queue->synchronize(after_seconds(60));
    return *pacing_of(*backend);
  };
  const Pacing fast = pacing("emulated:B200-180GB:scale=0.001", 5);
  EXPECT_EQ(fast.ops, 5);
  EXPECT_EQ(fast.overran, 5);
  EXPECT_FALSE(fast.holds());
  EXPECT_TRUE(
      pacing("emulated:T4:scale=20000", 1).holds());  // seconds for what takes a millisecond
}

TEST(Emulated, a_wait_ends_at_its_deadline) {
  const auto backend = open_backend("emulated:T4:scale=1000000", {});
  const std::int64_t count = 1 << 24;  // minutes
  const auto memory = backend->allocate(4 * count);
  const auto prepared = backend->prepare({"f", DType::kF32, Fill{.count = count}});
  const auto queue = backend->make_queue();
  const View view{memory.get(), 0, 4 * count};
  queue->run(*prepared, {}, {&view, 1}, {});
  const auto event = backend->make_event();
  queue->record(*event);
  EXPECT_FALSE(event->done());
  EXPECT_THROW(event->wait(after_seconds(0.01)), Error);
  EXPECT_THROW(queue->synchronize(after_seconds(0.01)), Error);
}

}  // namespace
}  // namespace hethub

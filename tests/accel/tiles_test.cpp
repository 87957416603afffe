// Products and attention on matrix tiles, of sizes that take several packed blocks: what the
// conformance suite's small shapes do not reach. Skipped where the processor has none.

#include <array>
#include <cmath>

#include <gtest/gtest.h>

#include "../conformance/cases.h"
#include "../conformance/operands.h"
#include "../conformance/stage.h"
#include "hethub/accel/cpu/cpu.h"
#include "hethub/base/error.h"
#include "hethub/base/text.h"

namespace hethub::conformance {
namespace {

// Depths beyond 2048, columns beyond a panel, no size a multiple of 16; so many rows that, where
// columns are shared out, the sums of all of them have no room in a thread's part of the workspace.
std::vector<Op> large_products() {
  std::vector<Op> ops;
  for (const auto& [rows, in, out] :
       {std::array<std::int64_t, 3>{301, 2500, 130}, std::array<std::int64_t, 3>{67, 140, 4111},
        std::array<std::int64_t, 3>{2101, 70, 333},
        std::array<std::int64_t, 3>{2101, 2060, 4130}}) {
    const std::string name = text(rows, " x ", in, " x ", out);
    ops.push_back({name, DType::kBf16, Linear{rows, in, out, true}});
    ops.push_back({name, DType::kBf16, LinearGradInput{rows, in, out}});
    ops.push_back({name, DType::kBf16, LinearGradWeight{rows, in, out}});
  }
  return ops;
}

// More keys than a tile, a last tile that is not whole, head_dim beyond a strip, masks of all
// kinds.
std::vector<Op> large_attentions() {
  std::vector<Op> ops;
  for (const Attention& sizes : {Attention{2, 300, 4, 2, 40}, Attention{1, 1100, 2, 1, 72, 130},
                                 Attention{1, 600, 2, 2, 33, 0, true}}) {
    ops.push_back({text("seq ", sizes.seq), DType::kBf16, sizes});
    ops.push_back({text("seq ", sizes.seq), DType::kBf16, AttentionGrad{sizes}});
  }
  return ops;
}

// The largest difference, as a part of the largest value and the value itself.
double distance(const Values& found, const Values& expected) {
  double size = 0;
  for (const double value : expected) {
    size = std::max(size, std::fabs(value));
  }
  double most = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    most = std::max(most, std::fabs(found[i] - expected[i]) / (size + std::fabs(expected[i])));
  }
  return most;
}

TEST(Tiles, large_ops_agree_with_level_4_and_do_not_depend_on_threads) {
  std::vector<std::unique_ptr<Backend>> backends;
  try {
    for (const int threads : {1, 2, 7, 64}) {
      backends.push_back(open_cpu({.threads = threads}, {.level = "x86-64-v4-amx"}));
    }
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  const auto library = open_cpu({.threads = 1}, {.level = "x86-64-v4"});
  std::vector<Op> ops = large_products();
  for (Op& op : large_attentions()) {
    ops.push_back(std::move(op));
  }
  for (const Op& op : ops) {
    SCOPED_TRACE(title_of(op));
    const std::vector<Values> inputs = make_inputs(op, 1);
    const Outcome expected = run_on(*library, op, inputs, {});
    const Outcome one = run_on(*backends[0], op, inputs, {});
    // One rounding of bf16, or the error of f32 sums over 2,500 terms.
    for (std::size_t output = 0; output < one.outputs.size(); ++output) {
      const bool rounds = facts_of(op).outputs[output].spec.dtype == DType::kBf16;
      EXPECT_LE(distance(one.outputs[output], expected.outputs[output]), rounds ? 0x1p-8 : 4e-6);
    }
    for (const auto& backend : backends) {
      const Outcome found = run_on(*backend, op, inputs, {});
      EXPECT_EQ(found.stray_bytes, 0);
      EXPECT_EQ(found.bits, one.bits) << "threads change the result";
    }
  }
}

}  // namespace
}  // namespace hethub::conformance

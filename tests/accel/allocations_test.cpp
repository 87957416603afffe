// Inside a step nothing may ask the allocator for memory: neither our code nor the matrix library.

#include <cstdlib>

#include <gtest/gtest.h>

#include "../conformance/cases.h"
#include "../conformance/operands.h"
#include "count_allocations.h"
#include "hethub/accel/cpu/cpu.h"
#include "hethub/base/text.h"

namespace hethub {
namespace {

using conformance::all_cases;
using conformance::Values;

// An op with its operands, ready to run.
struct Ready {
  std::unique_ptr<PreparedOp> op = {};
  std::unique_ptr<Buffer> memory = {};
  std::vector<View> inputs = {};
  std::vector<View> outputs = {};
  View workspace = {};
};

Ready make_ready(Backend& backend, Queue& queue, const Op& op) {
  const OpFacts facts = facts_of(op);
  Ready ready{.op = backend.prepare(op)};
  std::int64_t bytes = 0;
  const auto place = [&](std::int64_t size) {
    const View view{nullptr, bytes, size};
    bytes += (size + 255) / 256 * 256;
    return view;
  };
  for (const TensorSpec& spec : facts.inputs) {
    ready.inputs.push_back(place(spec.bytes()));
  }
  for (const OutputFacts& output : facts.outputs) {
    ready.outputs.push_back(output.updates >= 0
                                ? ready.inputs[static_cast<std::size_t>(output.updates)]
                                : place(output.spec.bytes()));
  }
  ready.workspace = place(facts.workspace_bytes);
  ready.memory = backend.allocate(bytes);
  ready.workspace.buffer = ready.memory.get();
  for (std::vector<View>* views : {&ready.inputs, &ready.outputs}) {
    for (View& view : *views) {
      view.buffer = ready.memory.get();
    }
  }
  const std::vector<Values> values = conformance::make_inputs(op, 1);
  for (std::size_t input = 0; input < values.size(); ++input) {
    queue.upload(conformance::encode(facts.inputs[input], values[input]), ready.inputs[input]);
  }
  return ready;
}

// Without AVX-512 oneDNN's products pack their operands into memory they allocate in each call (see
// docs/decisions/0003): what the library does there is out of our hands.
// So do those of experts anywhere: their sizes are known when they run alone.
bool library_allocates(const Op& op) {
  if (facts_of(op).kind.starts_with("expert_linear")) return true;
  return __builtin_cpu_supports("avx512f") == 0 && facts_of(op).kind.substr(0, 6) == "linear";
}

class Allocations : public testing::TestWithParam<int> {};

TEST_P(Allocations, no_op_asks_for_memory_once_it_has_run) {
  const auto backend = open_cpu({.threads = GetParam()});
  const auto queue = backend->make_queue();
  const auto event = backend->make_event();
  std::vector<Op> cases = all_cases();
  // The library's products of bf16 ask for memory too; those on matrix tiles are ours.
  if (backend->info().driver.find("amx") != std::string::npos) {
    for (Op& op : conformance::cases_in(DType::kBf16)) {
      cases.push_back(std::move(op));
    }
  }
  for (const Op& op : cases) {
    if (library_allocates(op)) continue;
    Ready ready = make_ready(*backend, *queue, op);
    const auto run = [&] {
      queue->run(*ready.op, ready.inputs, ready.outputs, ready.workspace);
      queue->record(*event);
      event->wait(after_seconds(1));
    };
    run();
    const std::int64_t before = allocations();
    run();
    run();
    EXPECT_EQ(allocations() - before, 0) << conformance::title_of(op);
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, Allocations, testing::Values(1, 2));

TEST(CountedAllocations, the_hooks_count_what_they_must) {
  const std::int64_t before = allocations();
  void* volatile block = std::malloc(10);
  std::free(block);
  auto* volatile object = new std::vector<int>(100);
  delete object;
  EXPECT_EQ(allocations() - before, 3);
}

}  // namespace
}  // namespace hethub

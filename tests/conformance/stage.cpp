#include "stage.h"

#include <algorithm>

#include "operands.h"

namespace hethub::conformance {
namespace {

constexpr std::int64_t kAlignment = 256;
constexpr std::byte kSentinel{0xFF};  // four of them are not a number

// Where everything lies in the one buffer.
struct Stage {
  std::vector<View> inputs = {};
  std::vector<View> outputs = {};
  View workspace = {};
  std::int64_t bytes = 0;
};

View place(Stage& stage, std::int64_t bytes, std::int64_t shift_bytes) {
  const View view{nullptr, stage.bytes + kAlignment + shift_bytes, bytes};
  const std::int64_t end = view.offset + bytes;
  stage.bytes = (end + kAlignment - 1) / kAlignment * kAlignment + kAlignment;
  return view;
}

Stage lay_out(const OpFacts& facts, const Placement& placement) {
  Stage stage;
  for (const TensorSpec& spec : facts.inputs) {
    stage.inputs.push_back(place(stage, spec.bytes(), placement.shift * size_of(spec.dtype)));
  }
  for (const OutputFacts& output : facts.outputs) {
    const int shared = placement.reuse && output.updates < 0 ? output.may_reuse : output.updates;
    stage.outputs.push_back(shared >= 0 ? stage.inputs[static_cast<std::size_t>(shared)]
                                        : place(stage, output.spec.bytes(),
                                                placement.shift * size_of(output.spec.dtype)));
  }
  stage.workspace = place(stage, facts.workspace_bytes, 0);
  return stage;
}

void put(const View& view, const std::vector<std::byte>& bytes, std::vector<std::byte>& image) {
  std::copy(bytes.begin(), bytes.end(), image.begin() + view.offset);
}

void forgive(const View& view, const std::vector<std::byte>& after, std::vector<std::byte>& image) {
  std::copy_n(after.begin() + view.offset, view.bytes, image.begin() + view.offset);
}

}  // namespace

Outcome run_on(Backend& backend, const Op& op, const std::vector<Values>& inputs,
               const Placement& placement) {
  const OpFacts facts = facts_of(op);
  Stage stage = lay_out(facts, placement);
  std::vector<std::byte> image(static_cast<std::size_t>(stage.bytes), kSentinel);
  for (std::size_t input = 0; input < inputs.size(); ++input) {
    put(stage.inputs[input], encode(facts.inputs[input], inputs[input]), image);
  }

  const auto buffer = backend.allocate(stage.bytes);
  for (std::vector<View>* views : {&stage.inputs, &stage.outputs}) {
    for (View& view : *views) {
      view.buffer = buffer.get();
    }
  }
  stage.workspace.buffer = buffer.get();
  const auto queue = backend.make_queue();
  const auto prepared = backend.prepare(op);
  queue->upload(image, {buffer.get(), 0, stage.bytes});
  queue->run(*prepared, stage.inputs, stage.outputs, stage.workspace);
  std::vector<std::byte> after(image.size());
  queue->download({buffer.get(), 0, stage.bytes}, after);
  queue->synchronize(after_seconds(120));

  Outcome outcome;
  for (std::size_t output = 0; output < facts.outputs.size(); ++output) {
    const View& view = stage.outputs[output];
    const auto start = after.begin() + view.offset;
    outcome.bits.emplace_back(start, start + view.bytes);
    outcome.outputs.push_back(decode(facts.outputs[output].spec, outcome.bits.back()));
    forgive(view, after, image);
  }
  forgive(stage.workspace, after, image);
  for (std::size_t at = 0; at < image.size(); ++at) {
    outcome.stray_bytes += image[at] == after[at] ? 0 : 1;
  }
  return outcome;
}

}  // namespace hethub::conformance

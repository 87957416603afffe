#include "hethub/plan/sharded_gradients.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "hethub/base/error.h"

namespace hethub {
namespace {

bool touches(const Instruction& instruction, int value) {
  const std::vector<int>& outputs = instruction.outputs;
  return std::find(outputs.begin(), outputs.end(), value) != outputs.end();
}

// The instructions of one list that add to a gradient: the first, and one past the last.
std::pair<int, int> run_of(const std::vector<Instruction>& list, int gradient) {
  const auto adds = [&](const Instruction& one) { return touches(one, gradient); };
  const auto first = std::find_if(list.begin(), list.end(), adds);
  const auto last = std::find_if(list.rbegin(), list.rend(), adds);
  return {static_cast<int>(first - list.begin()), static_cast<int>(last.base() - list.begin())};
}

bool alike(const Pipeline& a, const Pipeline& b) {
  return a.micro_batches == b.micro_batches &&
         std::equal(a.stages.begin(), a.stages.end(), b.stages.begin(), b.stages.end(),
                    [](const Stage& one, const Stage& other) {
                      return one.layers == other.layers &&
                             one.tensor_parallel == other.tensor_parallel &&
                             one.expert_parallel == other.expert_parallel;
                    });
}

}  // namespace

bool may_shard_gradients(const Plan& plan) {
  return std::all_of(plan.pipelines.begin(), plan.pipelines.end(), [&](const Pipeline& pipeline) {
    return alike(pipeline, plan.pipelines.front());
  });
}

GradientShares gradient_shares(const std::vector<Segment>& segments,
                               const std::vector<Holding>& held) {
  GradientShares shares;
  for (const Holding& holding : held) {
    const Segment& segment = segments.at(static_cast<std::size_t>(holding.segment));
    if (!segment.scattered) {
      shares.group_of_held.push_back(-1);
      continue;
    }
    const auto known = std::find(shares.groups.begin(), shares.groups.end(), segment.ranks);
    shares.group_of_held.push_back(static_cast<int>(known - shares.groups.begin()));
    if (known == shares.groups.end()) shares.groups.push_back(segment.ranks);
  }
  return shares;
}

void scatter_gradient(Program& program, const ScatteredGradient& scattered) {
  const int whole = program.gradient_of(scattered.parameter);
  const std::string name = program.gradient_name(scattered.parameter);
  const std::int64_t count = program.values.at(whole).spec.elements();
  program.values[whole].name = name + ".whole";
  program.values[whole].role = ValueRole::kTemporary;
  const int kept = program.add_value(name, {DType::kF32, {scattered.kept}}, ValueRole::kGradient);
  auto& list = std::any_of(program.backward.begin(), program.backward.end(),
                           [&](const Instruction& one) { return touches(one, whole); })
                   ? program.backward
                   : program.backward_weight;
  const auto [first, end] = run_of(list, whole);
  require(first < end, [&] {
    return ErrorParts{.what = name,
                      .found = "no instruction that adds to it",
                      .expected = "one on each holder, so that all come to its sum",
                      .fix = "leave its segment whole"};
  });
  const int layer = list[first].layer;
  std::vector<Instruction> sum;
  const GroupStart start{.kind = GroupKind::kReduceScatter,
                         .group = scattered.group,
                         .in_count = count,
                         .out_count = scattered.kept,
                         .ranks = scattered.ranks};
  const int part = append(program, sum, {name + ".sum", DType::kF32, start}, {whole}, layer)[0];
  append(program, sum, {name + ".sum.wait", DType::kF32, GroupWait{scattered.kept}}, {part}, layer);
  append(program, sum, {name + ".add", DType::kF32, Accumulate{.count = scattered.kept}},
         {kept, part}, layer);
  list.insert(list.begin() + end, std::make_move_iterator(sum.begin()),
              std::make_move_iterator(sum.end()));
  list.insert(list.begin() + first, {.op = {name + ".zero", DType::kF32, Fill{.count = count}},
                                     .outputs = {whole},
                                     .layer = layer});
}

}  // namespace hethub

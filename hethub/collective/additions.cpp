#include "hethub/collective/additions.h"

#include "hethub/base/error.h"

namespace hethub {

Op addition_of(const CollectiveAlgorithm& algorithm, const Step& step, const SlotLayout& layout,
               DType dtype, Reduction reduction) {
  require(!is_message(step.kind), [&] {
    return ErrorParts{.what = text(algorithm.name, ": the op of a step"),
                      .found = "a send or a receive",
                      .expected = "a reduce or a copy",
                      .fix = "price messages by the links they take"};
  });
  const Accumulate plain{.count = layout.elements(step.to)};
  if (step.kind == StepKind::kCopy) return {algorithm.name, dtype, plain};
  const bool averages = reduction == Reduction::kAvg;
  Accumulate addition = plain;
  addition.terms = step.terms;
  addition.stride = step.terms > 1 ? layout.term_stride(step.from) : 0;
  addition.reduction = averages ? Reduction::kSum : reduction;
  addition.divisor = averages && step.completes ? algorithm.world_size() : 1;
  return {algorithm.name, dtype, addition};
}

}  // namespace hethub

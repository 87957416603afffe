#include "prepare.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "cases.h"
#include "hethub/base/error.h"

namespace hethub::conformance {
namespace {

// One op of each kind, and an Accumulate of each reduction.
std::vector<Op> one_of_each_kind() {
  std::vector<Op> ops;
  std::set<std::size_t> kinds;
  for (const Op& op : all_cases()) {
    if (kinds.insert(op.body.index()).second) ops.push_back(op);
  }
  for (const Reduction reduction :
       {Reduction::kAvg, Reduction::kMin, Reduction::kMax, Reduction::kProd}) {
    ops.push_back({"sum", DType::kF32, Accumulate{.count = 7, .reduction = reduction}});
  }
  ops.push_back({"mean", DType::kF32, Accumulate{.count = 7, .divisor = 3}});
  ops.push_back({"group", DType::kF32, GroupStart{.in_count = 4, .out_count = 4}});
  ops.push_back({"group", DType::kF32, GroupWait{4}});
  return ops;
}

void expect_kernel(const BackendRow& row, const Prepare& prepare, const Op& op) {
  try {
    EXPECT_NE(prepare(op), nullptr);
  } catch (const Error& error) {
    ADD_FAILURE() << row.name << " has no kernel for " << title_of(op) << ": " << error.what();
  }
}

void expect_refusal(const BackendRow& row, const Prepare& prepare, const Op& op) {
  try {
    (void)prepare(op);
    ADD_FAILURE() << row.name << " accepts " << title_of(op) << ", which its row lacks";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported) << title_of(op) << ": " << error.what();
    EXPECT_NE(std::string(error.what()).find(op.name), std::string::npos) << error.what();
  }
}

}  // namespace

void expect_kernels_of(const BackendRow& row, const Prepare& prepare,
                       const std::vector<DType>& left_out) {
  for (Op op : one_of_each_kind()) {
    for (std::size_t dtype = 0; dtype < kDTypes.size(); ++dtype) {
      op.dtype = static_cast<DType>(dtype);
      if (std::find(left_out.begin(), left_out.end(), op.dtype) != left_out.end()) continue;
      op.name = text("layer3.", facts_of(op).kind);
      if (row.has(op)) {
        expect_kernel(row, prepare, op);
      } else {
        expect_refusal(row, prepare, op);
      }
    }
  }
}

}  // namespace hethub::conformance

#include "hethub/accel/opencl/prepare.h"

#include "hethub/accel/backend_tools.h"
#include "hethub/base/error.h"
#include "hethub/base/text.h"

namespace hethub::opencl {
namespace {

[[noreturn]] void refuse_group(const Op& op) {
  refuse_op("opencl", op, "a group op", "an op of one device", "group ops are run by the executor");
}

}  // namespace

std::string build_options(const DeviceLimits& limits, DType dtype, const std::string& more) {
  const char* narrow = dtype == DType::kBf16 ? " -DBF16" : dtype == DType::kF16 ? " -DHALF" : "";
  return text("-cl-std=CL1.2 -DWIDTH=", limits.vector_width, " -DLANES=", limits.lanes,
              " -DITEMS=", limits.items, narrow, more);
}

Prepared ready(const GroupStart& /*op*/, const Op& all, const Preparation& /*with*/) {
  refuse_group(all);
}

Prepared ready(const GroupWait& /*op*/, const Op& all, const Preparation& /*with*/) {
  refuse_group(all);
}

std::unique_ptr<PreparedOp> prepare_op(const Op& op, const Preparation& with) {
  const bool computes =
      op.dtype == DType::kF32 || op.dtype == DType::kBf16 || op.dtype == DType::kF16;
  if (!computes && !std::holds_alternative<Accumulate>(op.body)) {
    refuse_op("opencl", op, text("dtype ", name_of(op.dtype)), "f32, bf16 or f16",
              "set the plan's dtype to f32 or bf16");
  }
  return std::visit([&](const auto& body) { return ready(body, op, with); }, op.body);
}

}  // namespace hethub::opencl

#include "hethub/accel/opencl/prepare.h"

#include "hethub/accel/backend_tools.h"
#include "hethub/base/error.h"
#include "hethub/base/text.h"

namespace hethub::opencl {
namespace {

[[noreturn]] void unsupported(const Op& op, std::string found, std::string expected) {
  refuse_op("opencl", op, std::move(found), std::move(expected),
            "use dtype f32 on this kind, and the communicator for group ops");
}

}  // namespace

std::string build_options(const DeviceLimits& limits, const std::string& more) {
  return text("-cl-std=CL1.2 -DWIDTH=", limits.vector_width, " -DLANES=", limits.lanes,
              " -DITEMS=", limits.items, more);
}

Prepared ready(const GroupStart& /*op*/, const Op& all, const Preparation& /*with*/) {
  unsupported(all, "a group op", "an op of one device");
}

Prepared ready(const GroupWait& /*op*/, const Op& all, const Preparation& /*with*/) {
  unsupported(all, "a group op", "an op of one device");
}

std::unique_ptr<PreparedOp> prepare_op(const Op& op, const Preparation& with) {
  const bool every_dtype = std::holds_alternative<Accumulate>(op.body);
  if (op.dtype != DType::kF32 && !every_dtype)
    unsupported(op, text("dtype ", name_of(op.dtype)), "dtype f32");
  return std::visit([&](const auto& body) { return ready(body, op, with); }, op.body);
}

}  // namespace hethub::opencl

#include "hethub/accel/backend_tools.h"
#include "hethub/accel/opencl/kernels.h"
#include "hethub/accel/opencl/prepare.h"
#include "hethub/base/error.h"
#include "hethub/base/text.h"

namespace hethub::opencl {
namespace {

// How accumulate.cl is built for a dtype.
const char* options_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return " -DSTORED=double -DADDED=double -DDOUBLE";
    case DType::kF32:
      return " -DSTORED=float -DADDED=float -DPLAIN_FLOATS";
    case DType::kF16:
      return " -DSTORED=ushort -DADDED=float";
    case DType::kBf16:
      return " -DSTORED=ushort -DADDED=float";
    case DType::kI64:
      return " -DSTORED=long -DADDED=long -DLONG";
    case DType::kI32:
      return " -DSTORED=int -DADDED=long -DLONG";
    case DType::kI8:
      return " -DSTORED=char -DADDED=long -DLONG";
    case DType::kU8:
      return " -DSTORED=uchar -DADDED=long -DLONG";
  }
  return "";
}

int combination_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum:
    case Reduction::kAvg:
      return 0;
    case Reduction::kMin:
      return 1;
    case Reduction::kMax:
      return 2;
    case Reduction::kProd:
      return 3;
  }
  return 0;
}

void check_device(const Op& all, const Preparation& with) {
  if (all.dtype != DType::kF64) return;
  const std::string extensions = device_text(with.device, CL_DEVICE_EXTENSIONS);
  if (extensions.find("cl_khr_fp64") != std::string::npos) return;
  refuse_op("opencl", all, "a device without cl_khr_fp64", "one that adds f64",
            "reduce f32 on this kind");
}

}  // namespace

Prepared ready(const Accumulate& op, const Op& all, const Preparation& with) {
  check_device(all, with);
  cl_program program =
      with.programs.get({"accumulate", kAccumulateSource,
                         build_options(with.limits, all.dtype, options_of(all.dtype))});
  const std::int64_t vectors = (op.count + with.limits.vector_width - 1) / with.limits.vector_width;
  const bool plain = all.dtype == DType::kF32 && op.terms == 1 && op.divisor == 1 &&
                     combination_of(op.reduction) == 0;
  Launch launch(program, plain ? "accumulate_floats" : "accumulate", {output(0), input(1)},
                items(vectors, with.limits.items), all);
  launch.with(cl_long{op.count});
  if (!plain) {
    launch.with(cl_long{op.terms}).with(cl_long{op.stride}).with(cl_long{op.divisor});
    launch.with(cl_int{combination_of(op.reduction)});
  }
  return launch_list(std::move(launch));
}

}  // namespace hethub::opencl

#include "hethub/accel/cpu/levels.h"

#include "hethub/base/error.h"

namespace hethub {

Level level(int position) {
  switch (position) {
    case 0:
      return {"x86-64-v4", &x86_64_v4::kKernels, __builtin_cpu_supports("x86-64-v4") != 0};
    case 1:
      return {"x86-64-v3", &x86_64_v3::kKernels, __builtin_cpu_supports("x86-64-v3") != 0};
    default:
      return {"x86-64-v2", &x86_64_v2::kKernels, __builtin_cpu_supports("x86-64-v2") != 0};
  }
}

Level best_level() {
  for (int position = 0; position < kLevels; ++position) {
    const Level candidate = level(position);
    if (candidate.runs_here) return candidate;
  }
  throw Error(ErrorCode::kUnsupported, {.what = "cpu: instruction set",
                                        .found = "a processor below x86-64-v2",
                                        .expected = "x86-64-v2, v3 or v4",
                                        .fix = "use another kind of accelerator on this machine"});
}

}  // namespace hethub

#include "hethub/accel/cpu/levels.h"

#include "hethub/base/error.h"

namespace hethub {

Level level_of(std::string_view name) {
  const Level levels[] = {
      {"x86-64-v4", &x86_64_v4::kKernels, __builtin_cpu_supports("x86-64-v4") != 0},
      {"x86-64-v3", &x86_64_v3::kKernels, __builtin_cpu_supports("x86-64-v3") != 0},
      {"x86-64-v2", &x86_64_v2::kKernels, __builtin_cpu_supports("x86-64-v2") != 0}};
  for (const Level& level : levels) {
    if (level.runs_here && (name.empty() || name == level.name)) return level;
  }
  throw Error(ErrorCode::kUnsupported,
              {.what = "cpu: instruction set",
               .found = name.empty() ? "a processor below x86-64-v2" : text("no ", name),
               .expected = "x86-64-v2, v3 or v4",
               .fix = "use another kind of accelerator on this machine"});
}

}  // namespace hethub

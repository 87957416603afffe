#include "hethub/accel/cpu/levels.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "hethub/accel/cpu/kernels/amx/run.h"
#include "hethub/base/error.h"

namespace hethub {
namespace {

// Whether the processor has matrix tiles for bf16 and the system lets this process use them, which
// it must ask for once. Source: Linux, Documentation/x86/xstate.rst.
bool has_tiles() {
  constexpr unsigned kTiles = 1U << 24U;
  constexpr unsigned kTileBf16 = 1U << 22U;
  constexpr unsigned kVectorBf16 = 1U << 5U;
  constexpr long kRequestPermission = 0x1023;
  constexpr long kTileData = 18;
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  if ((edx & kTiles) == 0 || (edx & kTileBf16) == 0) return false;
  if (__get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) == 0) return false;
  if ((eax & kVectorBf16) == 0 || __builtin_cpu_supports("x86-64-v4") == 0) return false;
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

Kernels kernels_with_tiles() {
  Kernels kernels = x86_64_v4::kKernels;
  kernels.product = x86_64_amx::run_product;
  kernels.Kernel<Attention>::run = x86_64_amx::run_attention;
  kernels.Kernel<AttentionGrad>::run = x86_64_amx::run_attention_grad;
  return kernels;
}

}  // namespace

Level level_of(std::string_view name) {
  static const Kernels tiles = kernels_with_tiles();
  const Level levels[] = {
      {"x86-64-v4-amx", &tiles, has_tiles()},
      {"x86-64-v4", &x86_64_v4::kKernels, __builtin_cpu_supports("x86-64-v4") != 0},
      {"x86-64-v3", &x86_64_v3::kKernels, __builtin_cpu_supports("x86-64-v3") != 0},
      {"x86-64-v2", &x86_64_v2::kKernels, __builtin_cpu_supports("x86-64-v2") != 0}};
  for (const Level& level : levels) {
    if (level.runs_here && (name.empty() || name == level.name)) return level;
  }
  throw Error(ErrorCode::kUnsupported,
              {.what = "cpu: instruction set",
               .found = name.empty() ? "a processor below x86-64-v2" : text("no ", name),
               .expected = "x86-64-v2, v3, v4 or v4-amx",
               .fix = "use another kind of accelerator on this machine"});
}

}  // namespace hethub

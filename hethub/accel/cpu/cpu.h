#pragma once

#include <memory>
#include <string>
#include <vector>

#include "hethub/accel/backend.h"
#include "hethub/accel/registry.h"

namespace hethub {

/// Choices that tests make. The defaults are what a training uses.
struct CpuChoices {
  std::string level = {};  ///< "x86-64-v2", "-v3", "-v4" or "-v4-amx"; empty: the best here
};

/// Opens the processor as an accelerator.
///
/// It computes with `options.threads` threads, the calling one among them; with 1 it starts none.
/// `options.cores`, if given, has a core for each thread, and each thread is bound to its core.
/// A queue works on the thread that calls it and is done when the call returns, so events never
/// wait. Ops in f32 and, added up in f32, in bf16 (whose matrix products need AVX-512); GroupStart
/// and GroupWait belong to the communicator and throw kUnsupported, as does a processor below
/// x86-64-v2. Throws kUnavailable for a device but 0, kInvalidArgument for threads < 1 or too few
/// cores.
std::unique_ptr<Backend> open_cpu(const BackendOptions& options);
std::unique_ptr<Backend> open_cpu(const BackendOptions& options, const CpuChoices& choices);

/// The processor: always one device.
std::vector<FoundDevice> find_cpu();

}  // namespace hethub

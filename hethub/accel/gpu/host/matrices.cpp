#include "hethub/accel/gpu/matrices.h"

namespace hethub::gpu {

// The kernel of ours is what a test is to run.
std::unique_ptr<Matrices> open_matrices(void* /*stream*/) { return nullptr; }

}  // namespace hethub::gpu

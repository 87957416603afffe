#include "hethub/accel/gpu/matrices.h"

#include <dlfcn.h>

#include "hethub/base/error.h"
#include "vendor_library.h"

namespace hethub::gpu {
namespace {

// cuBLAS and rocBLAS have these functions alike; the handle and the stream are pointers in both.
using Create = int (*)(void** handle);
using Destroy = int (*)(void* handle);
using SetStream = int (*)(void* handle, void* stream);
using Sgemm = int (*)(void* handle, int op_a, int op_b, int m, int n, int k, const float* alpha,
                      const float* a, int lda, const float* b, int ldb, const float* beta, float* c,
                      int ldc);

void check(int status, const char* call) {
  if (status == 0) return;
  throw Error(ErrorCode::kInternal, {.what = text(kLibrary.name, ": ", call),
                                     .found = text("status ", status),
                                     .expected = "0",
                                     .fix = "see whether `hethub verify` passes on this device"});
}

void* load() {
  for (const char* file : kLibrary.files) {
    void* library = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) return library;
  }
  return nullptr;
}

template <typename Function>
Function symbol(void* library, const char* name) {
  return reinterpret_cast<Function>(::dlsym(library, name));
}

class Library final : public Matrices {
 public:
  Library(void* library, void* stream)
      : destroy_(symbol<Destroy>(library, kLibrary.destroy)),
        sgemm_(symbol<Sgemm>(library, kLibrary.sgemm)) {
    const auto create = symbol<Create>(library, kLibrary.create);
    const auto set_stream = symbol<SetStream>(library, kLibrary.set_stream);
    if (create == nullptr || set_stream == nullptr || destroy_ == nullptr || sgemm_ == nullptr) {
      check(-1, "its functions are not all there");
    }
    check(create(&handle_), kLibrary.create);
    check(set_stream(handle_, stream), kLibrary.set_stream);
  }
  ~Library() override { destroy_(handle_); }

  // Both libraries are column-major: the row-major c = a · b is their cᵀ = bᵀ · aᵀ.
  void multiply(const Product& p) override {
    const float one = 1;
    const float beta = p.accumulate ? 1 : 0;
    check(sgemm_(handle_, p.b_transposed ? kLibrary.transposed : kLibrary.plain,
                 p.a_transposed ? kLibrary.transposed : kLibrary.plain, static_cast<int>(p.n),
                 static_cast<int>(p.m), static_cast<int>(p.k), &one, p.b,
                 static_cast<int>(p.b_transposed ? p.k : p.n), p.a,
                 static_cast<int>(p.a_transposed ? p.m : p.k), &beta, p.c, static_cast<int>(p.n)),
          kLibrary.sgemm);
  }

 private:
  Destroy destroy_;
  Sgemm sgemm_;
  void* handle_ = nullptr;
};

}  // namespace

std::unique_ptr<Matrices> open_matrices(void* stream) {
  void* library = load();
  return library == nullptr ? nullptr : std::make_unique<Library>(library, stream);
}

}  // namespace hethub::gpu

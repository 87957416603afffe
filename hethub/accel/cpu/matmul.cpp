#include "hethub/accel/cpu/matmul.h"

#include <array>

#include <oneapi/dnnl/dnnl.h>

#include "hethub/accel/cpu/library_memory.h"
#include "hethub/base/error.h"

namespace hethub {
namespace {

void check(dnnl_status_t status, const char* call) {
  if (status == dnnl_success) return;
  throw Error(status == dnnl_out_of_memory ? ErrorCode::kOutOfMemory : ErrorCode::kInternal,
              {.what = text("matrix product: ", call),
               .found = text("oneDNN status ", static_cast<int>(status)),
               .expected = "success",
               .fix = "set DNNL_VERBOSE=2 and run again to see what it refused"});
}

// Owns one of the library's objects.
template <typename T, dnnl_status_t (*Destroy)(T)>
struct Deleter {
  using pointer = T;
  void operator()(T object) const { Destroy(object); }
};
template <typename T, dnnl_status_t (*Destroy)(T)>
using Handle = std::unique_ptr<T, Deleter<T, Destroy>>;
using MemoryHandle = Handle<dnnl_memory_t, dnnl_memory_destroy>;
using Description = Handle<dnnl_primitive_desc_t, dnnl_primitive_desc_destroy>;

dnnl_data_type_t type_of(DType type) { return type == DType::kBf16 ? dnnl_bf16 : dnnl_f32; }

dnnl_memory_desc_t matrix(std::int64_t rows, std::int64_t columns, DType type,
                          bool transposed = false) {
  const dnnl_dims_t sizes = {rows, columns};
  const dnnl_dims_t strides = {transposed ? 1 : columns, transposed ? rows : 1};
  dnnl_memory_desc_t description;
  check(dnnl_memory_desc_init_by_strides(&description, 2, sizes, type_of(type), strides),
        "describing a matrix");
  return description;
}

MemoryHandle memory_of(const dnnl_memory_desc_t& description, dnnl_engine_t engine) {
  dnnl_memory_t memory = nullptr;
  check(dnnl_memory_create(&memory, &description, engine, DNNL_MEMORY_NONE), "making a memory");
  return MemoryHandle(memory);
}

Handle<dnnl_primitive_attr_t, dnnl_primitive_attr_destroy> attributes_of(
    const MatrixProduct& product) {
  dnnl_primitive_attr_t raw = nullptr;
  check(dnnl_primitive_attr_create(&raw), "making attributes");
  Handle<dnnl_primitive_attr_t, dnnl_primitive_attr_destroy> attributes(raw);
  check(dnnl_primitive_attr_set_scratchpad_mode(raw, dnnl_scratchpad_mode_user), "scratch mode");
  if (!product.accumulate) return attributes;
  dnnl_post_ops_t sums = nullptr;
  check(dnnl_post_ops_create(&sums), "making post-ops");
  const Handle<dnnl_post_ops_t, dnnl_post_ops_destroy> owner(sums);
  check(dnnl_post_ops_append_sum(sums, 1.0F), "adding to the output");
  check(dnnl_primitive_attr_set_post_ops(raw, sums), "setting post-ops");
  return attributes;
}

std::int64_t scratch_of(dnnl_primitive_desc_t description) {
  const dnnl_memory_desc_t* scratch =
      dnnl_primitive_desc_query_md(description, dnnl_query_scratchpad_md, 0);
  return static_cast<std::int64_t>(dnnl_memory_desc_get_size(scratch));
}

// The library's first implementation that is content with the workspace.
Description choose(const dnnl_matmul_desc_t& wanted, const MatrixProduct& product,
                   dnnl_engine_t engine) {
  const auto attributes = attributes_of(product);
  dnnl_primitive_desc_iterator_t raw = nullptr;
  const dnnl_status_t found =
      dnnl_primitive_desc_iterator_create(&raw, &wanted, attributes.get(), engine, nullptr);
  if (found == dnnl_unimplemented) {
    throw Error(ErrorCode::kUnsupported,
                {.what = text("matrix product ", product.m, " x ", product.k, " x ", product.n),
                 .found = text("no implementation for ", name_of(product.operands), " here"),
                 .expected = "a processor with AVX-512 for bf16",
                 .fix = "set the plan's dtype to f32"});
  }
  check(found, "looking for an implementation");
  const Handle<dnnl_primitive_desc_iterator_t, dnnl_primitive_desc_iterator_destroy> candidates(
      raw);
  std::int64_t least = -1;
  do {
    Description candidate(dnnl_primitive_desc_iterator_fetch(raw));
    if (candidate == nullptr) break;
    const std::int64_t scratch = scratch_of(candidate.get());
    if (scratch <= product.workspace_bytes) return candidate;
    if (least < 0 || scratch < least) least = scratch;
  } while (dnnl_primitive_desc_iterator_next(raw) == dnnl_success);
  throw Error(ErrorCode::kUnsupported,
              {.what = text("matrix product ", product.m, " x ", product.k, " x ", product.n),
               .found = text("a need of ", least, " bytes of workspace"),
               .expected = text("at most ", product.workspace_bytes),
               .fix = "raise matmul_workspace in hethub/op/op.cpp"});
}

}  // namespace

MatrixLibrary::MatrixLibrary() {
  check(dnnl_engine_create(&engine_, dnnl_cpu, 0), "starting");
  check(dnnl_stream_create(&stream_, engine_, dnnl_stream_default_flags), "making a stream");
}

MatrixLibrary::~MatrixLibrary() {
  dnnl_stream_destroy(stream_);
  dnnl_engine_destroy(engine_);
}

struct PreparedProduct::Parts {
  dnnl_stream_t stream = nullptr;
  Handle<dnnl_primitive_t, dnnl_primitive_destroy> primitive = {};
  MemoryHandle a = {};
  MemoryHandle b = {};
  MemoryHandle bias = {};
  MemoryHandle c = {};
  MemoryHandle scratch = {};
};

PreparedProduct::PreparedProduct(const MatrixLibrary& library, const MatrixProduct& product)
    : parts_(std::make_unique<Parts>()) {
  const dnnl_memory_desc_t a = matrix(product.m, product.k, product.operands, product.a_transposed);
  const dnnl_memory_desc_t b = matrix(product.k, product.n, product.operands, product.b_transposed);
  const dnnl_memory_desc_t c = matrix(product.m, product.n, product.result);
  const dnnl_memory_desc_t bias = matrix(1, product.n, product.operands);
  dnnl_matmul_desc_t wanted;
  check(dnnl_matmul_desc_init(&wanted, &a, &b, product.bias ? &bias : nullptr, &c),
        "describing the product");
  const Description chosen = choose(wanted, product, library.engine());
  dnnl_primitive_t primitive = nullptr;
  check(dnnl_primitive_create(&primitive, chosen.get()), "compiling");
  parts_->primitive.reset(primitive);
  parts_->stream = library.stream();
  parts_->a = memory_of(a, library.engine());
  parts_->b = memory_of(b, library.engine());
  parts_->c = memory_of(c, library.engine());
  if (product.bias) parts_->bias = memory_of(bias, library.engine());
  const dnnl_memory_desc_t* scratch =
      dnnl_primitive_desc_query_md(chosen.get(), dnnl_query_scratchpad_md, 0);
  parts_->scratch = memory_of(*scratch, library.engine());
}

PreparedProduct::~PreparedProduct() = default;

void PreparedProduct::run(const MatrixOperands& operands) {
  const LibraryMemory no_allocation;
  std::array<dnnl_exec_arg_t, 5> arguments = {};
  int count = 0;
  const auto pass = [&](int position, const MemoryHandle& memory, const void* data) {
    if (memory == nullptr) return;
    // The library reads what is const; its interface does not say so.
    check(dnnl_memory_set_data_handle(memory.get(), const_cast<void*>(data)), "passing memory");
    arguments[static_cast<std::size_t>(count++)] = {position, memory.get()};
  };
  pass(DNNL_ARG_SRC, parts_->a, operands.a);
  pass(DNNL_ARG_WEIGHTS, parts_->b, operands.b);
  pass(DNNL_ARG_BIAS, parts_->bias, operands.bias);
  pass(DNNL_ARG_DST, parts_->c, operands.c);
  pass(DNNL_ARG_SCRATCHPAD, parts_->scratch, operands.workspace);
  check(dnnl_primitive_execute(parts_->primitive.get(), parts_->stream, count, arguments.data()),
        "running");
  check(dnnl_stream_wait(parts_->stream), "waiting");
}

}  // namespace hethub

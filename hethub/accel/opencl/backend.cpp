#include <cstdlib>

#include "hethub/accel/backend_tools.h"
#include "hethub/accel/opencl/device.h"
#include "hethub/accel/opencl/opencl.h"
#include "hethub/accel/opencl/prepare.h"
#include "hethub/accel/opencl/program.h"
#include "hethub/accel/opencl/queue.h"
#include "hethub/accel/opencl/status.h"
#include "hethub/base/error.h"
#include "hethub/base/files.h"
#include "hethub/base/text.h"

namespace hethub::opencl {
namespace {

// On a CPU device with more compute units than threads asked for: a part of it. The driver was
// then started before this process said how many threads it wants.
Device part_of_device(cl_device_id device, int threads) {
  const cl_device_partition_property properties[] = {CL_DEVICE_PARTITION_BY_COUNTS, threads,
                                                     CL_DEVICE_PARTITION_BY_COUNTS_LIST_END, 0};
  cl_device_id part = nullptr;
  cl_uint count = 0;
  check(clCreateSubDevices(device, properties, 1, &part, &count), "clCreateSubDevices",
        text(threads, " compute units"));
  return Device(part);
}

class OpenclBackend final : public Backend {
 public:
  OpenclBackend(cl_device_id device, Device part, const OpenclChoices& choices)
      : part_(std::move(part)),
        device_(part_.get() == nullptr ? device : part_.get()),
        info_(info_of(device_)),
        limits_(limits_of(device_, choices)),
        context_(make_context(device_)),
        programs_(context_.get(), device_, choices.cache_folder),
        matmul_(choices.matmul) {
    if (matmul_ == OpenclMatmul::kAuto) {
      matmul_ = limits_.is_cpu ? OpenclMatmul::kKernel : OpenclMatmul::kClblast;
    }
    if (matmul_ == OpenclMatmul::kKernel && !limits_.is_cpu) {
      throw Error(ErrorCode::kUnsupported,
                  {.what = "opencl: our matrix product kernel",
                   .found = text("the device ", info_.name, ", which is no CPU"),
                   .expected = "a CPU device",
                   .fix = "choose clblast"});
    }
    queue_ = new_queue();
  }

  DeviceInfo info() const override { return info_; }

  std::unique_ptr<Buffer> allocate(std::int64_t bytes) override {
    require_room(bytes);
    const auto size = static_cast<std::size_t>(std::max<std::int64_t>(bytes, 4) + 3) / 4 * 4;
    // A CPU device computes in the host's memory, where the driver would take small pages.
    HostPages pages(limits_.is_cpu ? static_cast<std::int64_t>(size) : 0, "opencl: allocation");
    const cl_mem_flags place = limits_.is_cpu ? CL_MEM_USE_HOST_PTR : 0;
    cl_int status = CL_SUCCESS;
    Memory memory(
        clCreateBuffer(context_.get(), CL_MEM_READ_WRITE | place, size, pages.data(), &status));
    check(status, "clCreateBuffer", bytes_text(static_cast<double>(bytes)));
    const cl_int zero = 0;
    check(clEnqueueFillBuffer(queue_.get(), memory.get(), &zero, sizeof(zero), 0, size, 0, nullptr,
                              nullptr),
          "clEnqueueFillBuffer", "allocation");
    check(clFinish(queue_.get()), "clFinish", "allocation");
    return std::make_unique<OpenclBuffer>(std::move(pages), std::move(memory), bytes, allocated_);
  }

  std::unique_ptr<Queue> make_queue() override {
    return std::make_unique<OpenclQueue>(new_queue());
  }

  std::unique_ptr<Event> make_event() override { return std::make_unique<OpenclEvent>(); }

  std::unique_ptr<PreparedOp> prepare(const Op& op) override {
    return prepare_op(
        op, {.programs = programs_, .device = device_, .limits = limits_, .matmul = matmul_});
  }

 private:
  static Context make_context(cl_device_id device) {
    cl_int status = CL_SUCCESS;
    Context context(clCreateContext(nullptr, 1, &device, nullptr, nullptr, &status));
    check(status, "clCreateContext", "device");
    return context;
  }

  CommandQueue new_queue() {
    cl_int status = CL_SUCCESS;
    CommandQueue queue(clCreateCommandQueue(context_.get(), device_, 0, &status));
    check(status, "clCreateCommandQueue", "device");
    return queue;
  }

  void require_room(std::int64_t bytes) const {
    require(bytes >= 0, {.what = "opencl: allocation",
                         .found = text(bytes, " bytes"),
                         .expected = "0 or more",
                         .fix = "pass the size of a memory plan"});
    const std::int64_t free = limits_.memory_bytes - allocated_;
    if (bytes <= free && bytes <= limits_.allocation_bytes) return;
    throw Error(ErrorCode::kOutOfMemory,
                {.what = text("opencl: allocation of ", bytes_text(static_cast<double>(bytes)),
                              " on ", info_.name),
                 .found = text(bytes_text(static_cast<double>(free)), " free, ",
                               bytes_text(static_cast<double>(limits_.allocation_bytes)),
                               " the most in one piece"),
                 .expected = bytes_text(static_cast<double>(bytes)),
                 .fix = "turn on recompute for this stage, give it fewer layers, or lower "
                        "micro_batch_size"});
  }

  Device part_;
  cl_device_id device_;
  DeviceInfo info_;
  DeviceLimits limits_;
  Context context_;
  Programs programs_;
  OpenclMatmul matmul_;
  CommandQueue queue_;
  std::int64_t allocated_ = 0;
};

}  // namespace
}  // namespace hethub::opencl

namespace hethub {

std::unique_ptr<Backend> open_opencl(const BackendOptions& options) {
  return open_opencl(options, OpenclChoices{});
}

std::unique_ptr<Backend> open_opencl(const BackendOptions& options, const OpenclChoices& choices) {
  require(options.threads > 0, {.what = "opencl: threads",
                                .found = text(options.threads),
                                .expected = "1 or more",
                                .fix = "give the rank at least one thread"});
  bind_to_cores("opencl", options.cores);
  setenv("POCL_MAX_PTHREAD_COUNT", text(options.threads).c_str(), 0);
  const std::vector<cl_device_id> devices = opencl::list_devices();
  if (options.device < 0 || options.device >= static_cast<int>(devices.size())) {
    throw Error(ErrorCode::kUnavailable,
                {.what = "opencl: device",
                 .found = text(options.device, " of ", devices.size()),
                 .expected = devices.empty() ? std::string("an OpenCL driver")
                                             : text("0 to ", devices.size() - 1),
                 .fix = "see `hethub devices`; to use the CPU: apt install pocl-opencl-icd"});
  }
  const cl_device_id device = devices[options.device];
  const opencl::DeviceLimits limits = opencl::limits_of(device, choices);
  opencl::Device part;
  if (limits.is_cpu && limits.compute_units > options.threads) {
    part = opencl::part_of_device(device, options.threads);
  }
  return std::make_unique<opencl::OpenclBackend>(device, std::move(part), choices);
}

}  // namespace hethub

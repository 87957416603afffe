#pragma once

#include <utility>

#include <CL/cl.h>

namespace hethub::opencl {

/// Owns one reference to an OpenCL object.
template <typename T, cl_int (*kRelease)(T)>
class Handle {
 public:
  Handle() = default;
  explicit Handle(T object) : object_(object) {}
  Handle(Handle&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Handle() { reset(); }

  T get() const { return object_; }

  void reset(T object = nullptr) {
    if (object_ != nullptr) kRelease(object_);
    object_ = object;
  }

 private:
  T object_ = nullptr;
};

using Context = Handle<cl_context, clReleaseContext>;
using CommandQueue = Handle<cl_command_queue, clReleaseCommandQueue>;
using Memory = Handle<cl_mem, clReleaseMemObject>;
using Program = Handle<cl_program, clReleaseProgram>;
using Kernel = Handle<cl_kernel, clReleaseKernel>;
using Marker = Handle<cl_event, clReleaseEvent>;
using Device = Handle<cl_device_id, clReleaseDevice>;

}  // namespace hethub::opencl

#pragma once

#include <string_view>

#include <CL/cl.h>

namespace hethub::opencl {

/// The status as the standard spells it, e.g. "CL_OUT_OF_RESOURCES"; CLBlast's own included.
std::string_view name_of_status(cl_int status);

/// Throws the Error that says `call` failed on `subject`: an op's name, a file, "device 0".
[[noreturn]] void fail(cl_int status, std::string_view call, std::string_view subject);

/// Throws unless `status` is CL_SUCCESS.
inline void check(cl_int status, std::string_view call, std::string_view subject) {
  if (status != CL_SUCCESS) fail(status, call, subject);
}

}  // namespace hethub::opencl

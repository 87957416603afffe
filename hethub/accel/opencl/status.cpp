#include "hethub/accel/opencl/status.h"

#include <string>

#include "hethub/base/error.h"
#include "hethub/base/text.h"

namespace hethub::opencl {
namespace {

struct StatusRow {
  cl_int status;
  std::string_view name;
};

#define HETHUB_STATUS(name) \
  StatusRow { name, #name }
constexpr StatusRow kStatuses[] = {
    HETHUB_STATUS(CL_SUCCESS),
    HETHUB_STATUS(CL_DEVICE_NOT_FOUND),
    HETHUB_STATUS(CL_DEVICE_NOT_AVAILABLE),
    HETHUB_STATUS(CL_COMPILER_NOT_AVAILABLE),
    HETHUB_STATUS(CL_MEM_OBJECT_ALLOCATION_FAILURE),
    HETHUB_STATUS(CL_OUT_OF_RESOURCES),
    HETHUB_STATUS(CL_OUT_OF_HOST_MEMORY),
    HETHUB_STATUS(CL_PROFILING_INFO_NOT_AVAILABLE),
    HETHUB_STATUS(CL_MEM_COPY_OVERLAP),
    HETHUB_STATUS(CL_BUILD_PROGRAM_FAILURE),
    HETHUB_STATUS(CL_MISALIGNED_SUB_BUFFER_OFFSET),
    HETHUB_STATUS(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST),
    HETHUB_STATUS(CL_COMPILE_PROGRAM_FAILURE),
    HETHUB_STATUS(CL_LINK_PROGRAM_FAILURE),
    HETHUB_STATUS(CL_DEVICE_PARTITION_FAILED),
    HETHUB_STATUS(CL_INVALID_VALUE),
    HETHUB_STATUS(CL_INVALID_DEVICE_TYPE),
    HETHUB_STATUS(CL_INVALID_PLATFORM),
    HETHUB_STATUS(CL_INVALID_DEVICE),
    HETHUB_STATUS(CL_INVALID_CONTEXT),
    HETHUB_STATUS(CL_INVALID_QUEUE_PROPERTIES),
    HETHUB_STATUS(CL_INVALID_COMMAND_QUEUE),
    HETHUB_STATUS(CL_INVALID_MEM_OBJECT),
    HETHUB_STATUS(CL_INVALID_BINARY),
    HETHUB_STATUS(CL_INVALID_BUILD_OPTIONS),
    HETHUB_STATUS(CL_INVALID_PROGRAM),
    HETHUB_STATUS(CL_INVALID_PROGRAM_EXECUTABLE),
    HETHUB_STATUS(CL_INVALID_KERNEL_NAME),
    HETHUB_STATUS(CL_INVALID_KERNEL_DEFINITION),
    HETHUB_STATUS(CL_INVALID_KERNEL),
    HETHUB_STATUS(CL_INVALID_ARG_INDEX),
    HETHUB_STATUS(CL_INVALID_ARG_VALUE),
    HETHUB_STATUS(CL_INVALID_ARG_SIZE),
    HETHUB_STATUS(CL_INVALID_KERNEL_ARGS),
    HETHUB_STATUS(CL_INVALID_WORK_DIMENSION),
    HETHUB_STATUS(CL_INVALID_WORK_GROUP_SIZE),
    HETHUB_STATUS(CL_INVALID_WORK_ITEM_SIZE),
    HETHUB_STATUS(CL_INVALID_GLOBAL_OFFSET),
    HETHUB_STATUS(CL_INVALID_EVENT_WAIT_LIST),
    HETHUB_STATUS(CL_INVALID_EVENT),
    HETHUB_STATUS(CL_INVALID_OPERATION),
    HETHUB_STATUS(CL_INVALID_BUFFER_SIZE),
    HETHUB_STATUS(CL_INVALID_GLOBAL_WORK_SIZE),
    HETHUB_STATUS(CL_INVALID_DEVICE_PARTITION_COUNT),
    {-1001, "CL_PLATFORM_NOT_FOUND_KHR"},
};
#undef HETHUB_STATUS

bool is_memory(cl_int status) {
  return status == CL_MEM_OBJECT_ALLOCATION_FAILURE || status == CL_OUT_OF_HOST_MEMORY;
}

}  // namespace

std::string_view name_of_status(cl_int status) {
  for (const StatusRow& row : kStatuses) {
    if (row.status == status) return row.name;
  }
  return "a status of the driver's own";
}

void fail(cl_int status, std::string_view call, std::string_view subject) {
  const bool memory = is_memory(status);
  throw Error(memory ? ErrorCode::kOutOfMemory : ErrorCode::kInternal,
              {.what = text("opencl: ", subject, ": ", call),
               .found = text(name_of_status(status), " (", status, ")"),
               .expected = "CL_SUCCESS",
               .fix = memory ? "free memory on the device, or lower micro_batch_size"
                             : "see whether `hethub verify` passes on this device, and try another "
                               "version of its driver"});
}

}  // namespace hethub::opencl

#pragma once

#include <string_view>

namespace hethub::opencl {

/// The files of kernels/, as OpenCL C. kCommonSource goes before each of the others.
extern const std::string_view kCommonSource;
extern const std::string_view kAccumulateSource;
extern const std::string_view kElementwiseSource;
extern const std::string_view kRowsSource;
extern const std::string_view kExpertsSource;
extern const std::string_view kLossSource;
extern const std::string_view kAttentionSource;
extern const std::string_view kMatmulSource;

}  // namespace hethub::opencl

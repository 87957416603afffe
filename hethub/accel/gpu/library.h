#pragma once

#include <array>

namespace hethub::gpu {

/// The vendor's library of matrix products, and how it names what matrices.cpp calls.
struct VendorLibrary {
  const char* name = "";
  std::array<const char*, 3> files = {};
  const char* create = "";
  const char* destroy = "";
  const char* set_stream = "";
  const char* sgemm = "";
  int plain = 0;
  int transposed = 0;
};

}  // namespace hethub::gpu

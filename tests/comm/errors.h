#pragma once

#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "hethub/base/error.h"

namespace hethub {

/// The text of the error that a call ends in, which must be of that code.
inline std::string error_text(const std::function<void()>& call, ErrorCode expected) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), expected) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

inline void expect_contains(const std::string& whole, const std::string& part) {
  EXPECT_NE(whole.find(part), std::string::npos) << whole;
}

}  // namespace hethub

#pragma once

#include <string>
#include <vector>

namespace hethub {

/// What `hethub predict --validate` was asked for.
struct ValidateArguments {
  std::vector<std::string> files = {};
  bool calibrate = false;
  bool held_out = false;
  std::string leave_out = {};
  int rounds = 12;
};

/// Prints published runs beside their predictions.
int run_validate(const ValidateArguments& arguments, bool json);

}  // namespace hethub

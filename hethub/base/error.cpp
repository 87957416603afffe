#include "hethub/base/error.h"

#include <array>
#include <utility>

namespace hethub {
namespace {

struct CodeRow {
  std::string_view name;
  int exit_status;
};

// In the order of the enum.
constexpr std::array<CodeRow, 14> kCodes = {{
    {"invalid_argument", 70},
    {"usage", 64},
    {"invalid_config", 78},
    {"invalid_plan", 78},
    {"deadlock", 70},
    {"out_of_memory", 70},
    {"unsupported", 78},
    {"timeout", 69},
    {"unavailable", 69},
    {"missing_input", 66},
    {"corrupt_data", 65},
    {"cannot_write", 73},
    {"numerical", 70},
    {"internal", 70},
}};

const CodeRow& row_of(ErrorCode code) { return kCodes.at(static_cast<std::size_t>(code)); }

}  // namespace

std::string_view name_of(ErrorCode code) { return row_of(code).name; }

int exit_status_of(ErrorCode code) { return row_of(code).exit_status; }

Error::Error(ErrorCode code, ErrorParts parts)
    : std::runtime_error(text(parts.what, ", found ", parts.found, ", expected ", parts.expected,
                              "; ", parts.fix)),
      code_(code),
      parts_(std::move(parts)) {}

}  // namespace hethub

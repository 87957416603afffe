#include "hethub/base/error.h"

#include <set>

#include <gtest/gtest.h>

#include "hethub/base/dtype.h"
#include "hethub/base/version.h"

namespace hethub {
namespace {

constexpr int kCodes = static_cast<int>(ErrorCode::kInternal) + 1;

TEST(Error, says_what_was_found_and_expected_and_how_to_mend_it) {
  const Error error(ErrorCode::kInvalidPlan,
                    {.what = "stage 1: tp", .found = "3", .expected = "1, 2 or 4", .fix = "use 2"});
  EXPECT_STREQ(error.what(), "stage 1: tp, found 3, expected 1, 2 or 4; use 2");
  EXPECT_EQ(error.code(), ErrorCode::kInvalidPlan);
  EXPECT_EQ(error.parts().fix, "use 2");
}

TEST(Error, every_code_has_a_name_of_its_own_and_a_status_of_the_table) {
  const std::set<int> statuses = {64, 65, 66, 69, 70, 73, 75, 78};
  std::set<std::string_view> names;
  for (int code = 0; code < kCodes; ++code) {
    names.insert(name_of(static_cast<ErrorCode>(code)));
    EXPECT_TRUE(statuses.contains(exit_status_of(static_cast<ErrorCode>(code)))) << code;
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(kCodes));
  EXPECT_EQ(exit_status_of(ErrorCode::kUsage), 64);
  EXPECT_EQ(exit_status_of(ErrorCode::kCorruptData), 65);
  EXPECT_EQ(exit_status_of(ErrorCode::kMissingInput), 66);
  EXPECT_EQ(exit_status_of(ErrorCode::kUnavailable), 69);
  EXPECT_EQ(exit_status_of(ErrorCode::kCannotWrite), 73);
  EXPECT_EQ(exit_status_of(ErrorCode::kInvalidPlan), 78);
}

TEST(Error, require_throws_only_when_the_condition_fails) {
  EXPECT_NO_THROW(require(true, {}));
  EXPECT_THROW(require(false, {.what = "rank"}), Error);
}

TEST(DType, has_the_size_its_name_says) {
  for (std::size_t index = 0; index < kDTypes.size(); ++index) {
    const auto dtype = static_cast<DType>(index);
    const std::string name(name_of(dtype));
    EXPECT_EQ(std::to_string(8 * size_of(dtype)), name.substr(name.find_first_of("0123456789")));
  }
}

TEST(Version, starts_with_the_projects_number) {
  EXPECT_TRUE(version().starts_with(HETHUB_PROJECT_VERSION)) << version();
}

}  // namespace
}  // namespace hethub

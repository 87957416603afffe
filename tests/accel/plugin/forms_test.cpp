#include "hethub/accel/plugin/forms.h"

#include <algorithm>
#include <cstring>

#include <gtest/gtest.h>

#include "tests/conformance/cases.h"

namespace hethub {
namespace {

TEST(Forms, every_op_crosses_the_edge_unchanged) {
  std::vector<Op> ops = conformance::all_cases();
  ops.push_back({"sum", DType::kBf16, GroupStart{GroupKind::kReduceScatter, 3, 8, 4, 2, 6}});
  ops.push_back({"sum", DType::kBf16, GroupWait{4}});
  for (const Op& op : ops) {
    const Op crossed = op_of(form_of(op));
    EXPECT_EQ(crossed.name, op.name);
    EXPECT_EQ(crossed.dtype, op.dtype);
    EXPECT_EQ(crossed.body, op.body) << conformance::title_of(op);
  }
}

TEST(Forms, a_kind_of_op_or_a_dtype_of_another_version_is_refused_by_name) {
  const Op op{"layer3.add", DType::kF32, Add{4}};
  for (const bool kind : {true, false}) {
    HethubOp form = form_of(op);
    (kind ? form.kind : form.dtype) = "fourier";
    try {
      (void)op_of(form);
      ADD_FAILURE() << "it was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
      EXPECT_NE(std::string(error.what()).find("layer3.add"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("fourier"), std::string::npos) << error.what();
    }
  }
}

TEST(Forms, an_error_keeps_its_code_and_its_parts) {
  for (int code = 0; code <= static_cast<int>(ErrorCode::kInternal); ++code) {
    const Error error(static_cast<ErrorCode>(code),
                      {.what = "w", .found = "f", .expected = "e", .fix = "x"});
    HethubError form = {};
    fill(form, error);
    EXPECT_EQ(error_of(form).code(), error.code());
    EXPECT_STREQ(error_of(form).what(), error.what());
  }
}

TEST(Forms, a_text_too_long_is_cut_and_one_without_an_end_is_not_overrun) {
  HethubError form = {};
  fill(form, {ErrorCode::kInternal,
              {.what = std::string(9999, 'w'), .found = "f", .expected = "e", .fix = "x"}});
  EXPECT_EQ(error_of(form).parts().what, std::string(sizeof(form.what) - 1, 'w'));
  std::fill(std::begin(form.fix), std::end(form.fix), 'x');
  EXPECT_EQ(error_of(form).parts().fix, std::string(sizeof(form.fix), 'x'));
}

TEST(Forms, an_error_of_a_code_this_side_does_not_know_is_internal) {
  HethubError form = {};
  std::strcpy(form.code, "of_the_future");
  EXPECT_EQ(error_of(form).code(), ErrorCode::kInternal);
}

}  // namespace
}  // namespace hethub

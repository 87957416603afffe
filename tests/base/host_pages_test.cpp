#include "hethub/base/host_pages.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include <gtest/gtest.h>

#include "hethub/base/error.h"

namespace hethub {
namespace {

TEST(HostPages, are_zero_and_aligned) {
  for (const std::int64_t bytes : {1LL, 4097LL, 3LL << 20}) {
    const HostPages pages(bytes, "test");
    EXPECT_EQ(pages.bytes(), bytes);
    const std::int64_t alignment = bytes >= 2 << 20 ? 2 << 20 : 4096;
    EXPECT_EQ(reinterpret_cast<std::intptr_t>(pages.data()) % alignment, 0);
    EXPECT_TRUE(std::all_of(pages.data(), pages.data() + bytes,
                            [](std::byte value) { return value == std::byte{0}; }));
  }
}

TEST(HostPages, pass_to_another_owner_with_their_content) {
  HostPages first(100, "test");
  first.data()[99] = std::byte{7};
  const HostPages second(std::move(first));
  EXPECT_EQ(second.data()[99], std::byte{7});
  EXPECT_EQ(HostPages(0, "test").data(), nullptr);
}

TEST(HostPages, more_than_the_address_space_is_refused_by_name) {
  try {
    const HostPages pages(std::int64_t{1} << 60, "the arena");
    FAIL() << "1 EiB was given";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
    EXPECT_NE(std::string(error.what()).find("the arena"), std::string::npos);
  }
}

}  // namespace
}  // namespace hethub

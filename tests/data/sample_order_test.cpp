#include "hethub/data/sample_order.h"

#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "tests/data/test_files.h"

namespace hethub {
namespace {

std::vector<std::int64_t> epoch_of(const SampleOrder& order, std::int64_t count,
                                   std::int64_t epoch) {
  std::vector<std::int64_t> out;
  for (std::int64_t position = 0; position < count; ++position) {
    out.push_back(order.at(epoch * count + position));
  }
  return out;
}

TEST(SampleOrder, every_epoch_visits_each_sample_once) {
  for (std::int64_t count = 1; count <= 600; ++count) {
    const SampleOrder order(static_cast<std::uint64_t>(count), count);
    for (const std::int64_t epoch : {0, 1, 7}) {
      const auto visits = epoch_of(order, count, epoch);
      const std::set<std::int64_t> different(visits.begin(), visits.end());
      ASSERT_EQ(static_cast<std::int64_t>(different.size()), count);
      ASSERT_EQ(*different.begin(), 0);
      ASSERT_EQ(*different.rbegin(), count - 1);
    }
  }
}

TEST(SampleOrder, a_large_epoch_visits_each_sample_once) {
  constexpr std::int64_t kCount = 262'145;  // one more than a power of four: the longest walks
  const SampleOrder order(3, kCount);
  std::vector<bool> seen(kCount);
  for (const std::int64_t sample : epoch_of(order, kCount, 2)) {
    ASSERT_FALSE(seen.at(static_cast<std::size_t>(sample)));
    seen[static_cast<std::size_t>(sample)] = true;
  }
}

TEST(SampleOrder, counts_up_to_the_largest_stay_in_range) {
  for (const std::int64_t count : {(std::int64_t{1} << 40) + 1, std::int64_t{1} << 62}) {
    const SampleOrder order(1, count);
    std::set<std::int64_t> different;
    for (std::int64_t sample = 0; sample < 2000; ++sample) {
      const std::int64_t at = order.at(sample);
      ASSERT_TRUE(at >= 0 && at < count);
      different.insert(at);
    }
    EXPECT_EQ(different.size(), 2000U);
  }
}

TEST(SampleOrder, seeds_and_epochs_differ) {
  const SampleOrder one(1, 64);
  const SampleOrder two(2, 64);
  EXPECT_NE(epoch_of(one, 64, 0), epoch_of(two, 64, 0));
  EXPECT_NE(epoch_of(one, 64, 0), epoch_of(one, 64, 1));
  EXPECT_EQ(epoch_of(one, 64, 5), epoch_of(SampleOrder(1, 64), 64, 5));
}

// Each of n samples takes each of n places in 1/n of the epochs: within five standard deviations.
TEST(SampleOrder, every_sample_is_as_likely_at_every_position) {
  constexpr std::int64_t kEpochs = 8000;
  for (const std::int64_t count : {2, 3, 4, 5, 7, 16, 17}) {
    const SampleOrder order(9, count);
    std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> times;
    for (std::int64_t epoch = 0; epoch < kEpochs; ++epoch) {
      const auto visits = epoch_of(order, count, epoch);
      for (std::int64_t position = 0; position < count; ++position) {
        ++times[{position, visits[static_cast<std::size_t>(position)]}];
      }
    }
    const double share = 1.0 / static_cast<double>(count);
    const double deviation = std::sqrt(kEpochs * share * (1 - share));
    for (std::int64_t position = 0; position < count; ++position) {
      for (std::int64_t sample = 0; sample < count; ++sample) {
        const auto found = static_cast<double>(times[std::pair{position, sample}]);
        EXPECT_NEAR(found, kEpochs * share, 5 * deviation) << count << " " << position;
      }
    }
  }
}

// In a random permutation of n, the next sample is the present one plus one about once.
TEST(SampleOrder, neighbours_are_torn_apart) {
  constexpr std::int64_t kCount = 10'000;
  const auto visits = epoch_of(SampleOrder(4, kCount), kCount, 0);
  int neighbours = 0;
  for (std::size_t position = 1; position < visits.size(); ++position) {
    neighbours += visits[position] == visits[position - 1] + 1 ? 1 : 0;
  }
  EXPECT_LT(neighbours, 8);
}

// From a second implementation, in Python: a change would make a resumed run read other samples.
TEST(SampleOrder, the_order_is_the_one_that_is_documented) {
  EXPECT_EQ(SampleOrder(7, 1'000'000).at(123'456'789), 310790);
  EXPECT_EQ(epoch_of(SampleOrder(1234, 10), 10, 0),
            (std::vector<std::int64_t>{4, 3, 1, 7, 5, 2, 0, 9, 6, 8}));
  EXPECT_EQ(epoch_of(SampleOrder(1234, 10), 10, 3),
            (std::vector<std::int64_t>{4, 6, 0, 5, 1, 7, 3, 2, 9, 8}));
}

TEST(SampleOrder, an_order_of_nothing_and_negative_samples_are_refused) {
  EXPECT_EQ(error_of([] { SampleOrder(1, 0); }).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(error_of([] { SampleOrder(1, 4).at(-1); }).code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace hethub

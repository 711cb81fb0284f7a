#include "traces/jobs/packed.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace orrery {
namespace {

TEST(PackedText, HoldsTextsOfAnyLength) {
  for (std::size_t length = 0; length < 70; ++length) {
    const std::string text(length, static_cast<char>('a' + length % 26));
    const PackedText kept = text;
    EXPECT_EQ(kept.str(), text);
    EXPECT_EQ(kept.empty(), length == 0);
    PackedText copy = kept, other = "something else that is longer than 15 bytes";
    EXPECT_EQ(copy, kept);
    EXPECT_FALSE(other == kept);
    other = copy;
    copy = "short";
    EXPECT_EQ(other.str(), text);
    const PackedText taken = std::move(other);
    EXPECT_EQ(taken.str(), text);
    EXPECT_EQ(copy, "short");
  }
}

TEST(PackedText, MovesWithinAVector) {
  std::vector<PackedText> all;
  for (int i = 0; i < 1000; ++i) all.emplace_back("application_1506638472019_" + std::to_string(i));
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(all[static_cast<std::size_t>(i)].str(),
              "application_1506638472019_" + std::to_string(i));
  }
}

TEST(PackedSeconds, PassForTheNumber) {
  const std::int64_t most = (std::int64_t{1} << 39) - 1;
  const std::vector<std::int64_t> all{0,           1,     -1,   4'294'967'295, 4'294'967'296,
                                      253402300799, -62'135'596'800, most, -most};
  for (const std::int64_t seconds : all) EXPECT_EQ(PackedSeconds(seconds), seconds);
  EXPECT_EQ(PackedSeconds(most + 1), most);
  EXPECT_EQ(PackedSeconds(-most - 5), -most);
  PackedSeconds time = 100;
  time -= 30;
  time += 5;
  EXPECT_EQ(time, 75);
  EXPECT_EQ(time * std::int64_t{2}, 150);
}

}  // namespace
}  // namespace orrery

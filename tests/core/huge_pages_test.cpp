#include "core/tables/huge_pages.hpp"

#include <cstdint>

#include <gtest/gtest.h>

namespace orrery {
namespace {

constexpr std::uintptr_t kPage = 2u << 20;

struct alignas(64) Line {
  std::uint64_t value = 0;
};

TEST(HugePages, LargeBlocksBeginAtAHugePage) {
  for (const std::size_t count : {std::size_t{1} << 14, std::size_t{1} << 17}) {
    HugeVector<Line> lines(count);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(lines.data()) % kPage, 0u);
    lines.back().value = 7;
    lines.resize(2 * count);
    EXPECT_EQ(lines[count - 1].value, 7u);
    EXPECT_EQ(lines.back().value, 0u);
  }
}

TEST(HugePages, SmallBlocksKeepTheirAlignment) {
  HugeVector<Line> lines;
  for (std::uint64_t i = 0; i < 40'000; ++i) {  // from less than a page to several
    lines.push_back({i});
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(lines.data()) % alignof(Line), 0u);
  }
  for (std::uint64_t i = 0; i < lines.size(); ++i) ASSERT_EQ(lines[i].value, i);
}

}  // namespace
}  // namespace orrery

#include "policies/queues/job_line.hpp"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "core/random.hpp"

namespace orrery {
namespace {

std::vector<JobPlace> all_of(const JobLine& line) {
  std::vector<JobPlace> out;
  for (JobLine::Cursor at; line.get(at) != nullptr; line.advance_cursor(at))
    out.push_back(*line.get(at));
  return out;
}

/// Against a sorted vector, through thousands of changes.
TEST(JobLine, StaysInOrderAndFindsWhatASortedVectorFinds) {
  Rng rng(3);
  JobLine line;
  std::vector<JobPlace> plain;
  for (std::uint32_t i = 0; i < 5000; ++i) {
    if (!plain.empty() && rng.below(3) == 0) {
      const std::size_t which = rng.below(plain.size());
      EXPECT_TRUE(line.erase(plain[which]));
      EXPECT_FALSE(line.erase(plain[which]));
      plain.erase(plain.begin() + std::ptrdiff_t(which));
    } else {
      const JobPlace place{.key = std::int64_t(rng.below(50)),
                           .submit = Nanos(rng.below(9)),
                           .job = {i},
                           .estimate = Nanos(rng.below(1000))};
      line.insert(place);
      plain.insert(std::upper_bound(plain.begin(), plain.end(), place), place);
    }
    ASSERT_EQ(line.size(), plain.size());
    if (i % 100 != 0) continue;
    const std::vector<JobPlace> here = all_of(line);
    ASSERT_TRUE(std::equal(here.begin(), here.end(), plain.begin(), plain.end(),
                           [](const auto& a, const auto& b) { return a.job == b.job; }));
    const Nanos most = Nanos(rng.below(100));
    JobLine::Cursor at;
    const JobPlace* found = line.seek_place(at, most);
    const auto expected = std::find_if(plain.begin(), plain.end(),
                                       [most](const auto& p) { return p.estimate <= most; });
    ASSERT_EQ(found == nullptr, expected == plain.end());
    if (found != nullptr) {
      ASSERT_EQ(found->job, expected->job);
    }
    JobLine::Cursor behind;
    const auto small = [](const JobPlace& place) { return place.key < 20; };
    ASSERT_EQ(line.skip_while(behind, small),
              std::size_t(std::count_if(plain.begin(), plain.end(), small)));
  }
}

TEST(JobLines, EqualContentsGiveEqualDigestsWhateverTheirOrder) {
  JobLines a, b;
  const JobPlace one{.job = {1}}, two{.job = {2}};
  a.insert(4, one);
  a.insert(8, two);
  b.insert(8, two);
  b.insert(4, one);
  EXPECT_EQ(a.digest(), b.digest());
  b.erase(4, one);
  b.erase(4, one);
  EXPECT_NE(a.digest(), b.digest());
  EXPECT_EQ(b.size(), 1u);
}

TEST(JobLines, ADigestFollowsAllChanges) {
  JobLines lines;
  EXPECT_EQ(lines.digest(), 0u);
  const auto digest_of = [](const std::vector<std::uint32_t>& jobs) {
    JobLines fresh;
    for (const std::uint32_t job : jobs) fresh.insert(1 + job % 2, {.job = {job}});
    return fresh.digest();
  };
  lines.insert(2, {.job = {1}});
  lines.insert(1, {.job = {2}});
  EXPECT_EQ(lines.digest(), digest_of({1, 2}));
  lines.insert(2, {.job = {3}});
  lines.erase(1, {.job = {2}});
  EXPECT_EQ(lines.digest(), digest_of({1, 3}));
  lines.erase(2, {.job = {1}});
  lines.erase(2, {.job = {3}});
  EXPECT_EQ(lines.digest(), 0u);
  lines.insert(2, {.job = {1}});
  EXPECT_EQ(lines.digest(), digest_of({1}));
  lines.clear();
  lines.insert(2, {.job = {5}});
  EXPECT_EQ(lines.digest(), digest_of({5}));
  EXPECT_NE(digest_of({5}), digest_of({1}));
}

/// A replay compares digests with those in the log, which an earlier program may have written.
TEST(JobLines, DigestsEqualThoseInRecordedLogs) {
  JobLines lines;
  lines.insert(4, {.turn = 3, .job = {3}, .estimate = 70});
  lines.insert(8, {.turn = 9, .job = {9}});
  EXPECT_EQ(lines.digest(), 4752973067863065974u);
}

}  // namespace
}  // namespace orrery

#include "live/jobs/submissions.hpp"

#include <gtest/gtest.h>

#include "tests/sim/logged_job.hpp"

namespace orrery::live {
namespace {

using test::logged_job;

TEST(Submissions, ComeInTheirOrderAndAtTheirTime) {
  Submissions submissions({logged_job("late", 20, 1, 5), logged_job("large", 0, 9, 5),
                           logged_job("early", 10, 8, 5), logged_job("too", 10, 1, 5)},
                          8);
  EXPECT_EQ(submissions.count(), 3u) << "what does not fit never comes";
  EXPECT_FALSE(submissions.fits(1));
  EXPECT_EQ(submissions.next(), 10 * kNanosPerSecond);
  EXPECT_EQ(submissions.take_next(9 * kNanosPerSecond), std::nullopt);
  EXPECT_EQ(submissions.take_next(10 * kNanosPerSecond), 0u);
  EXPECT_EQ(submissions.take_next(10 * kNanosPerSecond), 1u) << "as given where the second is one";
  EXPECT_EQ(submissions.take_next(10 * kNanosPerSecond), std::nullopt);
  EXPECT_EQ(submissions.index(0), 2u);
  EXPECT_EQ(submissions.index(1), 3u);
  EXPECT_FALSE(submissions.has_submitted_all());
  EXPECT_EQ(submissions.take_next(kNever), 2u);
  EXPECT_EQ(submissions.job(2).submit_s, 20);
  EXPECT_TRUE(submissions.has_submitted_all());
  EXPECT_EQ(submissions.next(), kNever);
}

}  // namespace
}  // namespace orrery::live

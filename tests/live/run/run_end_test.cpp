#include "live/run/run_end.hpp"

#include <gtest/gtest.h>

namespace orrery::live {
namespace {

TEST(RunEnd, ARunWithItsStepsAndNoParametersIsUnfinished) {
  const RunEnd end(10);
  EXPECT_FALSE(end.is_whole(9));
  EXPECT_TRUE(end.is_whole(10));
  EXPECT_EQ(end.unfinished(10, FailureRecords(), {}), "no rank has sent its parameters");
  Report report;
  end.fill(report);
  EXPECT_FALSE(report.has_parameters_sha256());
}

TEST(RunEnd, MostRanksNameThoseWithOtherParameters) {
  EXPECT_EQ(agreed_hash({}).hash, "");
  EXPECT_EQ(agreed_hash({{3, "a"}}).hash, "a");
  const AgreedHash most = agreed_hash({{0, "a"}, {1, "b"}, {2, "a"}, {5, "a"}});
  EXPECT_EQ(most.hash, "a");
  EXPECT_EQ(most.others, (std::vector<std::uint32_t>{1}));
  const AgreedHash tie = agreed_hash({{0, "a"}, {1, "b"}});
  EXPECT_EQ(tie.hash, "");
  EXPECT_EQ(tie.others, (std::vector<std::uint32_t>{0, 1}));
}

TEST(RunEnd, SaysWhyItEndedBefore) {
  RunEnd end(10);
  FailureRecords failures;
  EXPECT_EQ(end.unfinished(4, failures, {}),
            "ended after step 4 of 10: no rank is left to continue");
  failures.add_loss(2, 0, 0, "killed by signal 9 (Killed)");
  EXPECT_EQ(end.unfinished(4, failures, {}),
            "ended after step 4 of 10: rank 2 killed by signal 9 (Killed)");
  EXPECT_FALSE(end.is_stopping());
  end.stop("stopped by the operator");
  EXPECT_TRUE(end.is_stopping());
  EXPECT_EQ(end.unfinished(4, failures, {}), "ended after step 4 of 10: stopped by the operator");
}

TEST(RunEnd, AStateThatIsGoneCountsBeforeEveryOtherReason) {
  RunEnd end(10);
  end.stop("stopped by the operator");
  EXPECT_EQ(end.end_without_state("the optimizer's part 3"),
            "the optimizer's part 3: it was lost with the ranks that held it");
  EXPECT_FALSE(end.is_whole(10));
  EXPECT_EQ(end.unfinished(10, FailureRecords(), {}),
            "ended after step 10 of 10: the optimizer's part 3: it was lost with the ranks that "
            "held it");
}

}  // namespace
}  // namespace orrery::live

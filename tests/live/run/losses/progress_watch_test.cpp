#include "live/run/losses/progress_watch.hpp"

#include <gtest/gtest.h>

namespace orrery::live {
namespace {

constexpr Nanos kSecond = kNanosPerSecond;
const std::vector<std::uint32_t> kMembers{0, 1, 2};
const std::vector<std::uint64_t> kShares{4, 1, 4};

Heartbeat beat(std::uint64_t epoch, std::uint64_t step, double micro_batches,
               bool reduced = false) {
  Heartbeat said;
  said.mutable_status()->set_epoch(epoch);
  said.mutable_status()->set_linked(true);
  said.mutable_status()->set_applied(step);
  said.mutable_status()->set_reduced(reduced);
  said.mutable_progress()->set_step(step);
  said.mutable_progress()->set_micro_batches_done(micro_batches);
  return said;
}

using Ranks = std::vector<std::uint32_t>;

TEST(ProgressWatch, WhoIsBehindTheOthersIsNamed) {
  ProgressWatch watch;
  watch.record_heartbeat(0, 0, beat(1, 7, 4), 0);
  watch.record_heartbeat(1, 0, beat(1, 7, 1), 0);  // its whole share
  watch.record_heartbeat(2, 0, beat(1, 7, 2.5), 0);
  EXPECT_EQ(watch.standing(kMembers, kShares, 10 * kSecond, 9 * kSecond), Ranks{});
  EXPECT_EQ(watch.standing(kMembers, kShares, 10 * kSecond, 10 * kSecond), Ranks{2});
  EXPECT_EQ(watch.where(2), "in step 7, after 2 micro-batches");
}

TEST(ProgressWatch, HeartbeatsAndFractionsOfAMicroBatchAreNoProgress) {
  ProgressWatch watch;
  for (Nanos now = 0; now <= 10 * kSecond; now += kSecond) {
    watch.record_heartbeat(0, 0, beat(1, 7, 4), now);
    watch.record_heartbeat(1, 0, beat(1, 7, 1), now);
    watch.record_heartbeat(2, 0, beat(1, 7, 2 + 0.09 * static_cast<double>(now / kSecond)), now);
  }
  EXPECT_EQ(watch.standing(kMembers, kShares, 10 * kSecond, 10 * kSecond), Ranks{2});
}

TEST(ProgressWatch, NobodyIsNamedWhileAnyoneMoves) {
  ProgressWatch watch;
  watch.record_heartbeat(0, 0, beat(1, 7, 0), 0);
  watch.record_heartbeat(1, 0, beat(1, 7, 1), 0);
  watch.record_heartbeat(2, 0, beat(1, 7, 0), 0);
  watch.record_heartbeat(2, 0, beat(1, 7, 1), 8 * kSecond);  // slow, not hung
  EXPECT_EQ(watch.standing(kMembers, kShares, 10 * kSecond, 12 * kSecond), Ranks{});
}

TEST(ProgressWatch, AControllerThatKnowsOfNoMembersYetNamesNobody) {
  EXPECT_EQ(ProgressWatch().standing({}, {}, 10 * kSecond, 60 * kSecond), Ranks{});
}

TEST(ProgressWatch, WhereNobodyIsBehindAllAreNamed) {
  ProgressWatch watch;
  watch.record_heartbeat(0, 0, beat(1, 7, 4), 0);
  watch.record_heartbeat(1, 0, beat(1, 7, 1), 0);
  watch.record_heartbeat(2, 0, beat(1, 7, 4), 0);
  EXPECT_EQ(watch.standing(kMembers, kShares, kSecond, 2 * kSecond), kMembers);
}

TEST(ProgressWatch, WhereOneHasTheSumAndSeveralWaitForItNobodyIsSingledOut) {
  ProgressWatch watch;
  watch.record_heartbeat(0, 0, beat(1, 7, 4), 0);
  watch.record_heartbeat(1, 0, beat(1, 7, 1), 0);
  watch.record_heartbeat(2, 0, beat(1, 7, 4, true), 0);
  EXPECT_EQ(watch.standing(kMembers, kShares, kSecond, 2 * kSecond), kMembers);
  watch.record_heartbeat(1, 0, beat(1, 7, 1, true), kSecond);
  EXPECT_EQ(watch.standing(kMembers, kShares, kSecond, 3 * kSecond), Ranks{0});
}

TEST(ProgressWatch, WhoDoesNotComeAlongIntoTheNextEpochIsBehind) {
  ProgressWatch watch;
  watch.record_heartbeat(0, 0, beat(2, 7, 0), 0);
  watch.record_heartbeat(1, 0, beat(1, 7, 1), 0);
  watch.record_heartbeat(2, 0, beat(2, 7, 0), 0);
  EXPECT_EQ(watch.standing(kMembers, kShares, kSecond, 2 * kSecond), Ranks{1});
}

TEST(ProgressWatch, OneStepInWhichAllWereStoppedMakesNobodyPatient) {
  ProgressWatch watch;
  EXPECT_EQ(watch.limit(3 * kSecond, kSecond / 10), 3 * kSecond);
  for (int step = 0; step < 5; ++step) watch.step_done(kSecond / 10);
  watch.step_done(60 * kSecond);
  EXPECT_EQ(watch.limit(3 * kSecond, kSecond / 10), 3 * kSecond);
  EXPECT_EQ(watch.limit(3 * kSecond, kSecond), 10 * kSecond);
  for (int step = 0; step < 5; ++step) watch.step_done(2 * kSecond);  // they do take longer now
  EXPECT_EQ(watch.limit(3 * kSecond, kSecond / 10), 20 * kSecond);
}

TEST(ProgressWatch, AReplacementBeginsAfreshAndSoDoAllThatAreForgiven) {
  ProgressWatch watch;
  for (const std::uint32_t rank : kMembers) watch.record_heartbeat(rank, 0, beat(1, 7, 0), 0);
  watch.record_heartbeat(1, 1, beat(1, 7, 0), 5 * kSecond);
  EXPECT_EQ(watch.standing(kMembers, kShares, 3 * kSecond, 6 * kSecond), Ranks{});
  watch.restart_timers(8 * kSecond);
  EXPECT_EQ(watch.standing(kMembers, kShares, 3 * kSecond, 10 * kSecond), Ranks{});
  EXPECT_EQ(watch.standing(kMembers, kShares, 3 * kSecond, 11 * kSecond), kMembers);
}

}  // namespace
}  // namespace orrery::live

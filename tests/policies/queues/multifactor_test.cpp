#include "policies/queues/multifactor.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "tests/policies/queues/queue_harness.hpp"

namespace orrery {
namespace {

TEST(Multifactor, LaterJobsStartIfTheyDoNotDelayTheFirst) {
  QueueHarness queue("multifactor", 1, 4);
  queue.submit_job(3, 100);
  EXPECT_EQ(queue.ask_policy(), (Started{0}));
  queue.submit_job(4, 50);
  queue.submit_job(1, 200);
  EXPECT_EQ(queue.ask_policy(), Started{}) << "it would end after the first job";
  queue.submit_job(1, 100);
  EXPECT_EQ(queue.ask_policy(), (Started{3}));
}

TEST(Multifactor, ExtraGpusMayBeHeldForLonger) {
  QueueHarness queue("multifactor", 1, 4);
  queue.submit_job(2, 100);
  EXPECT_EQ(queue.ask_policy(), (Started{0}));
  queue.submit_job(3, 50);
  queue.submit_job(1, 500);
  queue.submit_job(1, 500);
  EXPECT_EQ(queue.ask_policy(), (Started{2})) << "one of four GPUs is left beside the first job";
}

// ---- QOS ----------------------------------------------------------------------------------------

constexpr Nanos kSecond = kNanosPerSecond;

JobSpec owner(const std::string& qos, const std::string& user = "ann") {
  JobSpec spec;
  spec.qos = qos;
  spec.user = user;
  return spec;
}

TEST(Multifactor, TheQosWithTheHighestPriorityGoesFirst) {
  QueueHarness queue("multifactor", 1, 4,
                     {"multifactor.qos=[{name: high, priority: 10}, {name: low, priority: 5}]"});
  queue.submit_owned(4, kSecond, owner("low"));
  queue.submit_owned(4, kSecond, owner("other"));
  queue.submit_owned(4, kSecond, owner("high"));
  EXPECT_EQ(queue.ask_policy(), (Started{2}));
  queue.end(2);
  EXPECT_EQ(queue.ask_policy(), (Started{0}));
}

TEST(Multifactor, AJobBeyondALimitOfItsQosIsPassedOver) {
  QueueHarness queue("multifactor", 1, 8,
                     {"multifactor.qos=[{name: q, priority: 1, gpus: 5, gpus_per_user: 3}]"});
  queue.submit_owned(2, 100 * kSecond, owner("q"));
  queue.submit_owned(2, 100 * kSecond, owner("q"));          // ann would have 4
  queue.submit_owned(3, 100 * kSecond, owner("q", "bob"));  // all of q have 5
  queue.submit_owned(1, 100 * kSecond, owner("q", "cy"));   // all of q would have 6
  queue.submit_owned(3, 900 * kSecond, owner(""));          // nobody delays it
  EXPECT_EQ(queue.ask_policy(), (Started{0, 2, 4}));
  queue.end(0);
  EXPECT_EQ(queue.ask_policy(), (Started{1}));
}

TEST(Multifactor, AQosPreemptsThoseItNamesTheNewestOfTheLowestFirst) {
  QueueHarness queue("multifactor", 1, 4,
                     {"multifactor.qos=[{name: high, priority: 9, preempts: [low, spot]}, "
                      "{name: low, priority: 5}, {name: spot, priority: 1}]"});
  queue.submit_owned(1, 100 * kSecond, owner("spot"));
  queue.submit_owned(1, 100 * kSecond, owner("low"));
  queue.submit_owned(1, 100 * kSecond, owner("other"));
  EXPECT_EQ(queue.ask_policy(), (Started{1, 0, 2}));
  queue.set_time(kSecond);
  queue.submit_owned(1, 100 * kSecond, owner("spot"));
  EXPECT_EQ(queue.ask_policy(), (Started{3}));
  queue.set_time(2 * kSecond);
  queue.submit_owned(4, 100 * kSecond, owner("high"));
  EXPECT_EQ(queue.ask_policy(), Started{}) << "the job without a known QOS stays";
  queue.submit_owned(2, 100 * kSecond, owner("high"));
  EXPECT_EQ(queue.ask_policy(), (Started{3, 0, 5})) << "two of spot leave, low stays";
}

TEST(Multifactor, APreemptionThatDoesNotSufficeHasNoEffect) {
  QueueHarness queue("multifactor", 2, 4,
                     {"multifactor.qos=[{name: high, preempts: [low]}, {name: low}]"});
  queue.submit_owned(4, 100 * kSecond, owner(""));
  queue.submit_owned(4, 100 * kSecond, owner("low"));
  EXPECT_EQ(queue.ask_policy(), (Started{0, 1}));
  queue.submit_owned(8, 100 * kSecond, owner("high"));
  EXPECT_EQ(queue.ask_policy(), Started{});
  queue.submit_owned(4, 100 * kSecond, owner("high"));
  EXPECT_EQ(queue.ask_policy(), (Started{1, 3}));
}

// ---- reservations -------------------------------------------------------------------------------

TEST(Multifactor, AJobDoesNotRunIntoTheReservationOfOthers) {
  QueueHarness queue("multifactor", 2, 4,
                     {"multifactor.reservations=[{begin: 100 s, end: 200 s, nodes: [0]}]"});
  queue.submit_owned(4, 101 * kSecond, owner(""));
  EXPECT_EQ(queue.ask_policy(), (Started{0}));
  EXPECT_EQ(queue.world().jobs()[{0}].gpus, GpuRuns::range({4}, 4)) << "node 1";
  EXPECT_EQ(queue.wake_times(), (std::vector<Nanos>{100 * kSecond}));
  queue.submit_owned(4, 101 * kSecond, owner(""));
  EXPECT_EQ(queue.ask_policy(), Started{});
  queue.submit_owned(4, 100 * kSecond, owner(""));
  EXPECT_EQ(queue.ask_policy(), (Started{2})) << "it ends at the begin of the reservation";
}

TEST(Multifactor, AReservationIsForItsUsersUntilItsEnd) {
  QueueHarness queue("multifactor", 1, 4,
                     {"multifactor.reservations=[{begin: 100 s, end: 200 s, gpus: 1, "
                      "users: [ann]}]"});
  queue.set_time(150 * kSecond);
  queue.submit_owned(1, kSecond, owner("", "bob"));
  EXPECT_EQ(queue.ask_policy(), Started{});
  EXPECT_EQ(queue.wake_times(), (std::vector<Nanos>{200 * kSecond}));
  queue.submit_owned(1, 900 * kSecond, owner("", "ann"));
  EXPECT_EQ(queue.ask_policy(), (Started{1}));
  queue.set_time(200 * kSecond);
  EXPECT_EQ(queue.ask_policy(), (Started{0})) << "called at the end, without an event";
}

TEST(Multifactor, AJobTakesItsReservedNodesFirst) {
  QueueHarness queue("multifactor", 2, 4,
                     {"multifactor.reservations=[{begin: 0 s, end: 200 s, nodes: [1], vcs: [v]}]"});
  JobSpec member;
  member.pool = "v";
  queue.submit_owned(2, kSecond, member);
  queue.submit_owned(4, kSecond, member);
  EXPECT_EQ(queue.ask_policy(), (Started{0, 1}));
  EXPECT_EQ(queue.world().jobs()[{0}].gpus, GpuRuns::range({4}, 2));
  EXPECT_EQ(queue.world().jobs()[{1}].gpus, GpuRuns::range({0}, 4)) << "its own have no room";
}

TEST(Multifactor, ABlockedJobDelaysNoJobOnNodesThatItCannotUse) {
  QueueHarness queue("multifactor", 2, 4,
                     {"multifactor.reservations=[{begin: 0 s, end: 900 s, nodes: [1], "
                      "users: [ann]}]"});
  queue.submit_owned(2, 100 * kSecond, owner("", "bob"));
  EXPECT_EQ(queue.ask_policy(), (Started{0}));
  queue.submit_owned(4, 50 * kSecond, owner("", "bob"));   // node 0 is free at 100 s
  queue.submit_owned(1, 200 * kSecond, owner("", "bob"));  // would delay it
  queue.submit_owned(4, 200 * kSecond, owner("", "ann"));
  EXPECT_EQ(queue.ask_policy(), (Started{3}));
}

TEST(Multifactor, WrongRulesAreRefused) {
  const auto refused = [](const std::string& change) {
    EXPECT_THROW(QueueHarness("multifactor", 2, 4, {change}), Error) << change;
  };
  refused("multifactor.qos=[{name: a}, {name: a}]");
  refused("multifactor.qos=[{name: a, preempts: [b]}]");
  refused("multifactor.reservations=[{begin: 2 s, end: 1 s, nodes: [0]}]");
  refused("multifactor.reservations=[{begin: 1 s, end: 2 s, nodes: [2]}]");
}

TEST(Multifactor, UsedTimeIsSavedAndRestored) {
  QueueHarness queue("multifactor", 1, 4);
  queue.submit_job(2, 100);
  queue.ask_policy();
  queue.end(0);
  queue.ask_policy();
  const Archive saved = queue.saved();
  queue.restart_policy(&saved);
  queue.ask_policy();
  EXPECT_EQ(queue.saved(), saved);
  EXPECT_THROW(MultifactorPolicy().load("x"), Error);
}

}  // namespace
}  // namespace orrery

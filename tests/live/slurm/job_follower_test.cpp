#include "live/slurm/job_follower.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "tests/live/slurm/followed.hpp"

namespace orrery::live {
namespace {

TEST(JobFollower, AJobIsSubmittedOrderedStartedAndEnded) {
  Followed with;
  with.slurm.jobs["17"] = {.nodes = 2, .per_node = 3};
  with.slurm.jobs["17"].name = "train|7";
  EXPECT_EQ(with.read(1000), "submitted");
  EXPECT_EQ(with.world().jobs()[{0}].spec.title, "train|7");
  EXPECT_EQ(with.start(0, {{0}, {1}, {2}, {8}, {9}, {10}}), "");
  EXPECT_EQ(with.slurm.executed.back(), "update JobId=17 ReqNodeList=n1,n3 StartTime=now");
  EXPECT_EQ(with.slurm.jobs["17"].comment, "[orrery:7]");
  EXPECT_EQ(with.read(1001), "");
  EXPECT_EQ(with.follower.open_orders(), 1u);
  with.slurm.schedule();
  EXPECT_EQ(with.read(1002), "started");
  EXPECT_EQ(with.world().state().free, 10u);
  with.slurm.jobs["17"].state = "COMPLETED";
  EXPECT_EQ(with.read(1003), "done");
  EXPECT_EQ(with.read(1004), "");
  EXPECT_TRUE(with.reports.empty());
}

TEST(JobFollower, AnEndHasTheTimeThatSlurmRecorded) {
  Followed with;
  with.slurm.jobs["17"] = {.state = "RUNNING", .placed_on = {"n2"}};
  with.slurm.jobs["17"].start = 700;  // the first reading is later
  with.slurm.jobs["18"] = {};
  with.read(1000);
  with.slurm.jobs["17"].state = "COMPLETED";
  with.slurm.jobs["17"].end = 1003;
  with.slurm.jobs["18"].state = "CANCELLED";
  with.slurm.jobs["18"].end = 1003;
  EXPECT_EQ(with.read(1005), "done done");
  EXPECT_EQ(with.ran_s, (std::vector<std::int64_t>{303, 0}));
}

/// A program that Orrery has requeued may continue where it stopped.
TEST(JobFollower, TheTimeOfARequeuedJobIsTheNewestRunBesideAnotherSchedulerOnly) {
  for (const bool acts : {false, true}) {
    Followed with({.partitions = {"orrery"}, .acts = acts, .owner = "orrery:7"});
    with.slurm.jobs["17"] = {.state = "RUNNING", .restarts = 1, .placed_on = {"n2"}};
    with.slurm.jobs["17"].start = 990;
    with.read(1000);
    with.slurm.jobs["17"].state = "COMPLETED";
    with.slurm.jobs["17"].end = 1050;
    EXPECT_EQ(with.read(1051), "done");
    EXPECT_EQ(with.ran_s, std::vector<std::int64_t>{acts ? 0 : 60});
  }
}

TEST(JobFollower, AJobThatEndsBetweenTwoReadingsStillStarts) {
  Followed with;
  with.slurm.jobs["17"] = {};
  with.read(1000);
  with.start(0, {{4}});
  with.slurm.schedule();
  with.slurm.jobs["17"].state = "FAILED";
  EXPECT_EQ(with.read(1001), "started done");
}

TEST(JobFollower, LeasesAreRenewedAtHalfTheirLengthAndEndedLeasesAreSeen) {
  Followed with;
  with.slurm.jobs["17"] = {.eligible = 1020};
  with.read(1000);
  EXPECT_TRUE(with.slurm.executed.empty());
  with.read(1011);
  EXPECT_EQ(with.slurm.executed, std::vector<std::string>{"update JobId=17 StartTime=now+20"});
  EXPECT_EQ(with.slurm.jobs["17"].eligible, 1031);
  with.slurm.now = 1032;  // no reading came in time
  with.slurm.schedule();
  EXPECT_EQ(with.read(1032), "started");
  ASSERT_EQ(with.reports.size(), 1u);
  EXPECT_NE(with.reports[0].find("without a decision"), std::string::npos);
}

TEST(JobFollower, OtherJobsAreShownWhileTheyOccupyGpusAndAreNeverTouched) {
  Followed with;
  with.slurm.jobs["3"] = {.partition = "other", .nodes = 2, .per_node = 4};
  EXPECT_EQ(with.read(1030), "");
  with.slurm.now = 1030;
  with.slurm.schedule();
  EXPECT_EQ(with.read(1031), "submitted started");
  EXPECT_EQ(with.world().state().free, 8u);
  EXPECT_NE(with.follower.objection(Assign{.job = {0}}).find("observed only"), std::string::npos);
  with.slurm.execute_commands({"requeue 3"});
  EXPECT_EQ(with.read(1032), "done");
  EXPECT_EQ(with.slurm.executed.size(), 1u);
}

TEST(JobFollower, BadConstraintsAreDetectedWithdrawnAndGivenBackAfterThreeOrders) {
  Followed with;
  with.slurm.jobs["17"] = {};
  with.read(1000);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(with.start(0, {{4}}), "");
    with.slurm.jobs["17"].required = {"n1", "n2"};  // its user changes the nodes
    with.slurm.schedule();
    EXPECT_EQ(with.slurm.jobs["17"].reason, "BadConstraints");
    EXPECT_EQ(with.read(1001 + i), i < 2 ? "stopped" : "stopped done");
    EXPECT_FALSE(with.slurm.jobs["17"].held);
    EXPECT_TRUE(with.slurm.jobs["17"].required.empty());
  }
  EXPECT_NE(with.reports.back().find("goes back to Slurm after 3 orders"), std::string::npos);
  with.slurm.now = 1100;
  with.slurm.schedule();
  EXPECT_EQ(with.read(1100), "submitted started");
}

TEST(JobFollower, ALostOrderIsRepeatedAndALostStartIsReported) {
  Followed with;
  with.slurm.jobs["17"] = {};
  with.read(1000);
  with.start(0, {{4}});
  with.slurm.jobs["17"] = {};  // slurmctld has gone back to its last save
  EXPECT_EQ(with.read(1001), "");
  EXPECT_NE(with.reports.at(0).find("repeated"), std::string::npos);
  EXPECT_EQ(with.slurm.jobs["17"].required, std::vector<std::string>{"n2"});
  with.slurm.schedule();
  EXPECT_EQ(with.read(1002), "started");
  with.slurm.jobs["17"] = {.eligible = 1030};
  EXPECT_EQ(with.read(1003), "stopped");
  EXPECT_NE(with.reports.at(1).find("went back"), std::string::npos);
  EXPECT_EQ(with.start(0, {{5}}), "");
}

TEST(JobFollower, AnIdThatAnotherJobGetsIsAnotherJob) {
  Followed with;
  with.slurm.jobs["17"] = {.submit = 1000};
  with.read(1000);
  with.slurm.jobs["17"] = {.submit = 1005, .per_node = 2};
  EXPECT_EQ(with.read(1006), "done submitted");
  EXPECT_NE(with.reports.at(0).find("is gone"), std::string::npos);
  EXPECT_EQ(with.world().jobs()[{1}].spec.gpus, 2u);
}

TEST(JobFollower, AnEndThatSlurmctldForgetsIsIgnoredForAMomentAndThenANewStart) {
  Followed with;
  with.slurm.jobs["17"] = {};
  with.read(1000);
  with.start(0, {{4}});
  with.slurm.schedule();
  with.read(1001);
  with.slurm.jobs["17"].state = "COMPLETED";
  EXPECT_EQ(with.read(1002), "done");
  with.slurm.jobs["17"].state = "RUNNING";
  EXPECT_EQ(with.read(1003), "");
  EXPECT_EQ(with.read(1012), "submitted started");
  EXPECT_NE(with.reports.at(0).find("RUNNING again after its end"), std::string::npos);
}

TEST(JobFollower, APreemptedJobLeavesItsNodesAndWaitsWithALeaseOnAnyNodes) {
  Followed with;
  with.slurm.jobs["17"] = {};
  with.read(1000);
  with.start(0, {{4}});
  with.slurm.schedule();
  with.read(1001);
  with.stop(0);
  EXPECT_EQ(with.slurm.jobs["17"].eligible, 1001 + 121);
  EXPECT_EQ(with.world().state().free, 16u);
  EXPECT_NE(with.start(0, {{4}}).find("still leaves"), std::string::npos);
  EXPECT_EQ(with.read(1002), "");
  EXPECT_TRUE(with.slurm.jobs["17"].required.empty());
  EXPECT_EQ(with.slurm.jobs["17"].eligible, 1022);
  EXPECT_EQ(with.start(0, {{0}}), "");
  with.slurm.schedule();
  EXPECT_EQ(with.read(1003), "started");
  EXPECT_EQ(with.world().jobs()[{0}].gpus.front().value, 0u);
}

TEST(JobFollower, AJobThatHasEndedBeforeItsRequeueDoesNotRunAgain) {
  Followed with;
  with.slurm.jobs["17"] = {};
  with.read(1000);
  with.start(0, {{4}});
  with.slurm.schedule();
  with.read(1001);
  with.slurm.jobs["17"].state = "COMPLETED";
  with.stop(0);
  EXPECT_EQ(with.slurm.jobs["17"].state, "COMPLETED");
  EXPECT_EQ(with.read(1002), "done");
}

TEST(JobFollower, ARequeuedJobKeepsItsIdentityWhileItLeavesItsNodes) {
  Followed with;
  with.slurm.jobs["17"] = {};
  with.read(1000);
  with.start(0, {{4}});
  with.slurm.schedule();
  with.read(1001);
  with.stop(0);
  FakeJob& job = with.slurm.jobs["17"];
  const std::int64_t submit = std::exchange(job.submit, 1000);
  job.state = "COMPLETING";
  job.placed_on = {"n2"};
  EXPECT_EQ(with.read(1002), "");
  job.submit = submit;
  job.state = "PENDING";
  job.placed_on = {};
  EXPECT_EQ(with.read(1003), "");
  EXPECT_TRUE(with.reports.empty());
  EXPECT_EQ(with.start(0, {{0}}), "");
}

TEST(JobFollower, AJobThatAnEarlierControllerStartedCanBePreempted) {
  Followed with;
  with.slurm.jobs["17"] = {.state = "RUNNING", .placed_on = {"n2"}, .required = {"n2"}};
  with.slurm.jobs["17"].comment = "[orrery:3]";
  EXPECT_EQ(with.read(1000), "submitted started");
  with.stop(0);
  EXPECT_EQ(with.read(1001), "");
  EXPECT_TRUE(with.slurm.jobs["17"].required.empty());
  EXPECT_EQ(with.start(0, {{0}}), "");
  // A job that ended before this controller began, and that its user has put back into the queue.
  with.slurm.jobs["18"] = {.submit = 1001, .restarts = 1, .required = {"n2"}};
  with.slurm.jobs["18"].comment = "[orrery:3]";
  EXPECT_EQ(with.read(1002), "submitted");
  EXPECT_TRUE(with.slurm.jobs["18"].required.empty());
}

TEST(JobFollower, AJobThatWaitsAgainAfterItsEndIsReportedAtOnce) {
  Followed with;
  with.slurm.jobs["17"] = {};
  with.read(1000);
  with.start(0, {{4}});
  with.slurm.schedule();
  with.read(1001);
  with.slurm.jobs["17"].state = "COMPLETED";
  with.read(1002);
  with.slurm.jobs["17"] = {};  // slurmctld has lost the start and the end
  EXPECT_EQ(with.read(1003), "submitted");
  EXPECT_NE(with.reports.at(0).find("PENDING again after its end"), std::string::npos);
}

/// A slurmctld that has lost the requeue too shows the job with its first submission.
TEST(JobFollower, AnEndAfterARequeueIsReportedUnderTheFirstSubmission) {
  Followed with;
  with.slurm.jobs["17"] = {.submit = 990, .eligible = 1010};
  with.read(1000);
  with.slurm.jobs["17"] = {.submit = 1001, .restarts = 1};
  with.read(1001);
  with.start(0, {{4}});
  with.slurm.schedule();
  with.read(1002);
  with.slurm.jobs["17"].state = "COMPLETED";
  with.read(1003);
  with.slurm.jobs["17"] = {.submit = 990, .eligible = 1010};
  EXPECT_EQ(with.read(1004), "submitted");
  EXPECT_NE(with.reports.back().find("PENDING again after its end"), std::string::npos);
}

TEST(JobFollower, NothingStartsUntilTheNodesHaveReportedToARestartedSlurmctld) {
  Followed with;
  with.slurm.jobs["17"] = with.slurm.jobs["18"] = {};
  with.read(1000);
  with.start(0, {{4}});
  with.slurm.boot = 1001;
  with.slurm.jobs["17"] = {};  // slurmctld has lost the order, and maybe a start that followed
  EXPECT_EQ(with.read(1002), "");
  EXPECT_TRUE(with.slurm.jobs["17"].required.empty());
  EXPECT_NE(with.start(1, {{0}}).find("slurmctld started 1 s ago"), std::string::npos);
  EXPECT_EQ(with.read(1011), "");
  EXPECT_EQ(with.slurm.jobs["17"].required, std::vector<std::string>{"n2"});
  EXPECT_EQ(with.start(1, {{0}}), "");
}

TEST(JobFollower, OrdersOfAnEarlierControllerAreTakenOverAndThoseOfALivingOneAreAnError) {
  Followed with;
  with.slurm.jobs["17"] = {.eligible = 990, .required = {"n2"}, .comment = "[orrery:3]"};
  EXPECT_EQ(with.read(1000), "submitted");
  EXPECT_TRUE(with.slurm.jobs["17"].required.empty());
  EXPECT_EQ(with.slurm.jobs["17"].eligible, 1020);
  with.slurm.jobs["18"] = {.submit = 1001, .eligible = 1001, .required = {"n2"}};
  with.slurm.jobs["18"].comment = "[orrery:9]";
  EXPECT_THROW(with.read(1001), Error);
}

TEST(JobFollower, AControllerThatOrderedTheSameJobAtTheSameInstantIsAnError) {
  for (const bool has_started : {false, true}) {
    Followed with;
    with.slurm.jobs["17"] = {};
    with.slurm.jobs["18"] = {};
    with.read(1000);
    EXPECT_EQ(with.start(0, {{0}}), "");
    EXPECT_EQ(with.read(1001), "");
    EXPECT_EQ(with.start(1, {{4}}), "");
    with.slurm.jobs["18"].comment = "[orrery:9]";  // the same order, a moment later
    if (has_started) with.slurm.schedule();
    EXPECT_THROW(with.read(1002), Error);
  }
}

TEST(JobFollower, TheMarkOfAnOrderIsReadOnceAndNotBesideARestartedSlurmctld) {
  Followed with;
  with.slurm.jobs["17"] = {};
  with.slurm.jobs["18"] = {.user = "bob"};
  with.read(1000);
  EXPECT_EQ(with.start(0, {{0}}), "");
  with.slurm.jobs["17"].comment = "[orrery:3]";  // mark of its last state save
  with.slurm.boot = 1001;
  EXPECT_EQ(with.read(1002), "");
  with.slurm.jobs["17"].comment = "[orrery:7]";
  EXPECT_EQ(with.read(1012), "");
  with.slurm.jobs["17"].comment = "[orrery:9]";
  EXPECT_EQ(with.read(1013), "");
  EXPECT_TRUE(with.reports.empty());
  EXPECT_EQ(with.start(1, {{4}}), "");
  with.slurm.jobs["18"].comment = "[orrery:9]";
  EXPECT_EQ(with.read(1014), "done");  // one user of two
  EXPECT_NE(with.reports.at(0).find("job 18 stays with Slurm"), std::string::npos);
}

TEST(JobFollower, AUserWhoCopiesAMarkDoesNotStopThePolicyForOthers) {
  Followed with;
  with.slurm.jobs["17"] = {};
  with.slurm.jobs["18"] = {.user = "bob"};
  EXPECT_EQ(with.read(1000), "submitted submitted");
  with.slurm.jobs["18"].required = {"n2"};
  with.slurm.jobs["18"].comment = "mine [orrery:9]";
  EXPECT_EQ(with.read(1001), "done");
  EXPECT_NE(with.reports.at(0).find("job 18 stays with Slurm"), std::string::npos);
  EXPECT_EQ(with.slurm.jobs["18"].required, std::vector<std::string>{"n2"});
  with.slurm.jobs["17"].required = {"n3"};  // two users have it now
  with.slurm.jobs["17"].comment = "[orrery:9]";
  EXPECT_THROW(with.read(1002), Error);
}

TEST(JobFollower, EachEndOfAnOrderOrAStartWithoutADecisionHasAMessage) {
  Followed with;
  with.slurm.jobs["17"] = with.slurm.jobs["18"] = {};
  with.read(1000);
  with.start(0, {{4}});
  with.start(1, {{0}});
  with.slurm.jobs["18"].held = true;
  with.slurm.jobs["18"].reason = "JobHeldAdmin";
  EXPECT_EQ(with.read(1001), "done");
  EXPECT_NE(with.reports.at(0).find("job 18 was held or changed"), std::string::npos);
  with.slurm.schedule();
  EXPECT_EQ(with.read(1002), "started");
  with.slurm.execute_commands({"requeue incomplete 17"});
  EXPECT_EQ(with.read(1003), "stopped");
  EXPECT_NE(with.reports.at(1).find("job 17 was requeued by Slurm or a user"), std::string::npos);
}

TEST(JobFollower, AJobWhoseLaunchANodeRefusedIsReleasedAndOrderedAgain) {
  Followed with;
  with.slurm.jobs["17"] = {};
  with.read(1000);
  with.start(0, {{4}});
  with.slurm.schedule();
  EXPECT_EQ(with.read(1001), "started");
  FakeJob& job = with.slurm.jobs["17"];
  job.state = "PENDING";  // Slurm requeues and holds the job at once
  job.placed_on = {};
  job.held = true;
  job.restarts = 1;
  job.reason = "launch failed requeued held";
  EXPECT_EQ(with.read(1002), "stopped done");
  EXPECT_FALSE(job.held);
  EXPECT_TRUE(job.required.empty());
  EXPECT_EQ(job.comment, "");
  EXPECT_EQ(with.read(1003), "submitted");
  EXPECT_EQ(with.start(1, {{0}}), "");
}

TEST(JobFollower, HeldDependentAndLaterJobsAndChosenNodesAreRespected) {
  Followed with;
  with.slurm.jobs["1"] = {.held = true, .reason = "JobHeldUser"};
  with.slurm.jobs["2"] = {.dependency = "afterok:1(unfulfilled)"};
  with.slurm.jobs["3"] = {.eligible = 1500};
  with.slurm.jobs["4"] = {.required = {"n3"}};
  EXPECT_EQ(with.read(1000), "");
  EXPECT_NE(with.reports.at(0).find("its user chose the nodes n3"), std::string::npos);
  with.slurm.jobs["1"].held = false;
  with.slurm.jobs["2"].dependency = "(null)";
  EXPECT_EQ(with.read(1001), "submitted submitted");
  EXPECT_EQ(with.read(1495), "");
  EXPECT_EQ(with.slurm.jobs["3"].eligible, 1515);  // the lease begins before the chosen time
  EXPECT_EQ(with.read(1500), "submitted");
  EXPECT_EQ(with.slurm.jobs["4"].eligible, 1020);
  with.slurm.jobs["1"].held = true;
  EXPECT_EQ(with.read(1501), "done");
}

TEST(JobFollower, ChangesOfAWaitingJobArriveAsEvents) {
  Followed with;
  with.slurm.jobs["17"] = {.per_node = 2};
  with.slurm.jobs["18"] = {};
  EXPECT_EQ(with.read(1000), "submitted submitted");
  with.slurm.jobs["17"].limit = "5:00";
  EXPECT_EQ(with.read(1001), "done submitted");
  EXPECT_EQ(with.reports.at(0), "job 17 was changed in Slurm: 1 nodes of 2 GPUs in orrery, 300 s");
  EXPECT_EQ(with.world().jobs()[{2}].spec.estimate, 300 * kNanosPerSecond);
  EXPECT_EQ(with.world().jobs()[{2}].spec.submit, 1000 * kNanosPerSecond) << "its place stays";
  with.slurm.jobs["17"].nodes = 2;
  EXPECT_EQ(with.read(1002), "done submitted");
  EXPECT_EQ(with.world().jobs()[{3}].spec.gpus, 4u);
  with.slurm.jobs["17"].account = "theirs";
  EXPECT_EQ(with.read(1003), "done submitted");
  EXPECT_EQ(with.world().jobs()[{4}].spec.pool, "theirs");
  EXPECT_EQ(with.read(1004), "");
  with.slurm.jobs["17"].partition = "other";  // no longer managed
  EXPECT_EQ(with.read(1005), "done");
  EXPECT_EQ(with.read(1006), "");
  with.slurm.jobs["17"].partition = "orrery";
  EXPECT_EQ(with.read(1007), "submitted");
  EXPECT_EQ(with.start(5, {{0}, {1}, {4}, {5}}), "");
}

TEST(JobFollower, AnOrderEndsWithAnotherSizeAndStaysWithAnotherLimit) {
  Followed with;
  with.slurm.jobs["17"] = with.slurm.jobs["18"] = {};
  with.read(1000);
  with.start(0, {{4}});
  with.start(1, {{0}});
  with.slurm.jobs["17"].limit = "5:00";
  with.slurm.jobs["18"].per_node = 3;
  EXPECT_EQ(with.read(1001), "done submitted");
  EXPECT_EQ(with.slurm.jobs["17"].required, std::vector<std::string>{"n2"});
  EXPECT_TRUE(with.slurm.jobs["18"].required.empty());
  EXPECT_EQ(with.world().jobs()[{2}].spec.gpus, 3u);
  with.slurm.now = 1002;
  with.slurm.schedule();
  EXPECT_EQ(with.read(1002), "started");
  EXPECT_EQ(with.start(2, {{0}, {1}, {2}}), "");
}

TEST(JobFollower, AStartElsewhereTakesGpusFromOpenOrders) {
  Followed with;
  with.slurm.jobs["16"] = {.per_node = 4};
  with.slurm.jobs["17"] = {.per_node = 4};
  with.read(1000);
  with.start(0, {{0}, {1}, {2}, {3}});
  with.start(1, {{4}, {5}, {6}, {7}});
  with.slurm.jobs["18"] = {.state = "RUNNING", .partition = "other", .per_node = 2};
  with.slurm.jobs["18"].placed_on = {"n2"};
  EXPECT_EQ(with.read(1001), "submitted stopped started");
  EXPECT_TRUE(with.slurm.jobs["17"].required.empty());
  EXPECT_EQ(with.slurm.jobs["16"].required, std::vector<std::string>{"n1"}) << "of another node";
  EXPECT_EQ(with.reports, std::vector<std::string>{
                              "job 17: the order to start on n2 is withdrawn: expected its GPUs "
                              "free, found job 18 on n2"});
  EXPECT_EQ(with.world().state().free, 10u);
}

TEST(JobFollower, PlacesThatDoNotFitTheRequestAreRefused) {
  Followed with;
  with.slurm.jobs["17"] = {.nodes = 2, .per_node = 2};
  with.read(1000);
  EXPECT_NE(with.start(0, {{0}, {1}, {2}, {4}}).find("2 GPUs on each of 2 nodes"),
            std::string::npos);
}

}  // namespace
}  // namespace orrery::live

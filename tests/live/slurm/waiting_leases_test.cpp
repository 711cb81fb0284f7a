#include "live/slurm/waiting_leases.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/live/slurm/followed.hpp"

namespace orrery::live {
namespace {

const std::string kKept = "afterany:90001(unfulfilled)";

SlurmRules rules_from(std::size_t keeper_from) {
  return {
      .partitions = {"orrery"}, .owner = "orrery:7", .keeper_from = keeper_from, .user = "orrery"};
}

/// Slurm with waiting jobs 1, 2, ..., and a controller that has made readings until `until`.
class Many : public Followed {
 public:
  Many(std::size_t jobs, std::size_t keeper_from, std::int64_t until = 0)
      : Followed(rules_from(keeper_from)) {
    for (std::size_t i = 1; i <= jobs; ++i) slurm.jobs[std::to_string(i)] = {};
    for (std::int64_t now = 1000; now <= until; ++now) read(now);
  }

  /// Returns the number of lines with this text so far.
  std::ptrdiff_t lines(const std::string& part) const {
    return std::count_if(slurm.executed.begin(), slurm.executed.end(),
                         [&](const auto& line) { return line.find(part) != std::string::npos; });
  }
  std::ptrdiff_t messages(const std::string& part) const {
    return std::count_if(reports.begin(), reports.end(), [&](const std::string& text) {
      return text.find(part) != std::string::npos;
    });
  }
  /// Returns the number of jobs, without keepers, that satisfy `is_true`.
  template <class Test>
  std::ptrdiff_t count(const Test& is_true) const {
    return std::count_if(slurm.jobs.begin(), slurm.jobs.end(), [&](const auto& entry) {
      return entry.second.per_node > 0 && is_true(entry.second);
    });
  }
  std::ptrdiff_t kept() const {
    return count([](const FakeJob& job) { return job.dependency == kKept; });
  }
  std::ptrdiff_t running() const {
    return count([](const FakeJob& job) { return job.state == "RUNNING"; });
  }
};

TEST(WaitingLeases, ManyJobsWaitForOneKeeperThatCostsOneUpdateInHalfALease) {
  Many with(1500, 1000);
  EXPECT_EQ(with.read(1000).substr(0, 19), "submitted submitted");
  EXPECT_EQ(with.slurm.executed.size(), 1u);
  EXPECT_EQ(with.lines("sbatch --parsable -J orrery-keeper"), 1);
  EXPECT_EQ(with.read(1001), "");
  EXPECT_EQ(with.kept(), 5) << "they show whether Slurm accepts the dependency";
  EXPECT_EQ(with.read(1002), "");
  EXPECT_EQ(with.kept(), 1500);
  with.slurm.executed.clear();
  for (std::int64_t now = 1003; now <= 1063; ++now) {
    EXPECT_EQ(with.read(now), "");
    with.slurm.schedule();
  }
  EXPECT_EQ(with.slurm.executed,
            std::vector<std::string>(5, "update JobId=90001 StartTime=now+20 Deadline=now+50"));
  EXPECT_EQ(with.running(), 0);
  EXPECT_EQ(with.messages(""), 1);
}

TEST(WaitingLeases, FewJobsHaveLeasesAndNoKeeper) {
  Many with(10, 10, 1030);
  EXPECT_EQ(with.lines("sbatch"), 0);
  EXPECT_EQ(with.slurm.keeper_readings, 0u);
  EXPECT_EQ(with.lines("StartTime=now+20"), 4);
}

TEST(WaitingLeases, APlacedJobDoesNotWaitForTheKeeper) {
  Many with(4, 2, 1002);
  EXPECT_EQ(with.kept(), 4);
  EXPECT_EQ(with.start(0, {{4}}), "");
  EXPECT_EQ(with.slurm.executed.back(), "update JobId=1 ReqNodeList=n2 StartTime=now Dependency=");
  with.slurm.schedule();
  EXPECT_EQ(with.running(), 1);
  EXPECT_EQ(with.read(1003), "started");
  EXPECT_EQ(with.kept(), 3);
}

TEST(WaitingLeases, AnOrderThatLeavesTheJobWithTheKeeperIsLost) {
  Many with(4, 2, 1002);
  with.start(0, {{4}});
  with.slurm.jobs["1"].dependency = kKept;
  EXPECT_EQ(with.read(1003), "");
  EXPECT_EQ(with.messages("job 1: expected the order to start on n2, found it lost"), 1);
  EXPECT_EQ(with.slurm.jobs["1"].dependency, "(null)");
}

TEST(WaitingLeases, DependenciesOfTheUserStay) {
  Many with(4, 2);
  with.slurm.jobs["5"] = {.dependency = "afterok:9(unfulfilled)"};
  const std::string either = "afterok:8(unfulfilled)?afterok:9(unfulfilled)";
  with.slurm.jobs["6"] = {.dependency = either};
  for (std::int64_t now = 1000; now <= 1012; ++now) with.read(now);
  EXPECT_EQ(with.slurm.jobs["5"].dependency, "afterok:9(unfulfilled)," + kKept);
  EXPECT_EQ(with.slurm.jobs["6"].dependency, either);
  EXPECT_EQ(with.slurm.jobs["6"].eligible, 1031) << "a lease";
  EXPECT_EQ(with.world().jobs().submitted(), 4u) << "they wait for another job";
  for (const char* id : {"1", "2", "3", "4"}) with.slurm.jobs[id].state = "COMPLETED";
  with.read(1013);
  EXPECT_EQ(with.slurm.jobs["5"].dependency, "afterok:9(unfulfilled)");
  EXPECT_EQ(with.slurm.jobs["5"].eligible, 1033);
}

TEST(WaitingLeases, SlurmStartsTheJobsWhenNobodyRenewsTheKeeper) {
  Many with(12, 10, 1002);
  EXPECT_EQ(with.kept(), 12);
  with.slurm.now = 1019;
  with.slurm.schedule();
  EXPECT_EQ(with.running(), 0);
  with.slurm.now = 1020;
  with.slurm.schedule();
  EXPECT_EQ(with.slurm.jobs["90001"].state, "DEADLINE");
  EXPECT_EQ(with.running(), 12);
}

TEST(WaitingLeases, ALaterControllerFindsTheKeeperByItsMark) {
  const Many before(12, 10, 1002);
  Many with(0, 10);
  with.slurm.jobs = before.slurm.jobs;
  EXPECT_EQ(with.read(1005).substr(0, 19), "submitted submitted");
  EXPECT_EQ(with.messages("took over the keeper job 90001"), 1);
  for (std::int64_t now = 1006; now <= 1012; ++now) with.read(now);
  EXPECT_EQ(with.slurm.executed,
            std::vector<std::string>{"update JobId=90001 StartTime=now+20 Deadline=now+50"});
  Many few(0, 1000);  // its threshold is higher
  few.slurm.jobs = before.slurm.jobs;
  few.read(1005);
  EXPECT_EQ(few.kept(), 0);
  EXPECT_EQ(few.count([](const FakeJob& job) { return job.eligible == 1025; }), 12);
}

TEST(WaitingLeases, AKeeperOfAnotherUserOrOfOtherJobsIsNotRenewed) {
  for (const bool has_other_user : {true, false}) {
    Many with(12, 10);
    with.slurm.jobs["70"] = {.user = has_other_user ? "alice" : "orrery",
                             .per_node = 0,
                             .comment = keeper_comment(rules_from(10)),
                             .name = "orrery-keeper"};
    if (!has_other_user) with.slurm.jobs["70"].comment += "theirs";
    for (std::int64_t now = 1000; now <= 1002; ++now) with.read(now);
    EXPECT_EQ(with.kept(), 12) << "on a keeper of this controller";
    EXPECT_EQ(with.lines("JobId=70 "), 0);
  }
}

TEST(WaitingLeases, AfterTheEndOfAKeeperThereIsANewOne) {
  Many with(12, 10, 1002);
  with.slurm.jobs["90001"].state = "CANCELLED";
  for (auto& [id, job] : with.slurm.jobs) job.dependency = "(null)";
  for (std::int64_t now = 1011; now <= 1013; ++now) with.read(now);
  EXPECT_EQ(with.messages("keeper job 90001 has ended"), 1);
  EXPECT_EQ(with.lines("sbatch"), 2);
  EXPECT_EQ(with.count([](const FakeJob& job) {
    return job.dependency == "afterany:90002(unfulfilled)" && job.eligible == 1031;
  }),
            12)
      << "leases for the time without a keeper";
}

TEST(WaitingLeases, JobsReturnToLeasesWhenATenthFewerWait) {
  Many with(21, 20, 1002);
  for (const char* id : {"1", "2"}) with.slurm.jobs[id].state = "COMPLETED";
  with.read(1003);
  EXPECT_EQ(with.kept(), 21) << "19 wait, and 18 is the limit";
  with.slurm.jobs["3"].state = "COMPLETED";
  with.read(1004);
  EXPECT_EQ(with.count([](const FakeJob& job) {
    return job.state == "PENDING" && job.dependency == "(null)" && job.eligible == 1024;
  }),
            18);
  with.slurm.executed.clear();
  for (std::int64_t now = 1005; now <= 1025; ++now) {
    with.read(now);
    with.slurm.schedule();
  }
  EXPECT_EQ(with.lines("JobId=90001"), 0) << "a keeper without jobs ends";
  EXPECT_EQ(with.slurm.jobs["90001"].state, "DEADLINE");
  EXPECT_EQ(with.running(), 0);
  EXPECT_EQ(with.messages("has ended"), 0);
}

TEST(WaitingLeases, JobsHaveLeasesAfterOneMessageIfSlurmRefusesTheKeeper) {
  Many with(12, 10);
  with.slurm.refused_job = "Access denied";
  for (std::int64_t now = 1000; now <= 1060; ++now) {
    with.read(now);
    with.slurm.schedule();
  }
  EXPECT_EQ(with.lines("sbatch"), 1);
  EXPECT_EQ(with.messages("no keeper job: sbatch: Access denied"), 1);
  EXPECT_EQ(with.running(), 0);
  with.read(1600);
  EXPECT_EQ(with.lines("sbatch"), 2);
  EXPECT_EQ(with.messages("Access denied"), 1);
}

TEST(WaitingLeases, JobsHaveLeasesAfterOneMessageIfSlurmRefusesAnUpdate) {
  for (const char* part : {"Dependency=afterany", "Deadline="}) {
    Many with(12, 10);
    with.slurm.refused = {part};
    for (std::int64_t now = 1000; now <= 1060; ++now) {
      with.read(now);
      with.slurm.schedule();
      ASSERT_EQ(with.running(), 0) << part << " at " << now;
    }
    EXPECT_EQ(with.lines("sbatch"), 1) << part;
    EXPECT_EQ(with.messages("no keeper job: expected"), 1) << part;
    EXPECT_EQ(with.kept(), 0) << part;
  }
}

TEST(WaitingLeases, AHeldKeeperIsReleased) {
  Many with(12, 10, 1002);
  with.slurm.jobs["90001"].held = true;
  with.read(1003);
  EXPECT_FALSE(with.slurm.jobs["90001"].held);
  EXPECT_EQ(with.kept(), 12);
}

}  // namespace
}  // namespace orrery::live

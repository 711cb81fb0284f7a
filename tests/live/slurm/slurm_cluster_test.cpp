#include "live/slurm/slurm_cluster.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <optional>
#include <variant>

#include "core/error.hpp"
#include "policies/handover/hand_over.hpp"
#include "policies/record/recorder.hpp"
#include "policies/run/registry.hpp"
#include "policies/run/replay.hpp"
#include "policies/seam/drive.hpp"
#include "tests/live/slurm/fake_slurm.hpp"

namespace orrery::live {
namespace {

/// Slurm whose time is real; a job runs for three readings.
class BusySlurm : public FakeSlurm {
 public:
  BusySlurm() {
    now = std::time(nullptr);
    for (int i = 1; i <= 12; ++i) {
      jobs[std::to_string(i)] = {
          .submit = now, .eligible = now + 20, .nodes = 1u + i % 2, .per_node = 1u + i % 4};
    }
  }
  std::int64_t ahead_s = 0;  ///< time by which its clock is ahead of the machine's
  int starts_each = 1;       ///< starts jobs in each of so many readings

  std::string read_configuration() override {
    now = std::time(nullptr) + ahead_s;
    return FakeSlurm::read_configuration();
  }
  std::string read_jobs() override {
    now = std::time(nullptr) + ahead_s;
    for (auto& [id, job] : jobs) {
      if (job.state == "RUNNING" && ++readings_[id] > 3) job.state = "COMPLETED";
    }
    if (count_ % starts_each == 0) schedule();
    if (++count_ % 7 == 3) broken = count_ % 2 == 0 ? "fail" : "17|";
    return FakeSlurm::read_jobs();
  }
  bool is_done() const {
    return std::all_of(jobs.begin(), jobs.end(), [](const auto& entry) {
      return entry.second.state == "COMPLETED" || entry.second.per_node == 0;
    });
  }

 private:
  std::map<std::string, int> readings_;
  int count_ = 0;
};

struct Course {
  std::vector<std::string> reports;
  SlurmCluster::Counts counts;
  std::uint64_t decisions = 0;
};

/// Runs `policy` until all jobs are done or 400 readings have passed.
Course run_policy(BusySlurm& slurm, const std::string& policy, HandOverRules rules,
                  const std::string& record = {}, std::uint32_t per_minute = 0,
                  std::size_t keeper_from = 1000) {
  Course run;
  SlurmCluster::Options options;
  options.rules.partitions = {"orrery"};
  options.rules.keeper_from = keeper_from;
  options.rules.user = "orrery";
  options.rules.acts = rules.mode != HandOverMode::shadow;
  options.is_quiet = rules.mode == HandOverMode::shadow;
  options.every = std::chrono::milliseconds(1);
  options.per_minute = per_minute;
  int readings = 0;
  options.stopped = [&] { return slurm.is_done() || readings > 400; };
  options.at_reading = [&] { ++readings; };
  options.tell = [&](const std::string& text) { run.reports.push_back(text); };
  SlurmCluster cluster(slurm, options);
  HandOver hand_over(cluster, rules);
  EndsWithReadings until_over(hand_over, cluster);
  JobReplay replay;
  replay.set_trace("slurm");
  replay.set_policy(policy);
  replay.set_placement("per-node");
  replay.set_nodes(4);
  replay.set_gpus_per_node(4);
  LogHeader header;
  header.set_mode("jobs");
  *header.mutable_replay() = replay;
  const auto stack = make_stack(replay);
  Recorder recorder(until_over, *stack, header, {.path = record, .hash = !record.empty()});
  Rng rng = policy_rng(0);
  Context context{rng, {}};
  run.decisions = drive(*stack, recorder, context);
  recorder.finish_log();
  run.counts = cluster.counts();
  return run;
}

TEST(SlurmCluster, AQueuePolicyDrivesAllJobsAndTheLogReplaysWithTheSameDecisions) {
  const std::string log = (std::filesystem::temp_directory_path() / "orrery-slurm.log").string();
  for (const char* policy : {"fifo", "easy", "srtf", "max-min"}) {
    BusySlurm slurm;
    const Course run = run_policy(slurm, policy, {}, log);
    EXPECT_TRUE(slurm.is_done()) << policy;
    EXPECT_EQ(run.counts.starts, 12u) << policy;
    EXPECT_GT(run.counts.failed_readings, 0u);
    const ReplayResult replayed = replay_log(log, std::vector<std::string>());
    EXPECT_EQ(replayed.first_difference, "") << policy;
    EXPECT_EQ(replayed.decisions, 12u) << policy;
  }
  std::filesystem::remove(log);
}

TEST(SlurmCluster, JobsThatWaitForAKeeperAreStartedLikeThoseWithLeases) {
  BusySlurm slurm;
  slurm.jobs["5"].comment = slurm.jobs["9"].comment = "of the user";
  const Course run = run_policy(slurm, "fifo", {}, {}, 0, 3);
  EXPECT_TRUE(slurm.is_done());
  EXPECT_EQ(run.counts.starts, 12u);
  const auto count = [&](const std::string& part) {
    return std::count_if(slurm.executed.begin(), slurm.executed.end(),
                         [&](const auto& line) { return line.find(part) != std::string::npos; });
  };
  EXPECT_EQ(count("sbatch "), 1);
  EXPECT_GT(count(" Dependency=afterany:90001"), 1);
  EXPECT_GT(count(" StartTime=now Dependency= Comment=[orrery:0]"), 2);
  EXPECT_EQ(count(" StartTime=now Dependency= Comment=of the user [orrery:0]"), 2);
}

template <class Kind>
bool has_event(const Observation& seen) {
  return std::any_of(seen.events.begin(), seen.events.end(),
                     [](const Event& event) { return std::holds_alternative<Kind>(event); });
}

/// Returns the next observation with an event of this kind.
template <class Kind>
Observation next_with(SlurmCluster& cluster) {
  while (true) {
    const std::optional<Observation> seen = cluster.next();
    if (!seen) throw Error(ErrorKind::internal, "the run is over");
    if (has_event<Kind>(*seen)) return *seen;
  }
}

TEST(SlurmCluster, AReleasedJobStopsAtTheInstantOfItsRelease) {
  BusySlurm slurm;
  slurm.jobs = {{"1", {.submit = slurm.now, .eligible = slurm.now + 20, .per_node = 4}}};
  SlurmCluster::Options options;
  options.rules.partitions = {"orrery"};
  options.rules.acts = true;
  options.every = std::chrono::milliseconds(1);
  options.until = std::chrono::seconds(60);
  options.has_ticks = true;
  SlurmCluster cluster(slurm, options);
  cluster.begin({});
  const JobId job = next_with<JobSubmitted>(cluster).jobs.begin()->spec.id;
  GpuRuns gpus;
  for (std::uint32_t gpu = 0; gpu < 4; ++gpu) gpus.push_back({gpu});
  DecisionList start;
  start.add(Assign{.job = job, .gpus = gpus}, "it waits");
  cluster.apply(start);
  next_with<JobStarted>(cluster);
  DecisionList release(start.next());
  release.add(Assign{.job = job}, "another job is shorter");
  const Nanos before = next_with<Tick>(cluster).now;
  cluster.apply(release);
  const std::optional<Observation> after = cluster.next();
  ASSERT_TRUE(after);
  EXPECT_EQ(after->now, before);
  EXPECT_TRUE(has_event<JobStopped>(*after));
  EXPECT_GT(next_with<Tick>(cluster).now, before) << "then it reads again";
}

TEST(SlurmCluster, ShadowModeSendsNothingAndDoesNotRepeatItsDecisions) {
  BusySlurm slurm;
  const Course run = run_policy(slurm, "fifo", {.mode = HandOverMode::shadow});
  EXPECT_TRUE(slurm.executed.empty());
  EXPECT_EQ(run.counts.starts, 0u);
  EXPECT_GE(run.counts.readings, 300u);
  EXPECT_GT(run.decisions, 0u);
  EXPECT_LE(run.decisions, 12u);
}

TEST(SlurmCluster, TheLimitOfAMinuteHoldsAndIsNoErrorForThePolicy) {
  BusySlurm slurm;
  const Course run = run_policy(slurm, "fifo", {}, {}, 5);
  EXPECT_EQ(run.counts.starts, 5u);
  EXPECT_FALSE(slurm.is_done());
}

TEST(SlurmCluster, AWrongAnswerIsReportedOnceAndChangesNothing) {
  BusySlurm slurm;
  const Course run = run_policy(slurm, "fifo", {});
  const auto count = [&](const std::string& part) {
    return std::count_if(run.reports.begin(), run.reports.end(), [&](const std::string& text) {
      return text.find(part) != std::string::npos;
    });
  };
  EXPECT_GT(count("answer of squeue:1:4: error: "), 0);
  EXPECT_GT(count("Slurm answers again"), 0);
  EXPECT_EQ(count("went back"), 0);
}

TEST(SlurmCluster, AnOrderKeepsTheCommentOfTheUser) {
  BusySlurm slurm;
  const std::string text = "line of 'me'\n2|forged [orrery:9]|\nend";
  slurm.jobs["1"].comment = text;
  slurm.jobs["2"].comment = "short";
  slurm.jobs["3"].comment = std::string(1000, 'x');
  const Course run = run_policy(slurm, "fifo", {.mode = HandOverMode::drive});
  EXPECT_TRUE(slurm.is_done());
  EXPECT_EQ(owner_in(slurm.jobs["1"].comment), SlurmRules().owner);
  EXPECT_EQ(marked_comment(slurm.jobs["1"].comment, ""), text);
  EXPECT_EQ(slurm.jobs["2"].comment, "short [orrery:0]");
  EXPECT_EQ(slurm.jobs["3"].comment, std::string(1000, 'x'));
  EXPECT_EQ(slurm.jobs["4"].comment, "[orrery:0]");
}

TEST(SlurmCluster, AClockThatDiffersIsNamedAndHarmless) {
  for (const std::int64_t ahead_s : {30, -30, 3600}) {
    BusySlurm slurm;
    slurm.ahead_s = ahead_s;
    slurm.starts_each = 8;  // an order is shown several times before it becomes a start
    for (auto& [id, job] : slurm.jobs) job.submit = slurm.now + ahead_s, job.eligible += ahead_s;
    const Course run = run_policy(slurm, "fifo", {});
    EXPECT_TRUE(slurm.is_done()) << ahead_s;
    EXPECT_EQ(run.counts.starts, 12u) << ahead_s;
    const auto count = [&](const std::string& part) {
      return std::count_if(run.reports.begin(), run.reports.end(), [&](const std::string& text) {
        return text.find(part) != std::string::npos;
      });
    };
    const std::string side = ahead_s > 0 ? "ahead of" : "behind";
    EXPECT_EQ(count("the clocks differ by"), 1) << ahead_s;
    EXPECT_EQ(count("that of slurmctld is " + side + " this machine's"), 1) << ahead_s;
    EXPECT_EQ(count("found it lost"), 0) << ahead_s;
    EXPECT_EQ(count("without a decision"), 0) << ahead_s;
  }
}

TEST(SlurmCluster, ADrainedNodeIsLostForNewJobs) {
  BusySlurm slurm;
  slurm.set_node("n1", "IDLE+DRAIN");
  slurm.set_node("n2", "DOWN*");
  run_policy(slurm, "fifo", {});
  EXPECT_TRUE(slurm.is_done());
  for (const std::string& line : slurm.executed) {
    EXPECT_EQ(line.find("n1"), std::string::npos) << line;
    EXPECT_EQ(line.find("n2"), std::string::npos) << line;
  }
}

}  // namespace
}  // namespace orrery::live

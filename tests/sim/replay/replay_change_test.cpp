#include "sim/replay/replay_change.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/random.hpp"
#include "core/schema/yaml_loader.hpp"
#include "policies/run/registry.hpp"
#include "sim/replay/job_replay.hpp"
#include "tests/sim/logged_job.hpp"

namespace orrery::sim {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

JobReplay replay_of(const std::string& policy, const std::vector<std::string>& changes = {}) {
  JobReplay replay;
  replay.set_nodes(2);
  replay.set_gpus_per_node(4);
  replay.set_policy(policy);
  replay.set_placement("count");
  for (const std::string& each : changes) {
    const std::size_t equals = each.find('=');
    set_field(replay, each.substr(0, equals), each.substr(equals + 1), "--set");
  }
  return replay;
}

std::vector<TraceJob> random_log(std::uint64_t seed) {
  Rng rng(seed);
  std::vector<TraceJob> jobs;
  std::int64_t now = 0;
  for (int i = 0; i < 60; ++i) {
    now += static_cast<std::int64_t>(rng.below(40));
    jobs.push_back(test::logged_job(
        std::to_string(i), now, 1 + static_cast<std::uint32_t>(rng.below(8)),
        1 + static_cast<std::int64_t>(rng.below(300) * (rng.below(6) == 0 ? 200 : 1)),
        i % 2 == 0 ? "a" : "b"));
    jobs.back().priority = static_cast<std::int32_t>(rng.below(3));
  }
  return jobs;
}

TEST(PolicyTraits, AreWhatPoliciesDo) {
  for (const std::string& policy : queue_policy_names()) {
    const PolicyTraits traits = policy_traits(replay_of(policy));
    bool differs = false, preempts = false;
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      const std::vector<TraceJob> log = random_log(seed);
      const JobsReport known = replay_jobs(log, replay_of(policy));
      const JobsReport guessed =
          replay_jobs(log, replay_of(policy, {"estimates=disturbed", "estimate_error=2"}));
      differs = differs || known.schedule_digest() != guessed.schedule_digest();
      preempts = preempts || known.preemptions() > 0;
    }
    EXPECT_EQ(traits.reads_estimates, differs) << policy;
    // Elastic jobs change their sizes, which costs as restarts do; these logs have none.
    EXPECT_EQ(traits.may_preempt, preempts || policy == "elastic") << policy;
  }
}

TEST(PolicyTraits, FollowTheParameters) {
  EXPECT_FALSE(policy_traits(replay_of("priority", {"set=[priority.preempt=false]"})).may_preempt);
  JobReplay slurm = replay_of("multifactor");
  EXPECT_FALSE(policy_traits(slurm).may_preempt);
  slurm.add_set("multifactor.qos=[{name: high, preempts: [low]}, {name: low}]");
  EXPECT_TRUE(policy_traits(slurm).may_preempt);
  EXPECT_TRUE(policy_traits(replay_of("mine.py")).may_preempt);
  EXPECT_TRUE(policy_traits(replay_of("mine.py")).reads_estimates);
}

TEST(LogTraits, AreThoseOfAnyJob) {
  std::vector<TraceJob> jobs = random_log(1);
  EXPECT_FALSE(log_traits(jobs).has_limits);
  EXPECT_FALSE(log_traits(jobs).names_kinds);
  jobs[7].requested_s = 5;
  jobs[9].kinds = "A100";
  EXPECT_TRUE(log_traits(jobs).has_limits);
  EXPECT_TRUE(log_traits(jobs).names_kinds);
}

std::string reason_of(const std::string& policy, const std::string& change,
                      const std::vector<std::string>& base = {}, LogTraits log = {}) {
  std::vector<std::string> changes = base;
  changes.push_back(change);
  return reason_without_effect(replay_of(policy, base), replay_of(policy, changes), log);
}

TEST(ReplayChange, AKeyThatIsNotReadHasNoEffect) {
  EXPECT_THAT(reason_of("fifo", "nodes=2"), HasSubstr("has this value"));
  EXPECT_THAT(reason_of("fifo", "placement=count"), HasSubstr("has this value"));
  EXPECT_THAT(reason_of("fifo", "conditions.speed=recorded"), HasSubstr("has this value"));
  EXPECT_THAT(reason_of("fifo", "conditions.kinds=[]"), HasSubstr("has this value"));
  EXPECT_THAT(reason_of("fifo", "strict=true"), HasSubstr("read once"));
  EXPECT_THAT(reason_of("fifo", "estimates=learned"), HasSubstr("fifo reads no estimates"));
  EXPECT_THAT(reason_of("easy", "estimate_error=1"), HasSubstr("have no error"));
  EXPECT_THAT(reason_of("easy", "seed=4"), HasSubstr("nothing is drawn"));
  EXPECT_THAT(reason_of("easy", "seed=4", {"conditions.restart_cost=60s"}),
              HasSubstr("nothing is drawn"));
  EXPECT_THAT(reason_of("srtf", "conditions.repair=2h"), HasSubstr("no node fails"));
  EXPECT_THAT(reason_of("srtf", "conditions.checkpoint_every=1h"), HasSubstr("no node fails"));
  EXPECT_THAT(reason_of("fifo", "conditions.restart_cost=60s"), HasSubstr("preempts no job"));
  EXPECT_THAT(reason_of("fifo", "conditions.enforce_limits=true"), HasSubstr("requested time"));
  EXPECT_THAT(reason_of("fifo", "node_kinds=[{kind: A100, nodes: 2}]"), HasSubstr("kind of GPU"));
  EXPECT_THAT(reason_of("fifo", "set=[fifo.placement=count]"), HasSubstr("same parameters"));
  EXPECT_THAT(reason_of("fifo", "set=[las.threshold_gpu_s=10]"), HasSubstr("same parameters"));
}

TEST(ReplayChange, AKeyThatIsReadMayHaveOne) {
  EXPECT_THAT(reason_of("fifo", "nodes=3"), IsEmpty());
  EXPECT_THAT(reason_of("fifo", "placement=consolidated"), IsEmpty());
  EXPECT_THAT(reason_of("las", "set=[las.threshold_gpu_s=10]"), IsEmpty());
  EXPECT_THAT(reason_of("easy", "estimates=learned"), IsEmpty());
  EXPECT_THAT(reason_of("easy", "estimate_error=1", {"estimates=disturbed"}), IsEmpty());
  EXPECT_THAT(reason_of("easy", "seed=4", {"estimates=disturbed"}), IsEmpty());
  EXPECT_THAT(reason_of("fifo", "seed=4", {"conditions.failures=8"}), IsEmpty());
  EXPECT_THAT(reason_of("fifo", "conditions.repair=2h", {"conditions.failures=8"}), IsEmpty());
  EXPECT_THAT(reason_of("fifo", "conditions.checkpoint_every=1h", {"conditions.outages=x.csv"}),
              IsEmpty());
  EXPECT_THAT(reason_of("srtf", "conditions.restart_cost=60s"), IsEmpty());
  EXPECT_THAT(reason_of("fifo", "conditions.restart_cost=60s", {"conditions.failures=8"}),
              IsEmpty());
  EXPECT_THAT(reason_of("fifo", "conditions.enforce_limits=true", {}, {.has_limits = true}),
              IsEmpty());
  EXPECT_THAT(reason_of("fifo", "policy=sjf"), IsEmpty());
  EXPECT_THAT(reason_of("mine.py", "estimates=learned"), IsEmpty()) << "nobody knows";
}

}  // namespace
}  // namespace orrery::sim

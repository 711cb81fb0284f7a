#include "policies/power/power_budget.hpp"

#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "core/schema/yaml_loader.hpp"
#include "tests/policies/node_of_eight.hpp"
#include "tests/policies/toy.hpp"
#include "topologies/power.hpp"

namespace orrery {
namespace {

constexpr Nanos kHour = 3600 * kNanosPerSecond;
/// 6.72 of 8.4 kW by day: 490 W for each GPU, 3,920 W for all.
constexpr const char* kByDay = "limits: [{share: 80%, from: 8 h, until: 20 h, every: 24 h}]\n";

/// Two jobs of four GPUs, and the policy that divides the power among them.
class PowerBudgetTest : public ::testing::Test {
 protected:
  PowerBudgetTest() : cluster_(node_of_eight()), world_(cluster_) {}

  void start(const std::string& text) {
    PowerBudgetParameters parameters;
    load_yaml(text, "p.yaml", parameters);
    fill_defaults(parameters);
    Rng rng(1);
    Context context{rng, {}};
    policy_.start(context, cluster_, &parameters);
  }
  /// Applies the decisions at `now` to the world and returns the limits of the jobs.
  std::map<std::uint32_t, double> limits_at(Nanos now, const Event& event = Tick{}) {
    DecisionList decisions(next_);
    NoSamples samples;
    Rng rng(1);
    Context context{rng, {}};
    const std::vector<Event> events{event};
    policy_.observe(context, toy::seen_of(world_, events, samples, now), decisions);
    EXPECT_TRUE(decisions.is_resting());
    wakes_ = decisions.wake_times();
    for (const Decision& decision : decisions.items()) {
      EXPECT_EQ(world_.objection(decision), "");
      world_.announce_decision(decision);
      world_.apply(Decided{decision.id, Outcome::applied, ""}, now);
    }
    next_ = decisions.next();
    std::map<std::uint32_t, double> limits;
    for (const JobInfo& job : world_.jobs()) {
      limits[job.spec.id.value] = std::round(job.now.get<PowerCap>().watts * 1e6) / 1e6;
    }
    return limits;
  }
  void run_job(std::uint32_t id, std::int32_t priority = 0) {
    JobSpec spec = toy::job(id);
    spec.priority = priority;
    toy::run_on(world_, spec, 4 * id);
  }
  using Limits = std::map<std::uint32_t, double>;

  Cluster cluster_;
  World world_;
  PowerBudgetPolicy policy_;
  std::vector<Nanos> wakes_;
  DecisionId next_ = 0;
};

TEST_F(PowerBudgetTest, TheFirstJobHasFullPowerAndTheSecondTheRest) {
  start(kByDay);
  run_job(0), run_job(1);
  EXPECT_EQ(limits_at(kHour), (Limits{{0, 0}, {1, 0}})) << "no limit at night";
  EXPECT_EQ(wakes_, (std::vector<Nanos>{8 * kHour}));
  EXPECT_EQ(limits_at(8 * kHour), (Limits{{0, 0}, {1, 280}}));
  EXPECT_EQ(wakes_, (std::vector<Nanos>{20 * kHour}));
  EXPECT_EQ(limits_at(20 * kHour), (Limits{{0, 0}, {1, 0}}));
}

TEST_F(PowerBudgetTest, AJobOfHigherPriorityGoesFirst) {
  start(kByDay);
  run_job(0), run_job(1, 5);
  EXPECT_EQ(limits_at(9 * kHour), (Limits{{0, 280}, {1, 0}}));
}

TEST_F(PowerBudgetTest, EvenGivesAllGpusTheSame) {
  start(std::string(kByDay) + "spend: even\n");
  run_job(0), run_job(1);
  EXPECT_EQ(limits_at(9 * kHour), (Limits{{0, 490}, {1, 490}}));
}

TEST_F(PowerBudgetTest, AJobWithTooLowAClockPausesAndLeavesItsPower) {
  start(std::string(kByDay) + "spend: pause\n");
  run_job(0), run_job(1);
  EXPECT_EQ(limits_at(9 * kHour), (Limits{{0, 0}, {1, 75}})) << "idle power";
  start(std::string(kByDay) + "least_clock: 0.8\n");
  EXPECT_EQ(limits_at(9 * kHour), (Limits{{0, 0}, {1, 75}})) << "280 W leave 69%";
}

TEST_F(PowerBudgetTest, TheClusterStaysWithinTheLimitWhateverRuns) {
  start(kByDay);
  run_job(0);
  EXPECT_EQ(limits_at(9 * kHour), (Limits{{0, 0}})) << "four GPUs are idle";
  run_job(1);
  limits_at(10 * kHour);
  double watts = 2800;
  for (const JobInfo& job : world_.jobs()) {
    const double cap = job.now.get<PowerCap>().watts;
    watts += 4 * (cap > 0 ? cap : 700);
  }
  EXPECT_NEAR(watts, 0.8 * 8400, 1e-9);
}

TEST_F(PowerBudgetTest, GpusOfOtherJobsCountWithFullPower) {
  start(kByDay);
  run_job(0);
  JobSpec other = toy::job(1);
  other.can = {};
  toy::run_on(world_, other, 4);
  EXPECT_EQ(limits_at(9 * kHour), (Limits{{0, 280}, {1, 0}}));
}

TEST_F(PowerBudgetTest, StepsAloneChangeNothing) {
  start(kByDay);
  run_job(0), run_job(1);
  world_.apply(StepsDone{{0}, 0, 1, 5}, 9 * kHour);
  EXPECT_EQ(limits_at(9 * kHour, StepsDone{{0}, 0, 1, 5}), (Limits{{0, 0}, {1, 0}}));
}

TEST_F(PowerBudgetTest, WithoutAWorkingJobNoCallIsRequested) {
  start(kByDay);
  run_job(0);
  world_.apply(JobHeld{{0}}, kHour);
  limits_at(kHour, JobHeld{{0}});
  EXPECT_TRUE(wakes_.empty());
}

TEST_F(PowerBudgetTest, ImpossibleLimitsAreRefused) {
  try {
    start("limits: [{share: 80%, from: 2 h, until: 1 h}]\n");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "limits[0]: expected 'until' after 'from', found an earlier time");
  }
}

}  // namespace
}  // namespace orrery

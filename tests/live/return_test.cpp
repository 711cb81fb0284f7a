// Ranks of whole runs that stand still for longer than the heartbeat timeout and are heard again
// return by the rule of docs/faults.md, and the parameters have the bits of an undisturbed run.
#include <algorithm>
#include <csignal>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/live/live_run.hpp"
#include "tests/live/watching.hpp"

namespace orrery::live {
namespace {

constexpr std::chrono::milliseconds kTimeout{kSanitized ? 2000 : 500};

/// Returns the process of `rank`, the only one that its run has; 0 if there is none.
pid_t agent_of(std::uint32_t rank) {
  for (const pid_t pid : agents()) {
    std::ifstream file(fmt::format("/proc/{}/cmdline", pid));
    const std::string line(std::istreambuf_iterator<char>(file), {});
    const std::string own = fmt::format("--rank{0}{1}{0}", '\0', rank);
    if (line.find(own) != std::string::npos) return pid;
  }
  return 0;
}

/// Policy that changes nothing, and acts on the processes of the run at its events.
class Acting : public Policy {
 public:
  using Acts = std::function<void(const Event&)>;
  explicit Acting(Acts acts) : acts_(std::move(acts)) {}
  Needs needs() const override { return {.actions = {}, .settings = {}, .step_times = true}; }
  void start(Context&, const Cluster&, const google::protobuf::Message*) override {}
  void observe(Context&, const Observation& seen, DecisionList&) override {
    for (const Event& event : seen.events) {
      events_.push_back(event);
      acts_(event);
    }
  }
  /// Returns all events of a kind, oldest first.
  template <class E>
  std::vector<E> all() const {
    std::vector<E> found;
    for (const Event& event : events_) {
      if (const auto* each = std::get_if<E>(&event)) found.push_back(*each);
    }
    return found;
  }

 private:
  Acts acts_;
  std::vector<Event> events_;
};

RunRequest ranks_with(const std::string& on_loss, int steps, std::vector<std::string> more = {}) {
  more.insert(more.begin(),
              {"policies=[]", brisk_pace(), "live.reproducible=true", "job.max_share=8",
               "survival.on_loss=" + on_loss, fmt::format("run.steps={}", steps),
               fmt::format("survival.heartbeat_timeout={} ms", kTimeout.count())});
  return request(more);
}

std::string calm_parameters(const RunRequest& asked) {
  RunRequest calm = asked;
  return run_in_worker(kProgram, calm).parameters_sha256();
}

/// Stops the process of rank 2 at step 3, and continues it once its loss has been reported.
Acting::Acts stop_rank_2() {
  return [stopped = pid_t{0}](const Event& event) mutable {
    const auto* done = std::get_if<StepsDone>(&event);
    if (done != nullptr && done->last == 3 && stopped == 0) {
      stopped = agent_of(2);
      kill(stopped, SIGSTOP);
    }
    if (std::holds_alternative<RanksLost>(event)) kill(stopped, SIGCONT);
  };
}

TEST(Return, ARankThatStoodStillReturnsByItselfWhereTheOthersGoOn) {
  const RunRequest asked = ranks_with("go-on", 80);
  Acting policy(stop_rank_2());
  const Report report = run_in_worker(kProgram, asked, &policy);
  EXPECT_EQ(report.steps_completed(), 80u);
  ASSERT_EQ(report.failures_size(), 1);
  EXPECT_TRUE(report.failures(0).has_replaced_s());
  EXPECT_EQ(report.ranks_missing(), 0u);
  const auto started = policy.all<JobStarted>();
  ASSERT_EQ(started.size(), 2u);
  EXPECT_TRUE(started[1].lost.empty());
  EXPECT_EQ(report.parameters_sha256(), calm_parameters(asked));
  expect_nothing_left();
}

TEST(Return, AJobOnHoldStartsAgainWithTheRankThatStoodStill) {
  const RunRequest asked = ranks_with("hold", 12);
  Acting policy(stop_rank_2());
  const Report report = run_in_worker(kProgram, asked, &policy);
  EXPECT_EQ(report.steps_completed(), 12u);
  EXPECT_EQ(policy.all<JobHeld>().size(), 1u);
  EXPECT_EQ(policy.all<JobStarted>().size(), 2u);
  EXPECT_EQ(report.ranks_missing(), 0u);
  EXPECT_EQ(report.parameters_sha256(), calm_parameters(asked));
  expect_nothing_left();
}

TEST(Return, AReplacedRankThatStoodStillEnds) {
  const RunRequest asked = ranks_with("replace", 80);
  Acting policy(stop_rank_2());
  const Report report = run_in_worker(kProgram, asked, &policy);
  EXPECT_EQ(report.steps_completed(), 80u);
  EXPECT_EQ(report.failures_size(), 1);
  EXPECT_EQ(report.ranks_missing(), 0u);
  EXPECT_EQ(policy.all<JobStarted>().size(), 2u);
  EXPECT_EQ(report.parameters_sha256(), calm_parameters(asked));
  expect_nothing_left();
}

/// Rank 0 falls silent, and rank 1 dies before it has committed a step alone.
TEST(Return, ASilentRankThatHoldsTheStateAloneContinuesTheRun) {
  const RunRequest asked =
      ranks_with("go-on", 6, {"job.layout.data=2", "job.pace.micro_batch=250 ms"});
  Acting policy([stopped = pid_t{0}](const Event& event) mutable {
    const auto* done = std::get_if<StepsDone>(&event);
    if (done != nullptr && done->last == 2 && stopped == 0) {
      stopped = agent_of(0);
      kill(stopped, SIGSTOP);
    }
    const auto* lost = std::get_if<RanksLost>(&event);
    if (lost == nullptr || lost->ranks != std::vector<RankId>{{0}}) return;
    kill(agent_of(1), SIGKILL);
    kill(stopped, SIGCONT);
  });
  const Report report = run_in_worker(kProgram, asked, &policy);
  EXPECT_EQ(report.steps_completed(), 6u);
  EXPECT_EQ(policy.all<RanksLost>().size(), 2u);
  const auto started = policy.all<JobStarted>();
  ASSERT_GE(started.size(), 2u);
  EXPECT_EQ(started.back().lost, std::vector<RankId>{{1}});
  EXPECT_EQ(report.ranks_missing(), 1u);
  EXPECT_EQ(report.parameters_sha256(), calm_parameters(asked));
  expect_nothing_left();
}

TEST(Return, ARankThatStoodStillReturnsUnderANewController) {
  const RunRequest asked = ranks_with("go-on", 400);
  std::jthread faults([] {
    if (!eventually([] { return agent_of(2) != 0; })) return;
    std::this_thread::sleep_for(4 * kTimeout);
    const pid_t stopped = agent_of(2);
    kill(stopped, SIGSTOP);
    std::this_thread::sleep_for(3 * kTimeout);
    for (const pid_t controller : controllers()) kill(controller, SIGKILL);
    std::this_thread::sleep_for(3 * kTimeout);
    kill(stopped, SIGCONT);
  });
  const Report report = run_in_worker(kProgram, asked);
  EXPECT_EQ(report.steps_completed(), 400u);
  EXPECT_EQ(report.controller_restarts(), 1u);
  EXPECT_EQ(report.failures_size(), 1);
  EXPECT_EQ(report.ranks_missing(), 0u);
  EXPECT_EQ(report.parameters_sha256(), calm_parameters(asked));
  expect_nothing_left();
}

TEST(Return, NoProcessIsLeftOfARankThatIsNeverHeardAgain) {
  const RunRequest asked = ranks_with("go-on", 40);
  Acting policy([stopped = false](const Event& event) mutable {
    const auto* done = std::get_if<StepsDone>(&event);
    if (done == nullptr || done->last != 3 || std::exchange(stopped, true)) return;
    kill(agent_of(2), SIGSTOP);
  });
  const Report report = run_in_worker(kProgram, asked, &policy);
  EXPECT_EQ(report.steps_completed(), 40u);
  EXPECT_EQ(report.ranks_missing(), 1u);
  EXPECT_EQ(report.parameters_sha256(), calm_parameters(asked));
  expect_nothing_left();
}

}  // namespace
}  // namespace orrery::live

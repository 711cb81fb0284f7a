// A future with the true durations and arrivals is the run itself: starts and ends of all jobs
// after the snapshot are equal, under every queue policy without a history of ended jobs.
#include "sim/forecast/forked_queue.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/random.hpp"
#include "policies/run/registry.hpp"
#include "policies/seam/recorded_job.hpp"
#include "sim/forecast/queue_forecast.hpp"
#include "sim/replay/job_replay.hpp"
#include "tests/sim/logged_job.hpp"

namespace orrery::sim {
namespace {

constexpr std::int64_t kForkAt_s = 20'000;

std::vector<TraceJob> random_log(std::uint64_t seed) {
  Rng rng(seed);
  std::vector<TraceJob> jobs;
  std::int64_t at = 0;
  for (int i = 0; i < 120; ++i) {
    at += 1 + static_cast<std::int64_t>(rng.below(700));
    TraceJob job = test::logged_job(std::to_string(i), at, 1u << rng.below(4),
                                    1 + static_cast<std::int64_t>(rng.below(9000)));
    jobs.push_back(job);
  }
  return jobs;
}

JobReplay replay_of(const std::string& policy) {
  JobReplay replay;
  replay.set_nodes(2);
  replay.set_gpus_per_node(8);
  replay.set_policy(policy);
  replay.set_placement("consolidated");
  return replay;
}

/// Starts and ends of one job; kNever: none.
struct Course {
  Nanos start = kNever, end = kNever;
};

/// Policy that simulates the true future once, from the first observation at or after kForkAt_s,
/// and records the starts and ends of the run.
class Forker : public Policy {
 public:
  Forker(Policy& inner, JobReplay replay, const std::vector<TraceJob>& log)
      : inner_(inner), replay_(std::move(replay)), log_(log) {}
  Needs needs() const override { return inner_.needs(); }
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override {
    inner_.start(context, cluster, parameters);
  }
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override {
    record(seen);
    if (forked.empty() && seen.now >= kForkAt_s * kNanosPerSecond) fork(seen);
    inner_.observe(context, seen, decisions);
  }

  std::map<std::string, Course> forked, actual;
  std::size_t waiting = 0, running = 0;

 private:
  void record(const Observation& seen) {
    for (const Event& event : seen.events) {
      if (const auto* started = std::get_if<JobStarted>(&event)) {
        Course& course = actual[seen.jobs[started->job].spec.name];
        if (!forked.empty()) course.start = std::min(course.start, seen.now);
      }
      if (const auto* done = std::get_if<JobDone>(&event)) {
        actual[seen.jobs[done->job].spec.name].end = seen.now;
      }
    }
  }
  void fork(const Observation& seen) {
    const QueueSnapshot from(seen);
    std::vector<Nanos> left;
    for (std::size_t i = 0; i < from.jobs().size(); ++i) {
      const TraceJob& job = log_[std::stoul(from.spec(i).name)];
      left.push_back(job.duration_s * kNanosPerSecond - from.jobs()[i].served);
      ++(from.jobs()[i].is_running ? running : waiting);
    }
    std::vector<LaterJob> later;
    for (std::uint32_t i = seen.jobs.submitted(); i < log_.size(); ++i) {
      const Nanos duration = log_[i].duration_s * kNanosPerSecond;
      later.push_back({recorded_job(log_[i], {}, duration), duration});
    }
    ForkedQueue queue(from, left, later, kNever - 1);
    ForkedQueue quick(from, left, later, kNever - 1, {}, FirstEvents::one);
    run_future(queue, *resumed_policy(replay_));
    run_future(quick, *resumed_policy(replay_));
    for (std::size_t i = 0; i < queue.jobs().size(); ++i) {
      const std::string name =
          i < left.size() ? from.spec(i).name : later[i - left.size()].spec.name;
      forked[name] = {queue.jobs()[i].start, queue.jobs()[i].end};
      EXPECT_EQ(quick.jobs()[i].start, queue.jobs()[i].start) << "job " << name;
      EXPECT_EQ(quick.jobs()[i].end, queue.jobs()[i].end) << "job " << name;
      EXPECT_EQ(quick.jobs()[i].waited, queue.jobs()[i].waited) << "job " << name;
    }
  }

  Policy& inner_;
  const JobReplay replay_;
  const std::vector<TraceJob>& log_;
};

class ForkedQueueUnder : public testing::TestWithParam<std::string> {};

TEST_P(ForkedQueueUnder, TheTrueDurationsGiveTheRun) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const std::vector<TraceJob> log = random_log(seed);
    const JobReplay replay = replay_of(GetParam());
    const auto policy = make_stack(replay);
    Forker forker(*policy, replay, log);
    replay_jobs(log, replay, forker);
    EXPECT_GT(forker.waiting, 0u) << "seed " << seed;
    EXPECT_GT(forker.running, 0u) << "seed " << seed;
    for (const auto& [name, course] : forker.forked) {
      EXPECT_EQ(course.end, forker.actual[name].end) << "job " << name << ", seed " << seed;
      const Nanos start = forker.actual[name].start;
      if (start != kNever && course.start != kForkAt_s * kNanosPerSecond) {
        EXPECT_LE(course.start, start) << "job " << name << ", seed " << seed;
      }
    }
    EXPECT_GT(forker.forked.size(), 30u);
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, ForkedQueueUnder,
                         testing::Values("fifo", "fifo-skip", "sjf", "easy", "conservative", "srtf",
                                         "srsf", "las", "elastic"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::erase(name, '-');
                           return name;
                         });

/// Snapshot of `jobs` jobs of one GPU that wait on two nodes.
QueueSnapshot waiting_jobs(const Cluster& cluster, std::uint32_t jobs) {
  World world(cluster);
  for (std::uint32_t i = 0; i < jobs; ++i) {
    JobSpec spec;
    spec.id = {i};
    spec.name = std::to_string(i);
    spec.gpus = 1 + i % 8;
    spec.estimate = (1 + i % 7) * 100 * kNanosPerSecond;
    world.apply(JobSubmitted{spec}, 0);
  }
  NoSamples samples;
  const Observation seen{.now = 0,
                         .sequence = 0,
                         .events = {},
                         .cluster = cluster,
                         .state = world.state(),
                         .jobs = world.jobs(),
                         .samples = samples};
  return QueueSnapshot(seen);
}

TEST(ForkedQueue, TheNextFutureHasNothingOfTheOneBefore) {
  const JobReplay replay = replay_of("srtf");
  const Cluster cluster = cluster_of(replay);
  const QueueSnapshot from = waiting_jobs(cluster, 40);
  std::vector<FutureDraw> draws(4);
  Rng rng(5);
  for (FutureDraw& draw : draws) {
    for (std::size_t i = 0; i < from.jobs().size(); ++i) {
      draw.left.push_back((1 + static_cast<Nanos>(rng.below(2000))) * kNanosPerSecond);
    }
    for (Nanos at = 100; at < 5000; at += 1 + static_cast<Nanos>(rng.below(400))) {
      JobSpec spec;
      spec.submit = at * kNanosPerSecond;
      spec.gpus = 1;
      spec.estimate = 200 * kNanosPerSecond;
      draw.later.push_back({spec, (1 + static_cast<Nanos>(rng.below(900))) * kNanosPerSecond});
    }
  }
  const FutureOptions options{.samples = 4};
  const PolicyFutures together = simulate_futures(from, draws, replay, options);
  for (std::size_t i = 0; i < draws.size(); ++i) {
    const PolicyFutures alone = simulate_futures(from, {draws[i]}, replay, options);
    for (std::size_t goal = 0; goal < kQueueGoals; ++goal) {
      EXPECT_EQ(together.goals[goal][i], alone.goals[goal][0]) << "draw " << i;
    }
  }
  EXPECT_NE(together.goals[0][0], together.goals[0][1]);
}

/// Policy that starts the first job on GPU 0, and the second one there as well.
class Stubborn : public Policy {
 public:
  void save(Archive&) const override {}
  void load(const Archive&) override {}
  void start(Context&, const Cluster&, const google::protobuf::Message*) override {}
  Needs needs() const override { return {.actions = Kinds<Action>::of<Assign>(), .settings = {}}; }
  void observe(Context&, const Observation& seen, DecisionList& decisions) override {
    for (const Event& event : seen.events) {
      const auto* decided = std::get_if<Decided>(&event);
      if (decided != nullptr) outcomes.push_back(decided->reason);
    }
    if (calls_++ > 0) return;
    decisions.add(Assign{{0}, {{0}}, {}}, "");
    decisions.add(Assign{{1}, {{0}, {1}}, {}}, "");
    decisions.wake(50 * kNanosPerSecond);
  }
  std::vector<std::string> outcomes;

 private:
  int calls_ = 0;
};

TEST(ForkedQueue, ARefusedDecisionIsShownWithItsReason) {
  const Cluster cluster = cluster_of(replay_of("fifo"));
  const QueueSnapshot from = waiting_jobs(cluster, 2);
  ForkedQueue future(from, {60 * kNanosPerSecond, 60 * kNanosPerSecond}, {}, kNever - 1);
  Stubborn policy;
  run_future(future, policy);
  EXPECT_EQ(policy.outcomes, (std::vector<std::string>{"", "GPU 0 is taken by job 0"}));
  EXPECT_EQ(future.jobs()[0].end, 60 * kNanosPerSecond);
  EXPECT_EQ(future.jobs()[1].start, kNever);
  EXPECT_EQ(future.jobs()[1].waited, 60 * kNanosPerSecond);  // nothing follows the last end
}

}  // namespace
}  // namespace orrery::sim

// A recorded queue simulated again: under its own policy no start differs, under another one the
// first difference is that by hand.
#include "sim/forecast/recorded_queue.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "core/random.hpp"
#include "policies/record/recorder.hpp"
#include "policies/run/registry.hpp"
#include "policies/seam/drive.hpp"
#include "policies/seam/recorded_job.hpp"
#include "sim/replay/job_replay.hpp"
#include "tests/sim/logged_job.hpp"

namespace orrery::sim {
namespace {

JobReplay replay_of(const std::string& policy, std::uint32_t nodes) {
  JobReplay replay;
  replay.set_nodes(nodes);
  replay.set_gpus_per_node(8);
  replay.set_policy(policy);
  replay.set_placement("consolidated");
  return replay;
}

std::vector<TraceJob> random_log(std::uint64_t seed) {
  Rng rng(seed);
  std::vector<TraceJob> jobs;
  std::int64_t at = 0;
  for (int i = 0; i < 150; ++i) {
    at += static_cast<std::int64_t>(rng.below(700));
    TraceJob job = test::logged_job(std::to_string(i), at, 1u << rng.below(5),
                                    static_cast<std::int64_t>(rng.below(9000)));
    job.user = std::to_string(rng.below(5));
    job.pool = std::to_string(rng.below(2));
    jobs.push_back(job);
  }
  return jobs;
}

std::string log_path(const std::string& name) { return testing::TempDir() + name + ".log"; }

std::vector<StartDifference> differences_under(const RecordedQueue& queue,
                                               const std::string& policy) {
  JobReplay replay = queue.replay();
  replay.set_policy(policy);
  return queue.differences(queue.simulate_under(*make_stack(replay)));
}

class RecordedQueueUnder : public testing::TestWithParam<std::string> {};

TEST_P(RecordedQueueUnder, ItsOwnPolicyNoStartDiffers) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    const std::string path = log_path(GetParam());
    const JobsReport ran = replay_jobs(random_log(seed), replay_of(GetParam(), 2), path);
    const RecordedQueue queue(path);
    EXPECT_EQ(queue.recorded().jobs.size(), ran.jobs_in());
    EXPECT_EQ(queue.recorded().unended(), 0u);
    EXPECT_EQ(queue.undecided(), 0u);
    EXPECT_NEAR(queue.recorded().mean_wait_s(), ran.queue_mean_s(), 1e-6) << "seed " << seed;
    const QueueCourse again = queue.simulate_under(*make_stack(queue.replay()));
    EXPECT_NEAR(again.mean_wait_s(), ran.queue_mean_s(), 1e-6) << "seed " << seed;
    for (const StartDifference& each : queue.differences(again)) {
      ADD_FAILURE() << "seed " << seed << ", job " << each.job << ", start " << each.start << ": "
                    << each.recorded << " and " << each.simulated;
    }
  }
}

TEST_P(RecordedQueueUnder, ItsOwnPolicyNoStartDiffersWithFailingNodes) {
  JobReplay replay = replay_of(GetParam(), 4);
  replay.mutable_conditions()->set_failures(20000);
  replay.mutable_conditions()->set_repair(1800 * kNanosPerSecond);
  replay.mutable_conditions()->set_checkpoint_every(600 * kNanosPerSecond);
  const std::string path = log_path(GetParam() + "-fails");
  const JobsReport ran = replay_jobs(random_log(9), replay, path);
  ASSERT_GT(ran.jobs_struck(), 3u);
  const RecordedQueue queue(path);
  EXPECT_TRUE(queue.differences(queue.simulate_under(*make_stack(replay))).empty());
}

INSTANTIATE_TEST_SUITE_P(Policies, RecordedQueueUnder, testing::ValuesIn(queue_policy_names()),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST(RecordedQueue, UnderAnotherPolicyTheFirstDifferenceIsThatByHand) {
  const std::string path = log_path("by-hand");
  replay_jobs({test::logged_job("first", 0, 8, 100), test::logged_job("long", 10, 8, 1000),
               test::logged_job("short", 20, 8, 10)},
              replay_of("fifo", 1), path);
  const RecordedQueue queue(path);
  EXPECT_EQ(queue.recorded().mean_wait_s(), (0 + 90 + 1080) / 3.0);
  const QueueCourse under = queue.simulate_under(*make_stack(replay_of("sjf", 1)));
  EXPECT_EQ(under.mean_wait_s(), (0 + 100 + 80) / 3.0);
  const std::vector<StartDifference> found = queue.differences(under);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].at(), 100 * kNanosPerSecond);
  EXPECT_EQ(found[0].job, 1u);
  EXPECT_EQ(found[0].recorded, 100 * kNanosPerSecond);
  EXPECT_EQ(found[0].simulated, 110 * kNanosPerSecond);
  EXPECT_EQ(found[0].nearest.what, "end of short");
  EXPECT_EQ(found[0].nearest.distance, 10 * kNanosPerSecond);
  EXPECT_EQ(found[1].recorded, 1100 * kNanosPerSecond);
  EXPECT_EQ(found[1].simulated, 100 * kNanosPerSecond);
  EXPECT_EQ(found[1].nearest.what, "submission of long");
  EXPECT_EQ(found[1].nearest.distance, 90 * kNanosPerSecond);
}

// ---- a cluster ------------------------------------------------------------------------------

/// Job of a small cluster, in seconds after its first reading.
struct ClusterJob {
  std::int64_t arrives = 0;
  std::uint32_t gpus = 8;
  std::int64_t runs = 0;  ///< time from its real start to its end
  std::int64_t cancelled = -1;
  bool runs_before = false;
};

/// Backend with readings each second, in which a job starts two seconds after its decision and
/// jobs may run already, be cancelled or not end.
class SlowCluster : public Backend, private Carrier {
 public:
  SlowCluster(std::uint32_t gpus, std::vector<ClusterJob> jobs, std::int64_t until)
      : cluster_(cluster_of([gpus] {
          JobReplay replay = replay_of("fifo", 1);
          replay.set_gpus_per_node(gpus);
          return replay;
        }())),
        world_(cluster_),
        gate_(world_, {Kinds<Action>::of<Assign>(), {}}, *this),
        jobs_(std::move(jobs)),
        until_(until) {}

  Capabilities capabilities() const override { return {Kinds<Action>::of<Assign>(), {}}; }
  const Cluster& cluster() const override { return cluster_; }
  void begin(const Needs&) override {}
  std::optional<Observation> next() override {
    while (events_.empty() || !has_read_) {
      if (++now_s_ > until_) return {};
      read();
      has_read_ = true;
    }
    has_read_ = false;
    shown_ = std::exchange(events_, {});
    return Observation{.now = now_s_ * kNanosPerSecond,
                       .sequence = calls_++,
                       .events = shown_,
                       .cluster = cluster_,
                       .state = world_.state(),
                       .jobs = world_.jobs(),
                       .samples = samples_};
  }
  void apply(const DecisionList& decisions) override {
    world_.begin_batch();
    gate_.accept_decisions(decisions, now_s_ * kNanosPerSecond);
  }

 private:
  std::string refusal(const Decision&) const override { return {}; }
  bool is_step_open(JobId) const override { return false; }
  void emit_event(Event event) override {
    world_.apply(event, now_s_ * kNanosPerSecond);
    events_.push_back(std::move(event));
  }
  void carry_out(const Decision& decision) override {
    const Assign& assign = std::get<Assign>(decision.what);
    if (!assign.is_release()) return orders_.push_back({now_s_ + 2, assign});
    std::erase_if(orders_, [&](const auto& order) { return order.second.job == assign.job; });
    if (ends_.erase(assign.job.value) > 0) FAIL() << "expected no preemption of a running job";
    emit_event(JobStopped{assign.job, 0});
  }
  void read() {
    for (std::uint32_t id = 0; id < submitted_; ++id) {
      const bool is_over = ends_.contains(id) && ends_[id] == now_s_;
      const bool is_cancelled = jobs_[id].cancelled == now_s_;
      if (is_over || is_cancelled) {
        emit_event(JobDone{{id}, is_over ? Ending::completed : Ending::cancelled});
      }
    }
    for (; submitted_ < jobs_.size() && jobs_[submitted_].arrives <= now_s_; ++submitted_) {
      submit(submitted_);
    }
    for (const auto& [at, assign] : std::exchange(orders_, {})) {
      if (at > now_s_) {
        orders_.push_back({at, assign});
      } else {
        start(assign.job.value, assign.gpus);
      }
    }
  }
  void submit(std::uint32_t id) {
    JobSpec spec;
    spec.id = {id};
    spec.name = std::to_string(id);
    spec.submit = jobs_[id].arrives * kNanosPerSecond;
    spec.gpus = jobs_[id].gpus;
    spec.layout.data = spec.gpus;
    spec.estimate = jobs_[id].runs * kNanosPerSecond;
    emit_event(JobSubmitted{spec});
    if (jobs_[id].runs_before) start(id, GpuRuns::range({0}, jobs_[id].gpus));
  }
  void start(std::uint32_t id, const GpuRuns& gpus) {
    if (jobs_[id].runs > 0) ends_[id] = now_s_ + jobs_[id].runs;
    const JobInfo& job = world_.jobs()[{id}];
    emit_event(JobStarted{
        .job = {id}, .epoch = {job.epoch.value + 1}, .from = 0, .where = {gpus, job.spec.layout}});
  }

  const Cluster cluster_;
  World world_;
  DecisionGate gate_;
  NoSamples samples_;
  const std::vector<ClusterJob> jobs_;
  const std::int64_t until_;
  std::int64_t now_s_ = 0;
  bool has_read_ = false;
  std::uint64_t calls_ = 0;
  std::uint32_t submitted_ = 0;
  std::map<std::uint32_t, std::int64_t> ends_;
  std::vector<std::pair<std::int64_t, Assign>> orders_;
  std::vector<Event> events_, shown_;
};

/// Records the cluster under a policy and returns the path of the log.
std::string record(const std::string& name, std::vector<ClusterJob> jobs, std::int64_t until,
                   const std::string& policy_name = "fifo") {
  const std::string path = log_path(name);
  SlowCluster cluster(8, std::move(jobs), until);
  const JobReplay replay = replay_of(policy_name, 1);
  const auto policy = make_stack(replay);
  LogHeader header;
  header.set_mode("jobs");
  *header.mutable_replay() = replay;
  Recorder recorder(cluster, *policy, header, {.path = path});
  Rng rng = policy_rng(0);
  Context context{rng, {}};
  drive(*policy, recorder, context);
  recorder.finish_log();
  return path;
}

TEST(RecordedQueue, TheDelayOfAStartBelongsToTheJob) {
  const RecordedQueue queue(record("cluster",
                                   {{.arrives = 1, .runs = 40, .runs_before = true},
                                    {.arrives = 3, .gpus = 4, .runs = 20},
                                    {.arrives = 5, .runs = 30},
                                    {.arrives = 6, .cancelled = 50},
                                    {.arrives = 7, .runs = 10},
                                    {.arrives = 8, .runs = 0}},
                                   300));
  EXPECT_EQ(queue.undecided(), 1u);
  EXPECT_EQ(queue.recorded().unended(), 1u);
  const std::vector<JobInQueue>& jobs = queue.recorded().jobs;
  ASSERT_EQ(jobs.size(), 6u);
  EXPECT_EQ(jobs[1].starts, std::vector<Nanos>{41 * kNanosPerSecond});
  EXPECT_EQ(jobs[1].served, 22 * kNanosPerSecond);
  EXPECT_TRUE(jobs[3].starts.empty());
  EXPECT_TRUE(differences_under(queue, "fifo").empty());
}

TEST(JobInQueue, TheTimeWithGpusIsThatBetweenRoundedInstants) {
  const JobInQueue job{.spec = {}, .starts = {4, 24, 50}, .stops = {16, 36, 54}, .served = 28};
  EXPECT_EQ(job.served_in(10), 20 + 20 + 0);
  EXPECT_EQ(job.served_in(1), job.served);
}

// Job 0 is ordered at 1 s and would start at 3 s; at 2 s job 1 gets its GPUs.
TEST(RecordedQueue, AnOrderThatThePolicyWithdrawsHasItsGpusUntilThen) {
  const RecordedQueue queue(
      record("withdrawn", {{.arrives = 1, .runs = 50}, {.arrives = 2, .runs = 10}}, 100, "srtf"));
  const std::vector<JobInQueue>& jobs = queue.recorded().jobs;
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(jobs[1].starts, std::vector<Nanos>{2 * kNanosPerSecond});
  EXPECT_EQ(jobs[0].starts, (std::vector<Nanos>{1 * kNanosPerSecond, 14 * kNanosPerSecond}));
  EXPECT_EQ(jobs[0].served, (1 + 52) * kNanosPerSecond);
  EXPECT_EQ(jobs[0].stops, (std::vector<Nanos>{2 * kNanosPerSecond, 66 * kNanosPerSecond}));
  EXPECT_EQ(jobs[0].end, 66 * kNanosPerSecond);
  EXPECT_TRUE(differences_under(queue, "srtf").empty());
}

TEST(RecordedQueue, AJobThatHasNotEndedKeepsItsGpus) {
  const RecordedQueue queue(record(
      "unended", {{.arrives = 1, .gpus = 8, .runs = 0}, {.arrives = 2, .gpus = 8, .runs = 5}}, 60));
  EXPECT_EQ(queue.recorded().unended(), 2u);
  EXPECT_EQ(queue.recorded().mean_wait_s(), (0 + queue.recorded().end / 1e9 - 2) / 2);
  EXPECT_TRUE(differences_under(queue, "srtf").empty());
}

TEST(RecordedQueue, ALogWithElasticJobsHasNoFutures) {
  const std::string path = log_path("elastic");
  std::vector<TraceJob> jobs{test::logged_job("a", 0, 4, 100), test::logged_job("b", 5, 4, 100)};
  jobs[1].sizes = "2 8";
  replay_jobs(jobs, replay_of("elastic", 1), path);
  try {
    const RecordedQueue queue(path);
    queue.simulate_under(*make_stack(replay_of("fifo", 1)));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_EQ(error.message().substr(0, 79),
              "futures of a queue: expected jobs of one size, found job 'b' of 2 to 8 GPUs; ta");
  }
}

}  // namespace
}  // namespace orrery::sim

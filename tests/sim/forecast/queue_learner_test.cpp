#include "sim/forecast/queue_learner.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "policies/run/registry.hpp"
#include "policies/seam/world.hpp"
#include "traces/scenario.pb.h"

namespace orrery::sim {
namespace {

/// World of one node of eight GPUs whose events a learner reads.
class Learning {
 public:
  /// Shows one job that seems to run from `begin_s` to `end_s`; `ran_s`: as in JobDone.
  void show_job(Nanos begin_s, Nanos end_s, Nanos ran_s) {
    const JobId id{world_.jobs().submitted()};
    JobSpec spec = job_of_user();
    spec.id = id;
    spec.submit = begin_s * kNanosPerSecond;
    show(begin_s, JobSubmitted{spec});
    show(begin_s, JobStarted{id, {1}, 0, {GpuRuns({{0}}), spec.layout}});
    show(end_s, JobDone{id, Ending::completed, ran_s * kNanosPerSecond});
  }
  double median_s() const { return learner.duration_of(job_of_user(), 0).quantile(0.5); }

  QueueLearner learner{columns_of_spec};

 private:
  static JobSpec job_of_user() {
    JobSpec spec;
    spec.user = "u";
    spec.gpus = 1;
    spec.layout = {.data = 1};
    return spec;
  }
  void show(Nanos at_s, Event event) {
    world_.begin_batch();
    world_.apply(event, at_s * kNanosPerSecond);
    const std::vector<Event> events{std::move(event)};
    learner.learn_from({.now = at_s * kNanosPerSecond,
                        .sequence = 0,
                        .events = events,
                        .cluster = cluster_,
                        .state = world_.state(),
                        .jobs = world_.jobs(),
                        .samples = samples_});
  }

  const Cluster cluster_ = [] {
    JobReplay replay;
    replay.set_nodes(1);
    replay.set_gpus_per_node(8);
    return cluster_of(replay);
  }();
  World world_{cluster_};
  NoSamples samples_;
};

TEST(QueueLearner, ADurationIsTheTimeThatTheSchedulerRecorded) {
  Learning read, recorded;
  for (Nanos i = 0; i < 20; ++i) {
    read.show_job(1000 * i, 1000 * i + 90, 0);
    recorded.show_job(1000 * i, 1000 * i + 90, 60);
  }
  EXPECT_EQ(read.median_s(), 90);
  EXPECT_EQ(recorded.median_s(), 60);
  EXPECT_EQ(recorded.learner.accuracy(0, kNever).jobs, 20u);
  EXPECT_NEAR(recorded.learner.accuracy(10'000'000'000'000, kNever).model_median, 1, 1e-9);
}

}  // namespace
}  // namespace orrery::sim

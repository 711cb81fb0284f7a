// A simulated job with the eight methods of JobModel and no further interface.
#include "sim/world/job_model.hpp"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "policies/run/registry.hpp"
#include "policies/seam/decision.hpp"
#include "sim/world/sim_backend.hpp"

namespace orrery::sim {
namespace {

/// A job that takes GPU 0 from 1 s to 3 s.
class Nap : public JobModel {
 public:
  explicit Nap(Happen happen) : happen_(std::move(happen)) {}
  void begin(Nanos, const Watch&) override {}
  Nanos next_event_time() const override {
    return over_ ? kNever : (begun_ ? 3 : 1) * kNanosPerSecond;
  }
  void advance_to(Nanos, const Watch&) override {
    if (begun_) {
      over_ = true;
      return happen_(JobDone{{0}});
    }
    begun_ = true;
    JobSpec spec;
    spec.gpus = 1;
    happen_(JobSubmitted{spec});
    happen_(JobStarted{{0}, {1}, 0, {GpuRuns::range({0}, 1), spec.layout}});
  }
  bool is_over() const override { return over_; }
  std::string refusal(const Decision&) const override { return "it sleeps"; }
  void carry_out(const Decision&, Nanos) override {}
  void fill(Report& report, Nanos now) override { report.set_elapsed_s(to_seconds(now)); }
  void add_outcomes(Report& report) const override { report.add_jobs()->set_name("nap"); }

 private:
  const Happen happen_;
  bool begun_ = false, over_ = false;
};

TEST(JobModel, EightMethodsAreAJob) {
  JobReplay machines;
  machines.set_nodes(1);
  machines.set_gpus_per_node(8);
  const Cluster cluster = cluster_of(machines);
  SimBackend backend(cluster, {});
  JobModel::Happen happen = backend.teller();
  backend.add(std::make_unique<Nap>(std::move(happen)));
  bool branched = false;
  backend.branch_at(2 * kNanosPerSecond, [&] {
    branched = true;
    return BranchingRun::Continuation{.seed = 7, .ask = true};
  });
  backend.begin({});
  std::vector<Nanos> seen;
  while (const auto now = backend.next()) {
    seen.push_back(now->now);
    EXPECT_TRUE(now->samples.ranks({0}).empty()) << "it has no telemetry";
    backend.apply(DecisionList{});
  }
  EXPECT_EQ(seen, (std::vector<Nanos>{kNanosPerSecond, 2 * kNanosPerSecond,
                                      3 * kNanosPerSecond}));
  EXPECT_TRUE(branched) << "a model without randomness may fork";
  Report report;
  backend.fill(report);
  EXPECT_EQ(report.elapsed_s(), 3);
}

}  // namespace
}  // namespace orrery::sim

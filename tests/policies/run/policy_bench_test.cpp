#include "policies/run/policy_bench.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"

namespace orrery {
namespace {

/// Assigns the remaining GPUs after a loss, and writes what it saw.
class Shrinks : public Policy {
 public:
  Needs needs() const override { return {.actions = Kinds<Action>::of<Assign>(), .settings = {}}; }
  void start(Context&, const Cluster&, const google::protobuf::Message*) override { ++starts; }
  void observe(Context&, const Observation& seen, DecisionList& decisions) override {
    now = seen.now;
    events += seen.events.size();
    for (const Event& event : seen.events) {
      const auto* lost = std::get_if<RanksLost>(&event);
      if (lost == nullptr) continue;
      const Standing where = without_lost(seen.jobs[lost->job]);
      decisions.add(Assign{lost->job, where.gpus, where.layout, StateFrom::peer}, "shrink");
    }
  }
  int starts = 0;
  std::size_t events = 0;
  Nanos now = 0;
};

TEST(PolicyBench, APolicySeesJobsLossesAndTime) {
  PolicyBench bench(2, 4);
  Shrinks policy;
  const JobId first = bench.start_job(4), second = bench.start_job(3);
  EXPECT_TRUE(bench.observe(policy, {}).empty());
  EXPECT_EQ(policy.events, 4u);  // two submissions and two starts
  bench.advance_clock(1.5);
  const auto decisions = bench.observe(policy, {bench.loss_of(first, {{2}})});
  ASSERT_EQ(decisions.size(), 1u);
  EXPECT_EQ(std::get<Assign>(decisions[0].what).gpus, (GpuRuns{{0}, {1}, {3}}));
  EXPECT_EQ(bench.world().objection(decisions[0]), "");
  EXPECT_EQ(policy.now, to_nanos(1.5));
  EXPECT_EQ(policy.starts, 1);
  EXPECT_EQ(bench.world().jobs()[second].gpus, GpuRuns::range({4}, 3));
  EXPECT_EQ(bench.observe(policy, {bench.loss_of(second, {{0}})})[0].id, 1u);
}

TEST(PolicyBench, TooManyGpusAreRefused) {
  PolicyBench bench(1, 4);
  bench.start_job(3);
  EXPECT_THROW(bench.start_job(2), Error);
}

}  // namespace
}  // namespace orrery

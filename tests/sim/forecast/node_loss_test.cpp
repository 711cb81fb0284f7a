// Cost of losing a node: clusters whose costs are known by hand.
#include "sim/forecast/node_loss.hpp"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "policies/run/registry.hpp"
#include "sim/replay/job_replay.hpp"
#include "tests/sim/logged_job.hpp"

namespace orrery::sim {
namespace {

constexpr std::int64_t kForkAt_s = 1200, kAway_s = 3600;

/// Policy that calls a function once, at the first observation at or after kForkAt_s.
class Forking : public Policy {
 public:
  Forking(Policy& inner, std::function<void(const Observation&)> at_fork)
      : inner_(inner), at_fork_(std::move(at_fork)) {}
  Needs needs() const override { return inner_.needs(); }
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override {
    inner_.start(context, cluster, parameters);
  }
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override {
    if (seen.now >= kForkAt_s * kNanosPerSecond && at_fork_) std::exchange(at_fork_, {})(seen);
    inner_.observe(context, seen, decisions);
    if (at_fork_) decisions.wake(kForkAt_s * kNanosPerSecond);
  }

 private:
  Policy& inner_;
  std::function<void(const Observation&)> at_fork_;
};

/// Returns the cost of losing one of two nodes of 8 GPUs after kForkAt_s of the log under fifo, as
/// forecast from this number of futures with the true durations and without arrivals.
NodeLoss cost_of(const std::vector<TraceJob>& log, std::size_t futures) {
  JobReplay replay;
  replay.set_nodes(2);
  replay.set_gpus_per_node(8);
  replay.set_policy("fifo");
  replay.set_placement("count");
  const auto policy = make_stack(replay);
  NodeLoss cost;
  Forking forking(*policy, [&](const Observation& seen) {
    const QueueSnapshot from(seen);
    FutureDraw draw;
    for (std::size_t i = 0; i < from.jobs().size(); ++i) {
      const TraceJob& job = log[std::stoul(from.spec(i).name)];
      draw.left.push_back(job.duration_s * kNanosPerSecond - from.jobs()[i].served);
    }
    const std::vector<FutureDraw> draws(futures, draw);
    const FutureOptions options;
    const PolicyFutures calm = simulate_futures(from, draws, replay, options);
    cost = forecast_node_loss(from, draws, calm, replay, options, kAway_s * kNanosPerSecond);
    EXPECT_EQ(nodes_to_lose(from.world(), 4), (std::vector<NodeId>{{0}, {1}}));
    EXPECT_EQ(nodes_to_lose(from.without_node({0}).world(), 4), std::vector<NodeId>{{1}});
  });
  replay_jobs(log, replay, forking);
  return cost;
}

void expect_certain(const CostForecast& cost, double value) {
  for (const double each :
       {cost.mean, cost.median, cost.low80, cost.high80, cost.low95, cost.high95}) {
    EXPECT_DOUBLE_EQ(each, value);
  }
}

/// Jobs 0 and 1 have a node each and 2,400 s left, job 2 waits. After a loss the job of the lost
/// node begins anew on the other one after 2,400 s, and job 2 waits 3,600 s for the lost node.
TEST(NodeLoss, OfABusyNodeIsTheWaitAndTheWorkOfItsJob) {
  const std::vector<TraceJob> log{test::logged_job("0", 0, 8, 3600),
                                  test::logged_job("1", 0, 8, 3600),
                                  test::logged_job("2", 100, 8, 3600)};
  const NodeLoss cost = cost_of(log, 24);
  EXPECT_EQ(cost.samples, kLossFutures);
  expect_certain(cost.wait_s, (2400.0 + 3600) / 3 - 2400.0 / 3);
  expect_certain(cost.jct_s, (6000.0 + 2400 + 7200) / 3 - (2400.0 + 2400 + 6000) / 3);
  expect_certain(cost.lost_gpu_s, 8 * 1200);
}

/// The job of node 0 begins anew on the spare node at once; the loss of the spare costs nothing.
TEST(NodeLoss, OfAnIdleSpareCostsNothing) {
  const NodeLoss cost = cost_of({test::logged_job("0", 0, 8, 3600)}, 2);
  EXPECT_EQ(cost.samples, 2u);
  expect_certain(cost.wait_s, 0);
  EXPECT_DOUBLE_EQ(cost.jct_s.low95, 0);
  EXPECT_DOUBLE_EQ(cost.jct_s.mean, 600);
  EXPECT_DOUBLE_EQ(cost.jct_s.high95, 1200);
  EXPECT_DOUBLE_EQ(cost.lost_gpu_s.low95, 0);
  EXPECT_DOUBLE_EQ(cost.lost_gpu_s.high95, 9600);
}

TEST(NodeLoss, HasTheQuantilesOfItsSamples) {
  const CostForecast cost = forecast_cost({30, 10, 20});
  EXPECT_DOUBLE_EQ(cost.mean, 20);
  EXPECT_DOUBLE_EQ(cost.median, 20);
  EXPECT_DOUBLE_EQ(cost.low80, 4);
  EXPECT_DOUBLE_EQ(cost.high80, 36);
  EXPECT_DOUBLE_EQ(cost.low95, 1);
  EXPECT_DOUBLE_EQ(cost.high95, 39);
  EXPECT_DOUBLE_EQ(forecast_cost({0, 1, 10}).low95, 0);  // no sample is below 0
  EXPECT_LT(forecast_cost({-1, 1, 10}).low95, -1);
  EXPECT_DOUBLE_EQ(forecast_cost({}).high95, 0);
}

}  // namespace
}  // namespace orrery::sim

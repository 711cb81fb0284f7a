#include "sim/estimates/step/iteration.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "sim/engine/simgrid_engine.hpp"
#include "tests/sim/run.hpp"
#include "topologies/builder.hpp"

namespace orrery::estimates {
namespace {

/// Everything needed to run an iteration by hand.
struct Bench {
  explicit Bench(const LoadedScenario& loaded)
      : cluster(build_cluster(loaded.scenario.cluster(), loaded.places)),
        graph(loaded.scenario.job()) {
    for (std::uint32_t i = 0; i < graph.ranks(); ++i) placement.push_back({i});
    shares.assign(graph.data(), graph.micro_batches() / graph.data());
    const BlockGroups groups = block_groups(graph, cluster, placement);
    for (const Block& block : graph.blocks()) {
      prices.push_back(price(block, cluster.gpu_model(), Precision::bf16, groups, profile));
    }
  }
  Plan plan(const HardwareState& state = {}) {
    return make_plan({.cluster = cluster, .graph = graph, .profile = profile,
                      .placement = placement, .state = state, .micro_batches = shares});
  }

  const CostProfile profile = cost_profile("H100");
  Cluster cluster;
  StepGraph graph;
  std::vector<GpuId> placement;
  std::vector<std::uint32_t> shares;
  std::vector<BlockPrice> prices;
};

/// The oracle: 2 (n - 1) rounds, in each of which every member passes a chunk on once it has the
/// one before; one flow and one latency a message.
class RingByMessages {
 public:
  RingByMessages(Engine& engine, const Bench& bench, std::vector<GpuId> ring, double bytes)
      : engine_(engine), bench_(bench), ring_(std::move(ring)),
        chunk_(bytes / static_cast<double>(ring_.size())),
        rounds_(2 * (ring_.size() - 1)), left_(rounds_ * ring_.size()),
        sent_(ring_.size()), received_(ring_.size(), 1), busy_(ring_.size()) {}

  void start() {
    for (std::size_t i = 0; i < ring_.size(); ++i) send(i);
  }
  double ended = 0;

 private:
  void send(std::size_t i) {
    if (busy_[i] || sent_[i] == rounds_ || sent_[i] >= received_[i]) return;
    busy_[i] = true;
    ++sent_[i];
    const std::size_t to = (i + 1) % ring_.size();
    std::vector<LinkId> route;
    bench_.cluster.route(ring_[i], ring_[to], route);
    std::vector<std::uint32_t> links;
    for (const LinkId link : route) links.push_back(link.value);
    const double latency = bench_.cluster.latency(ring_[i], ring_[to]).value;
    engine_.flow(links, chunk_, [this, i, to, latency](bool) {
      busy_[i] = false;
      engine_.after(latency, [this, to] {
        ++received_[to];
        if (--left_ == 0) ended = engine_.now();
        send(to);
      });
      send(i);
    });
  }

  Engine& engine_;
  const Bench& bench_;
  std::vector<GpuId> ring_;
  double chunk_;
  std::size_t rounds_, left_;
  std::vector<std::size_t> sent_, received_;
  std::vector<bool> busy_;
};

/// Rails of 8 nodes in two units: a ring that crosses the spine twice.
std::vector<double> by_messages_and_fluid(double bytes, double background) {
  return testing::numbers_in_child([=] {
    Bench bench(testing::small_scenario(8, 1, 8));
    const Plan plan = bench.plan();
    const CommPhase& phase = plan.comms[plan.groups[0].ways[0].plan].phases[0];
    sim::SimGridEngine engine(1, bench.cluster.links() +
                                     static_cast<std::uint32_t>(plan.slots.size()));
    std::vector<GpuId> ring;
    for (std::uint32_t node = 0; node < 8; ++node) ring.push_back({node * 8});
    RingByMessages oracle(engine, bench, ring, bytes);
    // A flow that shares node 0's NIC for part of the time.
    const std::uint32_t shared = bench.cluster.nic_out({0}, 0).value;
    engine.after(0, [&] {
      for (std::uint32_t link = 0; link < bench.cluster.links(); ++link) {
        engine.set_bandwidth(link, link_rate(bench.cluster, bench.profile, {link}));
      }
      oracle.start();
      if (background > 0) {
        engine.flow(std::vector<std::uint32_t>{shared}, background, [](bool) {});
      }
    });
    engine.run();

    double began = 0, fluid = 0;
    engine.after(0, [&] {
      began = engine.now();
      const std::uint32_t base = bench.cluster.links();
      std::vector<std::uint32_t> links;
      for (const std::uint32_t slot : phase.parts[0].links) links.push_back(base + slot);
      for (std::uint32_t slot = 0; slot < plan.slots.size(); ++slot) {
        engine.set_bandwidth(base + slot, plan.slots[slot].bandwidth);
      }
      engine.flow(links, bytes * phase.parts[0].share, [&](bool) {
        engine.after(phase.latency.value, [&] { fluid = engine.now() - began; });
      });
      if (background > 0) {
        engine.flow(std::vector<std::uint32_t>{links.front()}, background, [](bool) {});
      }
    });
    engine.run();
    return std::vector<double>{oracle.ended, fluid};
  });
}

TEST(Iteration, FluidRingIsTheRingOfMessages) {
  const auto t = by_messages_and_fluid(1e9, 0);
  EXPECT_NEAR(t.at(1), t.at(0), 0.01 * t.at(0));
  EXPECT_GT(t.at(0), 1e9 * 1.75 / 50e9);
}

TEST(Iteration, FluidRingUnderContentionIsWithinOnePercent) {
  const double alone = by_messages_and_fluid(1e9, 0).at(0);
  const auto t = by_messages_and_fluid(1e9, 5e8);
  EXPECT_GT(t.at(0), 1.1 * alone);
  EXPECT_NEAR(t.at(1), t.at(0), 0.01 * t.at(0));
}

TEST(Iteration, RingAllReduceIsItsFormula) {
  const auto t = testing::numbers_in_child([] {
    Bench work(testing::small_scenario(8, 1, 4, {}, {"job.overlap=false"}));
    const Plan plan = work.plan();
    sim::SimGridEngine engine(hosts_needed(work.graph), 64);
    const HardwareState state;
    const IterationRun run = run_iteration({.engine = engine, .graph = work.graph, .plan = plan,
                                            .prices = work.prices, .state = state});
    double expected = run.stage_passes_end[0] + run.workers[0].tail;
    for (const Op& op : work.graph.program(0, 8).ops) {
      if (op.kind != OpKind::collective) continue;
      const RingCost cost = ring_all_reduce(4);
      expected += cost.rounds * work.cluster.latency({0}, {8}).value +
                  op.bytes.value * cost.share / (50e9 * work.profile.network);
    }
    return std::vector<double>{run.duration, expected};
  });
  EXPECT_NEAR(t.at(0), t.at(1), 1e-9 * t.at(1));
}

TEST(Iteration, PipelineWithoutCommunicationCostIsItsFormula) {
  const auto t = testing::numbers_in_child([] {
    Bench bench(testing::small_scenario(1, 4, 2, {}, {"job.overlap=false"}));
    for (BlockPrice& price : bench.prices) price = {{0.003}, {0}, {0}};
    Plan plan = bench.plan();
    for (CommPlan& comm : plan.comms) comm = {};
    sim::SimGridEngine engine(hosts_needed(bench.graph), 64);
    const HardwareState state;
    const IterationRun run = run_iteration({.engine = engine, .graph = bench.graph, .plan = plan,
                                            .prices = bench.prices, .state = state});
    return std::vector<double>{run.stage_passes_end[0], double(run.workers[0].micro_batches)};
  });
  // m micro-batches through p stages: m + p - 1 times forward and backward.
  EXPECT_NEAR(t.at(0), (8 + 3) * 2 * 0.003, 1e-9);
  EXPECT_EQ(t.at(1), 8);
}

TEST(Iteration, RankThatSlowsMidwayIsExact) {
  const auto t = testing::numbers_in_child([] {
    Bench bench(testing::small_scenario(1, 1, 8));
    sim::SimGridEngine engine(hosts_needed(bench.graph), 64);
    const HardwareState state;
    const Plan plan = bench.plan();
    const IterationRun calm = run_iteration({.engine = engine, .graph = bench.graph, .plan = plan,
                                             .prices = bench.prices, .state = state});
    const Plan split = make_plan({.cluster = bench.cluster, .graph = bench.graph,
                                  .profile = bench.profile, .placement = bench.placement,
                                  .state = state, .micro_batches = bench.shares,
                                  .full_detail = false, .apart = {{3}}});
    const double half = calm.stage_passes_end[0] / 2;
    TimedChange change;
    change.at = half;
    change.slow = {{RankId{3}, 3.0}};
    const IterationRun hit = run_iteration({.engine = engine, .graph = bench.graph, .plan = split,
                                            .prices = bench.prices, .state = state,
                                            .changes = {change}});
    const std::uint32_t worker = split.class_of[3];
    return std::vector<double>{hit.workers[worker].passes_end, half + 3 * half,
                               hit.workers[split.class_of[0]].passes_end, 2 * half};
  });
  EXPECT_NEAR(t.at(0), t.at(1), 1e-8);
  EXPECT_NEAR(t.at(2), t.at(3), 1e-8);
}

/// Slowdown factors of the two GPUs of a replica, which become others during the first block.
struct PairChange {
  std::array<double, 2> before{};
  double at_ms = 0;
  std::array<double, 2> after{};
};

/// Returns the milliseconds until the replica has ended its first block, if the blocks after it
/// take as long as the slower GPU of `after` needs. A block needs 3 ms of work, communication none.
double first_block_ms(const PairChange& pair, bool full_detail) {
  const auto t = testing::numbers_in_child([&] {
    Bench bench(testing::small_scenario(2, 1, 4, {}, {"job.overlap=false"}));
    for (BlockPrice& price : bench.prices) price = {{0.003}, {0}, {0}};
    HardwareState state;
    TimedChange change;
    change.at = pair.at_ms / 1e3;
    for (std::uint32_t i = 0; i < 2; ++i) {
      state.slow[6 + i] = pair.before[i];
      if (pair.before[i] != pair.after[i]) change.slow.emplace_back(RankId{6 + i}, pair.after[i]);
    }
    Plan plan = make_plan({.cluster = bench.cluster, .graph = bench.graph,
                           .profile = bench.profile, .placement = bench.placement,
                           .state = state, .micro_batches = bench.shares,
                           .full_detail = full_detail, .apart = {{6}}});
    for (CommPlan& comm : plan.comms) comm = {};
    sim::SimGridEngine engine(hosts_needed(bench.graph), 64);
    const IterationRun run = run_iteration({.engine = engine, .graph = bench.graph, .plan = plan,
                                            .prices = bench.prices, .state = state,
                                            .changes = {std::move(change)}});
    const double later = 2.0 * bench.shares[3] - 1;  // forward and backward blocks but the first
    const double each = 0.003 * std::max(pair.after[0], pair.after[1]);
    return std::vector<double>{run.workers[plan.class_of[3]].passes_end - later * each};
  });
  return 1e3 * t.at(0);
}

TEST(Iteration, EachGpuOfAPairEndsItsOwnPartOfABlockThroughAChange) {
  const std::pair<PairChange, double> cases[] = {
      {{{3, 2}, 3, {1, 2}}, 6},    // the second GPU ends last, at factor 2 from the beginning
      {{{3, 1}, 4.5, {1, 3}}, 6},  // the second GPU has ended before it becomes slow
      {{{1, 2}, 1.5, {4, 2}}, 7.5},
      {{{2, 1}, 3, {4, 1}}, 9}};
  for (const auto& [pair, expected] : cases) {
    EXPECT_NEAR(first_block_ms(pair, false), expected, 1e-5);
    EXPECT_NEAR(first_block_ms(pair, true), expected, 1e-5);
  }
}

}  // namespace
}  // namespace orrery::estimates

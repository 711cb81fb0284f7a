// Properties of every simulated step, for any job, layout, stragglers and slow NICs: small random
// cases, through plan, engine and iteration.
#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "sim/engine/simgrid_engine.hpp"
#include "sim/estimates/step/iteration.hpp"
#include "tests/sim/run.hpp"
#include "topologies/builder.hpp"

namespace orrery::sim {
namespace {

/// Rounding of the engine's clock and byte counts.
constexpr double kRounding = 1e-6;
constexpr std::uint32_t kHosts = 64, kLinks = 2048;

/// The process's one SimGrid engine, lent to one step after another.
class LentEngine : public estimates::Engine {
 public:
  double now() const override { return one().now(); }
  std::uint32_t hosts() const override { return kHosts; }
  std::uint32_t links() const override { return kLinks; }
  void start_timer(double delay, std::function<void()> what,
                   const estimates::MemoryHint& hint) override {
    one().start_timer(delay, std::move(what), hint);
  }
  Handle start_computation(std::uint32_t host, double work, Done done) override {
    return one().start_computation(host, work, std::move(done));
  }
  Handle flow(std::span<const std::uint32_t> links, double bytes, Done done) override {
    return one().flow(links, bytes, std::move(done));
  }
  void set_speed(std::uint32_t host, double speed) override { one().set_speed(host, speed); }
  void set_bandwidth(std::uint32_t link, double rate) override { one().set_bandwidth(link, rate); }
  void set_link_up(std::uint32_t link, bool up) override { one().set_link_up(link, up); }
  void run() override { one().run(); }
  void cancel_all() override { one().cancel_all(); }
  std::uint64_t events() const override { return one().events(); }

 private:
  static SimGridEngine& one() {
    static SimGridEngine engine(kHosts, kLinks);
    return engine;
  }
};

/// Small job and its slow parts.
struct Case {
  int tensor = *rc::gen::element(1, 2, 4);
  int pipeline = *rc::gen::element(1, 2);
  int data = *rc::gen::element(1, 2, 4);
  CollectiveAlgorithm algorithm = *rc::gen::element(
      CollectiveAlgorithm::ring, CollectiveAlgorithm::tree, CollectiveAlgorithm::hierarchical,
      CollectiveAlgorithm::halving_doubling, CollectiveAlgorithm::direct);
  estimates::HardwareState state = {};
  std::vector<std::uint32_t> nodes = {};  ///< nodes of the job; empty: in order

  std::uint32_t ranks() const { return static_cast<std::uint32_t>(tensor * pipeline * data); }
  std::uint32_t stragglers() {
    const auto count = *rc::gen::inRange(0u, 3u);
    for (std::uint32_t i = 0; i < count; ++i) {
      state.slow[*rc::gen::inRange(0u, ranks())] = 1 + 0.25 * *rc::gen::inRange(1, 9);
    }
    return count;
  }
  LoadedScenario load() const {
    const std::vector<std::string> changes = {"job.global_batch=" + std::to_string(3 * data)};
    return testing::small_scenario(tensor, pipeline, data, {}, changes);
  }
};

/// Returns the duration. `faster`: divides the times of blocks; links keep the scenario's rates.
double duration(const Case& of, const LoadedScenario& loaded, double faster = 1) {
  const Cluster cluster = build_cluster(loaded.scenario.cluster(), loaded.places);
  StepGraph graph(loaded.scenario.job());
  std::vector<GpuId> placement;
  for (std::uint32_t rank = 0; rank < graph.ranks(); ++rank) {
    const std::uint32_t node = of.nodes.empty() ? rank / 8 : of.nodes[rank / 8];
    placement.push_back({8 * node + rank % 8});
  }
  const estimates::CostProfile profile = estimates::cost_profile("H100");
  estimates::BlockGroups groups = estimates::block_groups(graph, cluster, placement);
  groups.tensor = {};  // collectives inside blocks have starts of their own
  std::vector<estimates::BlockPrice> prices;
  for (const Block& block : graph.blocks()) {
    estimates::BlockPrice paid =
        estimates::price(block, cluster.gpu_model(), Precision::bf16, groups, profile);
    paid.compute = paid.compute / faster;
    paid.tensor = paid.tensor / faster;
    prices.push_back(paid);
  }
  const std::vector<std::uint32_t> shares(graph.data(), graph.micro_batches() / graph.data());
  const estimates::Plan plan = estimates::make_plan({.cluster = cluster,
                                                     .graph = graph,
                                                     .profile = profile,
                                                     .placement = placement,
                                                     .state = of.state,
                                                     .micro_batches = shares,
                                                     .algorithm = of.algorithm});
  LentEngine engine;
  return estimates::run_iteration(
             {.engine = engine, .graph = graph, .plan = plan, .prices = prices, .state = of.state})
      .duration;
}

RC_GTEST_PROP(SimulatedStep, MoreBandwidthIsNeverSlower, ()) {
  Case some;
  some.stragglers();
  LoadedScenario loaded = some.load();
  NodeSpec& node = *loaded.scenario.mutable_cluster()->mutable_node();
  FabricSpec& fabric = *loaded.scenario.mutable_cluster()->mutable_fabric();
  node.set_nic_bandwidth(1e9 * *rc::gen::inRange(1, 50));
  fabric.set_spine_link_bandwidth(1e9 * *rc::gen::inRange(1, 50));
  const double before = duration(some, loaded);
  const double more = 1 + 0.5 * *rc::gen::inRange(1, 7);
  node.set_nic_bandwidth(node.nic_bandwidth() * more);
  fabric.set_spine_link_bandwidth(fabric.spine_link_bandwidth() * more);
  RC_ASSERT(duration(some, loaded) <= before * (1 + kRounding));
}

// Nodes of one unit are equal: on which of them which part of the job stands changes nothing, nor
// which of equal replicas has the stragglers. (In a tree ranks are not equal: roots send less.)
RC_GTEST_PROP(SimulatedStep, PermutingEqualRanksChangesNothing, ()) {
  Case some;
  if (some.algorithm == CollectiveAlgorithm::tree) some.algorithm = CollectiveAlgorithm::ring;
  some.stragglers();
  LoadedScenario loaded = some.load();
  Topology& cluster = *loaded.scenario.mutable_cluster();
  cluster.set_nodes(4);
  const double before = duration(some, loaded);
  Case other = some;
  other.nodes = *rc::gen::map(rc::gen::container<std::vector<int>>(4, rc::gen::inRange(0, 1000)),
                              [](const std::vector<int>& keys) {
                                std::vector<std::uint32_t> order = {0, 1, 2, 3};
                                std::sort(order.begin(), order.end(), [&](auto a, auto b) {
                                  return std::pair(keys[a], a) < std::pair(keys[b], b);
                                });
                                return order;
                              });
  const StepGraph graph(loaded.scenario.job());
  const std::uint32_t shift = *rc::gen::inRange(0u, graph.data());
  other.state.slow.clear();
  for (const auto& [rank, slow] : some.state.slow) {
    StepGraph::Position at = graph.position({rank});
    at.replica = (at.replica + shift) % graph.data();
    other.state.slow[graph.rank(at).value] = slow;
  }
  const double after = duration(other, loaded);
  RC_LOG() << before << " s and " << after << " s";
  RC_ASSERT(std::abs(after / before - 1) <= kRounding);
}

RC_GTEST_PROP(SimulatedStep, DoublingAllRatesHalvesAllTimes, ()) {
  Case some;
  some.stragglers();
  const LoadedScenario loaded = some.load();
  const double nic = 1e9 * *rc::gen::inRange(1, 50), spine = 1e9 * *rc::gen::inRange(1, 50);
  const auto at = [&](double rate) {
    LoadedScenario scaled = loaded;
    Topology& cluster = *scaled.scenario.mutable_cluster();
    cluster.mutable_node()->set_nic_bandwidth(rate * nic);
    FabricSpec& fabric = *cluster.mutable_fabric();
    fabric.set_spine_link_bandwidth(rate * spine);
    for (GpuSpec& gpu : *cluster.mutable_gpus()) gpu.set_nvlink(gpu.nvlink() * rate);
    fabric.set_nvlink_latency(1e-6 / rate);
    fabric.set_nic_latency(8e-6 / rate);
    fabric.set_hop_latency(1e-6 / rate);
    return duration(some, scaled, rate);
  };
  RC_ASSERT(std::abs(2 * at(2) / at(1) - 1) <= kRounding);
}

}  // namespace
}  // namespace orrery::sim

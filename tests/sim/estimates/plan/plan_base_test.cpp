#include "sim/estimates/plan/plan_base.hpp"

#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "sim/estimates/plan/plan.hpp"
#include "tests/sim/run.hpp"
#include "topologies/builder.hpp"

namespace orrery::estimates {
namespace {

struct Layout {
  int tensor = 8, pipeline = 1, data = 8;
  std::vector<std::string> overrides = {};
};

const std::vector<Layout>& layouts() {
  static const std::vector<Layout> kAll{
      {8, 4, 8, {}},
      {2, 4, 8, {}},
      {1, 1, 16, {}},
      {4, 4, 4, {"job.layout.chunks=2"}},
      {4, 2, 8, {"job.layout.chunks=2"}},
      {2, 2, 16, {"cluster.fabric={kind: ring, ring_link_bandwidth: 200 Gbps}"}},
      {4, 2, 8, {"cluster.fabric={kind: flat}"}},
      {4, 2, 4, {"job.layout.context=2", "cluster.nodes=8"}},
      {4, 2, 8, {"job.layout.order=pipeline-last"}},
      {8, 1, 16, {"job.layout.shard=parameters"}},
      {8, 1, 16, {"job.layout.shard=parameters", "job.layout.shard_group=4"}},
      {8, 2, 8, {"job.layout.shard=optimizer"}},
  };
  return kAll;
}

/// A job and where it stands.
struct Bench {
  explicit Bench(const Layout& layout)
      : loaded(testing::small_scenario(layout.tensor, layout.pipeline, layout.data, {},
                                       layout.overrides)),
        cluster(build_cluster(loaded.scenario.cluster(), loaded.places)),
        graph(loaded.scenario.job()) {
    for (std::uint32_t i = 0; i < graph.ranks(); ++i) placement.push_back({i});
  }
  LoadedScenario loaded;
  Cluster cluster;
  StepGraph graph;
  CostProfile profile = cost_profile("H100");
  std::vector<GpuId> placement;
};

void check_equal(const Plan& a, const Plan& b) {
  RC_ASSERT(a.class_of == b.class_of);
  RC_ASSERT(a.slots == b.slots);
  RC_ASSERT(a.pinned == b.pinned);
  RC_ASSERT(a.comms == b.comms);
  RC_ASSERT(a.onward == b.onward);
  RC_ASSERT(a.back == b.back);
  RC_ASSERT(a.groups == b.groups);
  RC_ASSERT(a.groups_of == b.groups_of);
}

/// A few of `count`.
std::vector<std::uint32_t> some_of(std::uint32_t count) {
  return *rc::gen::resize(4, rc::gen::container<std::vector<std::uint32_t>>(
                                 rc::gen::inRange(0u, count)));
}

LinkId nic_of(const Bench& on, std::uint32_t rank) {
  const GpuId gpu = on.placement[rank];
  return on.cluster.nic_out(on.cluster.node_of(gpu), on.cluster.rail_of(gpu));
}

HardwareState some_state(const Bench& on) {
  HardwareState state;
  for (const std::uint32_t rank : some_of(on.graph.ranks())) {
    state.slow[rank] = 0.5 * *rc::gen::inRange(1, 5);
  }
  for (const std::uint32_t rank : some_of(on.graph.ranks())) {
    state.link_slow[nic_of(on, rank).value] = *rc::gen::inRange(2, 4);
  }
  for (const std::uint32_t rank : some_of(on.graph.ranks())) {
    state.down.insert(nic_of(on, rank).value);
  }
  return state;
}

// ---- properties ---------------------------------------------------------------------------------

RC_GTEST_PROP(PlanBase, APlanIsTheSameWithAndWithout, ()) {
  Bench on(*rc::gen::elementOf(layouts()));
  PlanBase base(on.cluster, on.graph, on.profile, on.placement);
  for (int i = 0; i < 4; ++i) {
    const HardwareState state = some_state(on);
    std::vector<std::uint32_t> shares(on.graph.data(), 8);
    for (const std::uint32_t replica : some_of(on.graph.data())) {
      shares[replica] = *rc::gen::inRange(0u, 3u);
    }
    PlanRequest request{.cluster = on.cluster, .graph = on.graph, .profile = on.profile,
                        .placement = on.placement, .state = state, .micro_batches = shares};
    for (const std::uint32_t rank : some_of(on.graph.ranks())) request.apart.push_back({rank});
    for (const std::uint32_t rank : some_of(on.graph.ranks())) {
      request.pinned.push_back(nic_of(on, rank));
    }
    using enum CollectiveAlgorithm;
    request.algorithm = *rc::gen::element(ring, ring, tree, hierarchical, direct, automatic);
    const Plan without = make_plan(request);
    request.base = &base;
    check_equal(make_plan(request), without);
  }
}

/// The same job on the GPUs of some of its replicas.
struct Fewer {
  Fewer(const Bench& whole, const std::set<std::uint32_t>& lost) : graph(less(whole, lost), false) {
    for (std::uint32_t replica = 0; replica < whole.graph.data(); ++replica) {
      if (!lost.contains(replica)) kept.push_back(replica);
    }
    placement.resize(graph.ranks());
    for (std::uint32_t rank = 0; rank < graph.ranks(); ++rank) {
      const auto [replica, stage, member] = graph.position({rank});
      placement[rank] = whole.placement[whole.graph.rank(kept[replica], stage, member).value];
    }
  }
  static Job less(const Bench& whole, const std::set<std::uint32_t>& lost) {
    Job job = whole.loaded.scenario.job();
    job.mutable_layout()->set_data(whole.graph.data() - static_cast<std::uint32_t>(lost.size()));
    return job;
  }
  StepGraph graph;
  std::vector<std::uint32_t> kept;
  std::vector<GpuId> placement;
};

RC_GTEST_PROP(PlanBase, OfFewerReplicasIsTheSameAsTheDifferenceToAll, ()) {
  const Layout layout = *rc::gen::elementOf(layouts());
  Bench on(layout);
  // Shards and experts tie replicas together in numbers that those left need not have.
  RC_PRE(on.graph.job().layout().shard_group() == 0);
  PlanBase whole(on.cluster, on.graph, on.profile, on.placement);
  std::set<std::uint32_t> lost;
  for (const std::uint32_t replica : some_of(on.graph.data() - 1)) lost.insert(replica);
  RC_PRE(!lost.empty() && lost.size() + 2 < on.graph.data());
  Fewer fewer(on, lost);
  PlanBase base(on.cluster, fewer.graph, on.profile, fewer.placement, {&whole, fewer.kept});
  for (int i = 0; i < 3; ++i) {
    const HardwareState state = some_state(on);
    HardwareState here = state;
    here.slow.clear();
    for (const auto& [rank, factor] : state.slow) {
      if (rank < fewer.graph.ranks()) here.slow[rank] = factor;
    }
    std::vector<std::uint32_t> shares(fewer.graph.data(), 8);
    shares.front() = 9;
    PlanRequest request{.cluster = on.cluster, .graph = fewer.graph, .profile = on.profile,
                        .placement = fewer.placement, .state = here, .micro_batches = shares};
    for (const std::uint32_t rank : some_of(fewer.graph.ranks())) request.apart.push_back({rank});
    using enum CollectiveAlgorithm;
    request.algorithm = *rc::gen::element(ring, ring, tree, hierarchical, automatic);
    const Plan without = make_plan(request);
    const std::vector<LinkId> crossed = crossed_links(request);
    request.base = &base;
    check_equal(make_plan(request), without);
    RC_ASSERT(crossed_links(request) == crossed);
  }
}

TEST(PlanBase, IsOfNoUseInFullDetail) {
  Bench on({8, 2, 4, {}});
  PlanBase base(on.cluster, on.graph, on.profile, on.placement);
  const std::vector<std::uint32_t> shares(on.graph.data(), 8);
  PlanRequest request{.cluster = on.cluster, .graph = on.graph, .profile = on.profile,
                      .placement = on.placement, .state = {}, .micro_batches = shares,
                      .full_detail = true};
  const Plan without = make_plan(request);
  request.base = &base;
  const Plan with = make_plan(request);
  EXPECT_EQ(with.slots.size(), without.slots.size());
  EXPECT_EQ(with.member_hosts, 8u);
}

}  // namespace
}  // namespace orrery::estimates

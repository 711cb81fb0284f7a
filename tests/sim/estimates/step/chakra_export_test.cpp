#include "sim/estimates/step/chakra_export.hpp"

#include <gtest/gtest.h>

#include "tests/sim/run.hpp"
#include "tests/sim/trace_sample.hpp"
#include "topologies/builder.hpp"

namespace orrery::estimates {
namespace {

using namespace testing;

ChakraTrace exported(const LoadedScenario& loaded) {
  const Cluster cluster = build_cluster(loaded.scenario.cluster(), loaded.places);
  StepGraph graph(loaded.scenario.job());
  const std::uint32_t each = graph.micro_batches() / graph.data();
  ChakraExport from(graph, cluster, std::vector<std::uint32_t>(graph.data(), each));
  ChakraFolder folder("exported");
  for (std::uint32_t rank = 0; rank < from.ranks(); ++rank) {
    folder.add_rank(rank, fmt::format("exported.{}.et", rank), from.rank_file({rank}));
  }
  folder.set_groups("exported.json", from.groups_file());
  return folder.finish_trace();
}

TEST(ChakraExport, RanksOfAStageShareTheirProgramAndTheirGroupsAreTheJobs) {
  const ChakraTrace trace = exported(small_scenario(2, 2, 4));
  EXPECT_EQ(trace.ranks.size(), 16u);
  EXPECT_EQ(trace.programs.size(), 2u);
  EXPECT_TRUE(trace.warnings.empty());
  for (const std::vector<std::uint32_t>& group : trace.groups) EXPECT_EQ(group.size(), 4u);
  EXPECT_EQ(trace.groups.front(), (std::vector<std::uint32_t>{0, 4, 8, 12}));
}

/// Profile whose collectives cost what those of a described job cost: without the start times and
/// rates of protocols.
CostProfile without_protocols(CostProfile profile) {
  profile.collective_start = profile.collective_fill = profile.send_start = {};
  profile.collective_ll = profile.collective_ll128 = profile.collective_pair_loss = 0;
  profile.collective_hop = profile.network_hop = profile.network_fill = 0;
  profile.nvls = profile.send = 0;
  profile.collective_ring = profile.collective_direct = profile.collective_round = 0;
  profile.collective_half_loss = profile.network_pair_loss = 0;
  profile.collective_nvls_fill = {};
  return profile;
}

double trace_time(const LoadedScenario& loaded, const CostProfile& profile, int pipeline) {
  const ChakraTrace trace = exported(loaded);
  const Cluster cluster = build_cluster(loaded.scenario.cluster(), loaded.places);
  const FoldedTrace folded = fold_trace(trace, cluster, false);
  EXPECT_EQ(folded.classes.size(), static_cast<std::size_t>(pipeline));
  const TracePlan plan = plan_trace(trace, folded, cluster, profile, CollectiveAlgorithm::ring);
  FreeEngine engine(1, static_cast<std::uint32_t>(plan.links.links.size()));
  return run_on(engine, trace, folded, plan, cluster).duration;
}

TEST(ChakraExport, AStepThatIsRunAsATraceTakesItsTime) {
  // Gradients exchanged beside nothing: everything is as in the step itself.
  for (const auto& [pipeline, tolerance] : {std::pair{1, 1e-6}, std::pair{2, 0.005}}) {
    const LoadedScenario loaded = small_scenario(2, pipeline, 4, {}, {"job.overlap=false"});
    const CostProfile profile = cost_profile(
        build_cluster(loaded.scenario.cluster(), loaded.places).gpu_model().name);
    const double step = simulate(loaded).step_time_s();
    EXPECT_NEAR(trace_time(loaded, without_protocols(profile), pipeline) / step, 1, tolerance);
    // The collectives of a trace have protocols: a start and longer rounds.
    const double priced = trace_time(loaded, profile, pipeline) / step;
    EXPECT_GT(priced, 1 + tolerance) << pipeline;
    EXPECT_LT(priced, 1.025) << pipeline;
  }
}

}  // namespace
}  // namespace orrery::estimates

#include "sim/estimates/predict/estimate.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "tests/traces/small_job.hpp"
#include "topologies/builder.hpp"
#include "traces/workload/stacks.hpp"

namespace orrery::estimates {
namespace {

Cluster cluster(std::uint32_t nodes) {
  Topology topology;
  topology.set_preset("dgx-h100");
  topology.set_nodes(nodes);
  resolve(topology, {});
  return build_cluster(topology, {});
}

TEST(Estimate, ADeclaredStepTakesWhatItDeclares) {
  // One rank: five micro-batches with their declared times, without communication.
  Job job = paced_job(1, 5);
  const double micro_batch = static_cast<double>(job.pace().micro_batch()) * 1e-9;
  EXPECT_NEAR(estimate_step(job, cluster(1)).step_s, 5 * micro_batch, 0.01 * micro_batch);
}

TEST(Estimate, MoreMicroBatchesTakeLonger) {
  const double few = estimate_step(small_job(2, 2, 2, 8), cluster(1)).step_s;
  const double many = estimate_step(small_job(2, 2, 2, 16), cluster(1)).step_s;
  EXPECT_GT(few, 0);
  EXPECT_GT(many, 1.5 * few);
  EXPECT_LT(many, 2 * few) << "the pipeline fills once";
}

TEST(Estimate, MemoryIsThatOfTheFullestStage) {
  const Job job = small_job(1, 4, 1, 8);
  const StepEstimate estimate = estimate_step(job, cluster(1));
  const StepGraph graph(job);
  for (std::uint32_t stage = 0; stage < 4; ++stage) {
    EXPECT_LE(graph.memory(stage, 8).total(), estimate.memory.total());
  }
  EXPECT_EQ(graph.memory(estimate.fullest_stage, 8).total(), estimate.memory.total());
}

TEST(Estimate, GroupedExpertsHaveTheirOwnRateAndPaddedOnesHaveNot) {
  Job job = small_job(1, 1, 8, 8);
  Experts& experts = *job.mutable_model()->mutable_experts();
  experts.set_count(8);
  experts.set_top_k(2);
  experts.set_capacity(1);
  SoftwareStack& stack = *job.mutable_software();
  stack = software_stack("generic");
  StackOnGpu& on = *stack.add_on();
  on.add_gpus(cluster(1).gpu_model().name);
  for (const auto set : {&StackOnGpu::set_compute, &StackOnGpu::set_grouped}) (on.*set)(1);
  const auto step = [&](bool padded, double grouped) {
    experts.set_padded(padded);
    on.set_grouped(grouped);
    return estimate_step(job, cluster(1)).step_s;
  };
  EXPECT_GT(step(false, 0.5), 1.005 * step(false, 1));
  EXPECT_EQ(step(true, 0.5), step(true, 1));
}

TEST(Estimate, AJobThatHasNoRoomIsRefused) {
  EXPECT_THROW(estimate_step(small_job(4, 2, 2, 8), cluster(1)), Error);
}

}  // namespace
}  // namespace orrery::estimates

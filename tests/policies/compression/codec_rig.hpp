// One data-parallel job of four ranks in a World, for the tests of compression policies: what a
// policy is shown, and what becomes of its decisions.
#pragma once

#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "policies/policy.hpp"

namespace orrery::test {

inline constexpr double kGpuMemory = 1e9;  // bytes

inline const Cluster& codec_cluster() {
  static const Cluster cluster(
      GpuModel{.name = "toy", .memory = {kGpuMemory}, .memory_bandwidth = {1e12}, .fp32 = {1e9},
               .tf32 = {}, .bf16 = {1e9}, .fp8 = {}, .fp4 = {}, .nvlink = {1e9}, .pcie = {1e9},
               .idle_power = {}, .max_power = {}},
      {.nodes = 4, .gpus_per_node = 1, .nics_per_node = 1, .nodes_per_unit = 4, .spines = 1,
       .nic_bandwidth = {1e9}, .spine_link_bandwidth = {1e9}, .nvlink_latency = {1e-6},
       .nic_latency = {1e-6}, .hop_latency = {1e-6}, .host_power = {}},
      {});
  return cluster;
}

struct CodecRig {
  CodecRig() {
    JobSpec job;
    job.id = {0};
    job.gpus = job.data = 4;
    job.micro_batches = 8;
    job.max_micro_batches = 8;
    job.steps = 1000;
    world.apply(JobSubmitted{.job = job, .placed = {{0}, {1}, {2}, {3}}});
  }
  const JobInfo& job() const { return world.jobs()[0]; }

  /// One call of the policy; what it decides is applied, or refused.
  std::vector<Decision> show(Policy& policy, std::vector<Event> events = {}) {
    for (const Event& event : events) world.apply(event);
    Context context{rng, {~0u, ~0u}};
    DecisionList list;
    policy.observe(context,
                   Observation{.now = 0, .epoch = {}, .sequence = calls++, .events = events,
                               .devices = devices, .links = links, .ranks = ranks,
                               .collectives = collectives, .cluster = codec_cluster(),
                               .state = world.state(), .jobs = world.jobs()},
                   list);
    rests = list.at_rest();
    for (Decision& decision : list.items()) {
      decision.number = decisions++;
      if (refuse) continue;
      EXPECT_EQ(world.objection(decision), "");
      world.announce(decision);
      world.apply(DecisionOutcome{decision.number, Outcome::applied, ""});
    }
    return list.items();
  }
  /// Refuses a decision that show() has left open.
  Event refusal(const Decision& decision) {
    world.announce(decision);
    return DecisionOutcome{decision.number, Outcome::rejected, "no"};
  }

  World world{codec_cluster()};
  Rng rng{1};
  std::uint64_t calls = 0, decisions = 0;
  bool refuse = false, rests = false;
  std::vector<DeviceSample> devices;
  std::vector<LinkSample> links;
  std::vector<RankSample> ranks;
  std::vector<CollectiveSample> collectives;
};

}  // namespace orrery::test

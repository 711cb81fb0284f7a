// One data-parallel job of four ranks in a World, for the tests of compression policies:
// observations for a policy, and outcomes of its decisions.
#pragma once

#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/policies/toy.hpp"

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

/// World with one job and a compression policy.
struct CodecRig {
  CodecRig() {
    JobSpec job = toy::job(0, 8);
    job.max_micro_batches = 8;
    job.steps = 1000;
    toy::run_on(world, std::move(job));
  }
  const JobInfo& job() const { return world.jobs()[{0}]; }
  const CodecRules& codecs() const { return job().now.get<CodecRules>(); }

  /// Calls the policy once; its decision is applied, or left open.
  std::vector<Decision> show_events(Policy& policy, std::vector<Event> events = {}) {
    for (const Event& event : events) world.apply(event, 0);
    Context context{rng, {Kinds<Action>::all(), Kinds<Setting>::all()}};
    list.clear();
    policy.observe(context, toy::seen_of(world, events, samples, 0, calls++), list);
    for (const Decision& decision : list.items()) {
      EXPECT_EQ(world.objection(decision), "");
      world.announce_decision(decision);
      if (!leave_open) world.apply(Decided{decision.id, Outcome::applied, ""}, 0);
    }
    return list.items();
  }
  /// Returns the rejection of a decision that show_events() has left open, or of another policy's.
  static Event refusal(const Decision& decision) {
    return Decided{decision.id, Outcome::rejected, "no"};
  }
  bool is_resting() const { return list.is_resting(); }

  World world{codec_cluster()};
  Rng rng{1};
  DecisionList list;
  std::uint64_t calls = 0;
  bool leave_open = false;
  toy::HandMade samples;
};

}  // namespace orrery::test

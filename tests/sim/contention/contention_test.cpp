#include "sim/contention/contention.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/random.hpp"
#include "policies/seam/job.hpp"
#include "sim/engine/simgrid_compat.hpp"
#include "sim/engine/simgrid_engine.hpp"
#include "sim/estimates/engine/max_min_shares.hpp"
#include "sim/estimates/engine/sharing_engine.hpp"
#include "sim/estimates/step/joint_run.hpp"
#include "sim/estimates/step/side_by_side.hpp"
#include "tests/sim/run.hpp"
#include "topologies/builder.hpp"

namespace orrery::sim {
namespace {

using testing::numbers_in_child;

/// Jobs, by default of four nodes, on a cluster whose units hold three: neighbours meet on the
/// uplinks of the unit between them, others do not.
class Bench {
 public:
  explicit Bench(std::uint32_t at_once = 3) {
    const estimates::EngineRoom room =
        estimates::engine_room(cluster, StepGraph(loaded.scenario.job()), false);
    engine = simgrid_engine(at_once * room.hosts, at_once * room.links);
  }

  Contention::Work work(std::uint32_t first_gpu, std::uint32_t nodes = 4) {
    jobs.push_back(std::make_unique<One>(*this, first_gpu, nodes));
    StepGraph& graph = jobs.back()->graph;
    return {.stepper = {std::shared_ptr<void>(), &*jobs.back()->stepper},
            .state = {},
            .micro_batches = even_split(graph.micro_batches(), graph.data())};
  }

  LoadedScenario loaded = testing::small_scenario(
      8, 1, 4, "",
      {"cluster.nodes=16", "cluster.fabric.nodes_per_unit=3", "cluster.fabric.spines=1",
       "cluster.fabric.spine_link_bandwidth=50 Gbps", "job.overlap=false"});
  Cluster cluster = build_cluster(loaded.scenario.cluster(), loaded.places);
  std::shared_ptr<estimates::Engine> engine;
  struct One {
    One(Bench& of, std::uint32_t first_gpu, std::uint32_t nodes)
        : graph([&] {
            Job job = of.loaded.scenario.job();
            job.mutable_layout()->set_data(nodes);
            job.set_global_batch(job.global_batch() / 4 * nodes);
            return StepGraph(job);
          }()) {
      for (std::uint32_t rank = 0; rank < graph.ranks(); ++rank) gpus.push_back({first_gpu + rank});
      stepper.emplace(of.cluster, graph, gpus, estimates::Stepper::Options{},
                      [&of](std::uint32_t, std::uint32_t) { return of.engine; });
    }
    StepGraph graph;
    std::vector<GpuId> gpus;
    std::optional<estimates::Stepper> stepper;
  };
  std::vector<std::unique_ptr<One>> jobs;
};

constexpr JobId kA{0}, kB{1}, kC{2};

TEST(Contention, ThoseWhoMeetThroughOthersAreOneCompany) {
  const std::vector<double> seen = numbers_in_child([] {
    Bench bench;
    Contention contention;
    std::vector<double> out;
    const auto note = [&](std::uint64_t number) { out.push_back(static_cast<double>(number)); };
    contention.enter_job(kA, bench.work(0));   // units 0, 1
    contention.enter_job(kC, bench.work(64));  // units 2, 3
    note(contention.company(kA));
    note(contention.company(kC));
    note(contention.step(kA, 0) == nullptr);
    contention.enter_job(kB, bench.work(32));  // units 1, 2
    note(contention.company(kA) == contention.company(kC));
    note(contention.company(kA) != 0);
    const double a = contention.step(kA, 0)->run.duration;
    const double b = contention.step(kB, 0)->run.duration;
    out.insert(out.end(), {a, b});
    const std::uint64_t before = contention.company(kA);
    contention.remove_job(kC);
    note(contention.company(kA) != before);
    out.push_back(contention.step(kA, 0)->run.duration);
    contention.remove_job(kB);
    note(contention.company(kA));
    return out;
  });
  ASSERT_EQ(seen.size(), 10u);
  EXPECT_EQ(seen[0], 0) << "apart";
  EXPECT_EQ(seen[1], 0);
  EXPECT_EQ(seen[2], 1);
  EXPECT_EQ(seen[3], 1) << "the third joins both";
  EXPECT_EQ(seen[4], 1);
  EXPECT_GT(seen[5], 0);
  EXPECT_NEAR(seen[5], seen[6], 0.01 * seen[5]) << "all in step: each meets at least one";
  EXPECT_EQ(seen[7], 1) << "who leaves changes it for all";
  EXPECT_GT(seen[8], 0);
  EXPECT_EQ(seen[9], 0) << "alone again";
}

/// Returns the steps of two steady jobs that share the uplinks of one unit, and the number of
/// groups that have been simulated.
std::vector<double> steps_and_groups(Bench& bench, Contention& contention, std::uint32_t first,
                                     std::uint32_t second) {
  for (const auto& [job, gpu] : {std::pair{kA, first}, {kB, second}}) {
    Contention::Work work = bench.work(gpu);
    work.steady = true;
    contention.enter_job(job, std::move(work));
  }
  const double a = contention.step(kA, 0)->run.duration, b = contention.step(kB, 0)->run.duration;
  return {a, b, static_cast<double>(contention.known_groups())};
}

TEST(Contention, ASteadyGroupIsSimulatedOnceWhereverItStands) {
  const std::vector<double> seen = numbers_in_child([] {
    Bench bench;
    Contention contention;
    std::vector<double> out = steps_and_groups(bench, contention, 0, 32);  // units 0-1, 1-2
    for (const auto& [first, second] : {std::pair{48u, 80u}, {80u, 48u}}) {
      const std::vector<double> more = steps_and_groups(bench, contention, first, second);
      out.insert(out.end(), more.begin(), more.end());
    }
    return out;
  });
  ASSERT_EQ(seen.size(), 9u);
  EXPECT_EQ(seen[2], 1);
  EXPECT_EQ((std::vector<double>{seen[3], seen[4], seen[5]}),
            (std::vector<double>{seen[0], seen[1], 1}))
      << "units 2-3 and 3-4";
  EXPECT_EQ((std::vector<double>{seen[6], seen[7], seen[8]}),
            (std::vector<double>{seen[1], seen[0], 1}))
      << "the other way round";
}

/// Returns an engine link for each link and for each slot that is not pinned: no link stands for
/// another one, and none is left out.
estimates::JointLinks every_link(const std::vector<estimates::JobBeside>& jobs) {
  estimates::JointLinks links;
  std::map<std::uint32_t, std::uint32_t> known;
  for (const estimates::JobBeside& job : jobs) {
    std::vector<std::uint32_t>& numbers = links.numbers.emplace_back(job.plan.slots.size());
    for (const auto& [link, slot] : job.plan.pinned) {
      const auto [at, is_new] = known.emplace(link, links.count);
      links.count += is_new ? 1 : 0;
      numbers[slot] = at->second + 1;
    }
    for (std::uint32_t& number : numbers) {
      number = number == 0 ? links.count++ : number - 1;
    }
  }
  return links;
}

/// Returns the largest relative difference between the first steps of jobs in a full simulation
/// with all links and those of their flows.
double difference_of_first_steps(const std::vector<estimates::SteadyStep>& full,
                                 const std::vector<estimates::JobBeside>& jobs) {
  constexpr std::size_t kFirst = 10;
  std::vector<estimates::FlowGraph> graphs;
  for (const estimates::JobBeside& job : jobs) {
    graphs.push_back(estimates::flow_graph(job.graph, job.plan, job.prices));
  }
  std::vector<const estimates::FlowGraph*> each;
  for (const estimates::FlowGraph& graph : graphs) each.push_back(&graph);
  double most = 0;
  for (const estimates::FlowGroup& group : estimates::flow_groups(jobs, each)) {
    const std::vector<std::vector<double>> steps = estimates::first_steps(group, kFirst);
    for (std::size_t lane = 0; lane < steps.size(); ++lane) {
      const std::vector<double>& durations = full[group.lanes[lane].job].durations;
      for (std::size_t step = 0; step < kFirst; ++step) {
        most = std::max(most, std::abs(steps[lane][step] / durations[step] - 1));
      }
    }
  }
  return most;
}

std::vector<double> means_of(const std::vector<estimates::SteadyStep>& steps) {
  std::vector<double> means;
  for (const estimates::SteadyStep& step : steps) means.push_back(step.mean);
  return means;
}

/// Returns the steps of jobs that are simulated together in SimGrid, all links included. Returns
/// none if the solver without SimGrid finds other bits, on all links or on those that can fill, or
/// if the flows alone have other first steps.
std::vector<double> steps_in_simgrid(Bench& bench, const std::vector<Contention::Work>& group) {
  std::map<LinkId, int> users;
  for (const Contention::Work& work : group) {
    for (const LinkId link : work.stepper->links_crossed_by({}, work.micro_batches)) ++users[link];
  }
  const estimates::HardwareState nominal;
  std::vector<std::unique_ptr<estimates::SimulatedStep>> steps;
  std::vector<estimates::JobBeside> jobs;
  for (const Contention::Work& work : group) {
    std::vector<LinkId> shared;
    for (const LinkId link : work.stepper->links_crossed_by({}, work.micro_batches)) {
      if (users.at(link) > 1) shared.push_back(link);
    }
    steps.push_back(work.stepper->planned({}, work.micro_batches, std::move(shared)));
    jobs.push_back({.graph = work.stepper->graph(),
                    .plan = steps.back()->plan,
                    .prices = work.stepper->prices(),
                    .state = nominal});
  }
  const std::uint32_t hosts = bench.engine->hosts(), slots = bench.engine->links();
  std::vector<std::vector<double>> own;
  for (const estimates::JointLinks& links : {every_link(jobs), estimates::joint_links(jobs)}) {
    estimates::SharingEngine engine(
        hosts, slots, std::make_unique<estimates::MaxMinShares>(slots, bench.engine->now()));
    own.push_back(means_of(estimates::steady_steps(engine, jobs, links)));
  }
  const std::vector<estimates::SteadyStep> full =
      estimates::steady_steps(*bench.engine, jobs, every_link(jobs));
  std::vector<double> means = means_of(full);
  if (difference_of_first_steps(full, jobs) > 1e-6) return {};
  if (SIMGRID_VERSION < 33300 && own != std::vector{means, means}) return {};
  return means;
}

/// Jobs of 16 to 40 GPUs fill the cluster; then they leave, one after the other. Their order, and
/// the rounding of the clock when a group was simulated first, move a step by some thousandths.
TEST(Contention, StepsOnRandomPlacesEqualThoseOfAFullSimulation) {
  const std::vector<double> seen = numbers_in_child([] {
    Bench bench(16);
    Contention contention;
    Rng draw(7);
    std::vector<double> out;
    for (int round = 0; round < 10; ++round) {
      std::map<JobId, Contention::Work> present;
      for (std::uint32_t node = 0; node < 15;) {
        const auto wanted = 2 + static_cast<std::uint32_t>(draw.below(4));
        const std::uint32_t nodes = std::min(wanted, 16 - node);
        const JobId job{static_cast<std::uint32_t>(draw.below(1000) * 16 + node)};
        present[job] = bench.work(8 * node, nodes);
        present[job].steady = true;
        node += nodes;
      }
      for (const auto& [job, work] : present) contention.enter_job(job, work);
      while (!present.empty()) {
        std::map<std::uint64_t, std::vector<JobId>> groups;
        for (const auto& [job, work] : present) {
          if (contention.company(job) > 0) groups[contention.company(job)].push_back(job);
        }
        for (const auto& [company, jobs] : groups) {
          std::vector<Contention::Work> works;
          for (const JobId job : jobs) works.push_back(present.at(job));
          const std::vector<double> full = steps_in_simgrid(bench, works);
          if (full.empty()) return std::vector<double>{};
          for (std::size_t i = 0; i < jobs.size(); ++i) {
            out.push_back(contention.step(jobs[i], 0)->run.duration / full[i]);
          }
        }
        const auto chosen = static_cast<int>(draw.below(present.size()));
        const auto leaves = std::next(present.begin(), chosen);
        contention.remove_job(leaves->first);
        present.erase(leaves);
      }
    }
    return out;
  });
  EXPECT_GT(seen.size(), 40u) << "or other bits, or other first steps, than SimGrid's";
  for (const double ratio : seen) EXPECT_NEAR(ratio, 1, 0.01);
}

TEST(Contention, WhereTheOthersStandInTheirStepsCounts) {
  const std::vector<double> steps = numbers_in_child([] {
    Bench bench;
    Contention contention;
    const Contention::Work first = bench.work(0), second = bench.work(32);
    const double alone = first.stepper->step({}, first.micro_batches)->run.duration;
    std::vector<double> out = {alone};
    for (const double later : {0.0, 0.1, 0.5}) {
      contention.enter_job(kA, first);
      contention.enter_job(kB, second);
      contention.next_step(kB, to_nanos(later * alone));
      out.push_back(contention.step(kA, 0)->run.duration);
      contention.remove_job(kA);
      contention.remove_job(kB);
    }
    return out;
  });
  ASSERT_EQ(steps.size(), 4u);
  EXPECT_GT(steps[1], steps[2]) << "in step they exchange at once";
  EXPECT_GT(steps[2], steps[3] - 1e-9);
  EXPECT_GE(steps[3], steps[0] - 1e-9);
}

}  // namespace
}  // namespace orrery::sim

#include "sim/contention/simulated_paces.hpp"

#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/error.hpp"
#include "policies/run/registry.hpp"
#include "policies/seam/drive.hpp"
#include "sim/replay/job_replay.hpp"
#include "sim/worlds.hpp"
#include "tests/policies/temp_dir.hpp"
#include "tests/sim/run.hpp"
#include "topologies/builder.hpp"
#include "traces/scenario/replay_conditions.hpp"

namespace orrery::sim {
namespace {

/// The example with another log and placement.
class Replay {
 public:
  Replay(const std::string& placement, const std::string& rows) {
    const std::string folder = std::string(ORRERY_SOURCE_DIR) + "/examples/";
    SourceMap places = load_yaml_file(folder + "replay-one-spine.yaml", asked_);
    resolve(*asked_.mutable_cluster(), places, "cluster");
    complete(*asked_.mutable_conditions(), places, "conditions.");
    const std::string path = folder_ / "jobs.csv";
    std::ofstream(path) << "job_id,submit_s,num_gpus,duration_s,name\n" << rows;
    asked_.set_trace(path);
    asked_.set_placement(placement);
    asked_.set_nodes(asked_.cluster().nodes());
    asked_.set_gpus_per_node(asked_.cluster().node().gpus_per_node());
  }
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  /// End of each job, seconds; the report behind them.
  std::vector<double> ends() const {
    return testing::numbers_in_child([this] {
      const RunRequest request = replay_request(asked_, {});
      const Cluster cluster = build_cluster(asked_.cluster(), SourceMap{});
      const auto backend = simulated_world(request, cluster, {});
      const auto stack = make_stack(asked_);
      Rng rng = policy_rng(1);
      Context context{rng, {}};
      drive(*stack, *backend, context);
      Report report;
      backend->fill(report);
      JobTables tables;
      const JobsReport jobs = replay_report(asked_, std::move(report), &tables);
      std::vector<double> ends;
      std::size_t at = tables.jobs.find('\n') + 1;
      for (std::size_t stop; (stop = tables.jobs.find('\n', at)) != std::string::npos;
           at = stop + 1) {
        std::size_t field = at;
        for (int i = 0; i < 7; ++i) field = tables.jobs.find(',', field) + 1;
        ends.push_back(std::stod(tables.jobs.substr(field)));
      }
      ends.push_back(jobs.slowdown_max());
      return ends;
    });
  }

 private:
  JobReplay asked_;
  toy::TempDir folder_;
};

/// Returns the time of one step of a job of the example alone, and of its exchange.
std::pair<double, double> step_and_exchange() {
  const Report apart =
      testing::simulate_example("two-jobs-one-spine.yaml", {"jobs[0].first_gpu=512"});
  return {apart.step_time_s(), apart.phases().exchange_s()};
}

/// Both compute for as long, then both exchange over one link: twice as long.
double slowed_by_hand() {
  const auto [step, exchange] = step_and_exchange();
  return (step + exchange) / step;
}

TEST(SimulatedPaces, TwoJobsOf256GpusShareASpineMaxMinAndPlacedByTopologyDoNotMeet) {
  const std::string both = "a,0,256,36000,llama\nb,0,256,36000,llama\n";
  const std::vector<double> count = Replay("count", both).ends();
  const double slowed = slowed_by_hand();
  ASSERT_GT(slowed, 1.3);
  EXPECT_NEAR(count[0] / (36000 * slowed), 1, 0.02);
  EXPECT_NEAR(count[1] / (36000 * slowed), 1, 0.02);
  EXPECT_NEAR(count[2] / slowed, 1, 0.02);
  const std::vector<double> topology = Replay("topology", both).ends();
  EXPECT_EQ(topology, (std::vector<double>{36000, 36000, 1}));
}

TEST(SimulatedPaces, OnlyWhileBothRunTheySlowEachOther) {
  // The second comes an hour later and has half as much to do.
  const std::vector<double> ends =
      Replay("count", "a,0,256,36000,llama\nb,3600,256,18000,llama\n").ends();
  const double slowed = slowed_by_hand();
  const double second = 3600 + 18000 * slowed;
  EXPECT_NEAR(ends[1] / second, 1, 0.02);
  // The first job has done an hour and as much as the second until then.
  const double first = second + (36000 - 3600 - 18000);
  EXPECT_NEAR(ends[0] / first, 1, 0.02);
}

TEST(SimulatedPaces, JobsOfNoKindAndJobsWithinANodeRunAsRecorded) {
  const std::vector<double> ends =
      Replay("count", "a,0,256,36000,llama\nb,0,256,36000,other\nc,0,8,500,llama\nd,0,9,70,llama\n")
          .ends();
  EXPECT_EQ(ends, (std::vector<double>{36000, 36000, 500, 70, 1}))
      << "9 GPUs are no whole replicas of 8";
}

TEST(SimulatedPaces, WhatAPlaceCostsAJobAloneCountsToo) {
  // Filled up so that the second job's eight nodes are of two units; alone of one.
  const std::vector<double> ends =
      Replay("count", "a,0,160,36000,other\nb,0,64,3600,llama\n").ends();
  EXPECT_EQ(ends[0], 36000);
  EXPECT_GT(ends[1], 1.05 * 3600);
}

TEST(SimulatedPaces, EqualReplaysGiveEqualBytes) {
  const std::string rows = "a,0,256,9000,llama\nb,100,128,5000,llama\nc,200,192,700,llama\n";
  EXPECT_EQ(Replay("count", rows).ends(), Replay("count", rows).ends());
}

TEST(SimulatedPaces, WithoutAFabricTheyAreRefused) {
  JobReplay replay;
  replay.set_nodes(2);
  replay.set_gpus_per_node(8);
  EXPECT_THROW(replay_request(replay, {}), Error);
}

}  // namespace
}  // namespace orrery::sim

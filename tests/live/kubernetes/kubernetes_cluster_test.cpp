#include "live/kubernetes/kubernetes_cluster.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "policies/handover/hand_over.hpp"
#include "policies/record/recorder.hpp"
#include "policies/run/registry.hpp"
#include "policies/run/replay.hpp"
#include "policies/seam/drive.hpp"
#include "tests/live/kubernetes/fake_kube.hpp"

namespace orrery::live {
namespace {

/// Cluster whose scheduler binds placed gangs at the next reading; a gang runs for three readings.
class BusyKube : public FakeKube {
 public:
  BusyKube() : FakeKube(8, 4) {
    for (int i = 1; i <= 12; ++i) add_gang(fmt::format("ml/g{:02}", i), 1u + i % 3);
  }
  KubeReading read_cluster(bool acts) override {
    const KubeReading seen = FakeKube::read_cluster(acts);
    for (KubeGang& gang : reading.gangs) {
      if (gang.state == GangState::placing) {
        gang.state = GangState::placed;
      } else if (gang.state == GangState::placed && ++readings_[gang.id] > 3) {
        gang.state = GangState::completed;
      } else if (gang.state == GangState::leaving) {
        gang.state = GangState::waiting;
        gang.nodes.clear();
      }
    }
    return seen;
  }
  bool is_done() const {
    return std::all_of(reading.gangs.begin(), reading.gangs.end(),
                       [](const KubeGang& gang) { return gang.state == GangState::completed; });
  }

 private:
  std::map<std::string, int> readings_;
};

/// Racks of the nodes in an order: n01 to n04 are the first one.
std::set<int> racks_of(const std::string& order) {
  std::set<int> racks;
  for (int node = 1; node <= 8; ++node) {
    if (order.find(fmt::format("n{:02}", node)) != std::string::npos) racks.insert((node - 1) / 4);
  }
  return racks;
}

struct Course {
  std::vector<std::string> reports;
  QueueCluster::Counts counts;
};

/// Runs `policy` until all gangs are done or 400 readings have passed.
Course run_policy(BusyKube& kube, const std::string& policy, const std::string& record = {},
                  HandOverRules rules = {}, bool is_halted = false) {
  Course run;
  KubernetesCluster::Options options;
  options.acts = rules.mode != HandOverMode::shadow;
  options.is_quiet = !options.acts;
  options.every = std::chrono::milliseconds(1);
  int readings = 0;
  options.stopped = [&] { return kube.is_done() || readings > 400; };
  options.halted = [is_halted] { return is_halted; };
  options.at_reading = [&] { ++readings; };
  options.tell = [&](const std::string& text) { run.reports.push_back(text); };
  KubernetesCluster cluster(kube, options);
  HandOver hand_over(cluster, rules);
  EndsWithReadings until_over(hand_over, cluster);
  JobReplay replay;
  replay.set_trace("kubernetes");
  replay.set_policy(policy);
  replay.set_placement("per-node");
  describe_nodes(cluster.nodes(), cluster.nodes_per_rack(), replay);
  LogHeader header;
  header.set_mode("jobs");
  *header.mutable_replay() = replay;
  const auto stack = make_stack(replay);
  Recorder recorder(until_over, *stack, header, {.path = record, .hash = !record.empty()});
  Rng rng = policy_rng(0);
  Context context{rng, {}};
  drive(*stack, recorder, context);
  recorder.finish_log();
  run.counts = cluster.counts();
  return run;
}

TEST(KubernetesCluster, AQueuePolicyPlacesAllGangsInRacksAndTheLogReplays) {
  const std::string log = (std::filesystem::temp_directory_path() / "orrery-kube.log").string();
  for (const char* policy : {"fifo", "easy", "max-min"}) {
    BusyKube kube;
    const Course run = run_policy(kube, policy, log);
    EXPECT_TRUE(kube.is_done()) << policy;
    EXPECT_EQ(run.counts.starts, 12u) << policy;
    // A gang is in one rack on an empty cluster; later, rests of both racks may have to do.
    EXPECT_EQ(racks_of(kube.orders.at(0)).size(), 1u) << kube.orders.at(0);
    const auto across =
        std::count_if(kube.orders.begin(), kube.orders.end(),
                      [](const std::string& order) { return racks_of(order).size() > 1; });
    EXPECT_LE(across, 3) << policy;
    const ReplayResult replayed = replay_log(log, std::vector<std::string>());
    EXPECT_EQ(replayed.first_difference, "") << policy;
    EXPECT_EQ(replayed.decisions, 12u) << policy;
  }
  std::filesystem::remove(log);
}

TEST(KubernetesCluster, ShadowModeAndTheKillSwitchSendNothing) {
  BusyKube shadow;
  const Course watched = run_policy(shadow, "fifo", {}, {.mode = HandOverMode::shadow});
  EXPECT_TRUE(shadow.orders.empty());
  EXPECT_FALSE(shadow.acted);
  EXPECT_EQ(watched.counts.starts, 0u);
  BusyKube halted;
  run_policy(halted, "fifo", {}, {.stopped = [] { return true; }}, true);
  EXPECT_TRUE(halted.orders.empty());
  EXPECT_FALSE(halted.acted);
}

TEST(KubernetesCluster, NothingIsDecidedWhileAnotherControllerLeads) {
  BusyKube kube;
  kube.reading.is_leader = false;
  kube.reading.holder = "other";
  const Course run = run_policy(kube, "fifo");
  EXPECT_TRUE(kube.orders.empty());
  EXPECT_EQ(run.reports, std::vector<std::string>{"other leads; waiting"});
}

TEST(KubernetesCluster, ARefusedGangStaysOutAndTheOthersGoOn) {
  BusyKube kube;
  kube.refusal = "needs 4 GPUs of n01, found 3 free";
  const Course run = run_policy(kube, "fifo");
  EXPECT_GE(run.counts.complaints, 3u);
  EXPECT_LE(run.counts.complaints, 36u);
  EXPECT_FALSE(run.reports.empty());
  for (const KubeGang& gang : kube.reading.gangs) EXPECT_EQ(gang.state, GangState::waiting);
}

TEST(KubernetesCluster, AnUnusableNodeIsLostForNewGangs) {
  BusyKube kube;
  kube.reading.nodes[0].is_usable = false;
  run_policy(kube, "fifo");
  EXPECT_TRUE(kube.is_done());
  for (const std::string& order : kube.orders) EXPECT_EQ(order.find("n01"), std::string::npos);
}

}  // namespace
}  // namespace orrery::live

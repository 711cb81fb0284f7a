#include "live/kubernetes/kubernetes_cluster.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <set>

#include "policies/handover/hand_over.hpp"
#include "policies/record/recorder.hpp"
#include "policies/run/registry.hpp"
#include "policies/run/replay.hpp"
#include "policies/seam/drive.hpp"
#include "tests/live/kubernetes/fake_kube.hpp"

namespace orrery::live {
namespace {

/// Cluster whose scheduler binds placed gangs at the next reading; a gang runs for three readings,
/// or as many as `lasts` says.
class BusyKube : public FakeKube {
 public:
  explicit BusyKube(std::uint32_t nodes = 8, std::uint32_t per_rack = 4, int gangs = 12)
      : FakeKube(nodes, per_rack) {
    for (int i = 1; i <= gangs; ++i) add_gang(fmt::format("ml/g{:02}", i), 1u + i % 3);
  }

  std::map<std::string, int> lasts;
  std::map<int, std::function<void(BusyKube&)>> changes;  ///< keys are numbers of readings

  /// Adds a pod of somebody else that occupies a node for `readings`.
  void occupy(const std::string& node, int readings) {
    KubeGang& pod = add_gang("else/pod/on-" + node, 1);
    pod.is_managed = false;
    pod.state = GangState::placed;
    pod.nodes = {node};
    lasts[pod.id] = readings;
  }
  KubeReading read_cluster(bool acts) override {
    const auto change = changes.find(++reads_);
    if (change != changes.end()) change->second(*this);
    const KubeReading seen = FakeKube::read_cluster(acts);
    for (KubeGang& gang : reading.gangs) {
      if (gang.state == GangState::placing) {
        gang.state = GangState::placed;
      } else if (gang.state == GangState::placed && ++readings_[gang.id] > length_of(gang.id)) {
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
  int length_of(const std::string& id) const {
    const auto known = lasts.find(id);
    return known == lasts.end() ? 3 : known->second;
  }

  std::map<std::string, int> readings_;
  int reads_ = 0;
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
                  HandOverRules rules = {}, bool is_halted = false,
                  KubernetesCluster::Options options = {}) {
  Course run;
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

using Orders = std::vector<std::string>;

/// Returns the number of reports that contain `text`.
long count_of(const Course& run, const std::string& text) {
  return std::count_if(run.reports.begin(), run.reports.end(), [&](const std::string& report) {
    return report.find(text) != std::string::npos;
  });
}

TEST(KubernetesCluster, NodesThatJoinAreUsedAndTheLogReplays) {
  const std::string log =
      (std::filesystem::temp_directory_path() / "orrery-kube-join.log").string();
  BusyKube kube(2, 2, 0);
  kube.add_gang("ml/a", 4).needs_rack = true;
  kube.add_gang("ml/b", 2).needs_rack = true;
  kube.changes[3] = [](BusyKube& now) {
    now.add_node("n03", "r0");
    now.add_node("n04", "r0");
  };
  kube.changes[5] = [](BusyKube& now) {
    now.add_node("n05", "r1");
    now.add_node("n06", "r1");
  };
  KubernetesCluster::Options options;
  options.places = 4;
  const Course run = run_policy(kube, "fifo", log, {}, false, options);
  EXPECT_TRUE(kube.is_done());
  EXPECT_EQ(kube.orders.size(), 2u);
  EXPECT_EQ(std::count(kube.orders.begin(), kube.orders.end(), "place ml/a on n01,n02,n03,n04"), 1);
  EXPECT_EQ(count_of(run, "has joined"), 4);
  EXPECT_EQ(replay_log(log, std::vector<std::string>()).first_difference, "");
  std::filesystem::remove(log);
}

TEST(KubernetesCluster, ANodeUnderAnotherNameGetsThePlaceOfTheOldOneAfterItsTime) {
  for (const std::int64_t keeps_s : {0, 24 * 3600}) {
    BusyKube kube(4, 4, 0);
    kube.add_gang("ml/a", 4);
    kube.reading.nodes[3].is_usable = false;
    kube.changes[3] = [](BusyKube& now) {
      now.remove_node("n04");
      now.add_node("m04", "r0");
    };
    KubernetesCluster::Options options;
    options.places = 4;
    options.keeps_place_s = keeps_s;
    const Course run = run_policy(kube, "fifo", {}, {}, false, options);
    EXPECT_EQ(kube.orders, keeps_s == 0 ? Orders{"place ml/a on m04,n01,n02,n03"} : Orders{});
    EXPECT_EQ(count_of(run, "the node m04 has joined"), keeps_s == 0 ? 1 : 0);
    EXPECT_EQ(count_of(run, "expected a free place for the node m04"), keeps_s == 0 ? 0 : 1);
  }
}

TEST(KubernetesCluster, ANodeThatReturnsHasItsPlaceAndAGangKeepsThePlaceOfAGoneNode) {
  BusyKube kube(2, 2, 0);
  kube.occupy("n01", 20);
  kube.add_gang("ml/a", 2);
  kube.changes[3] = [](BusyKube& now) {
    now.remove_node("n01");
    now.remove_node("n02");
    now.add_node("m01", "r0");
  };
  kube.changes[9] = [](BusyKube& now) { now.add_node("n02", "r0"); };
  KubernetesCluster::Options options;
  options.places = 2;
  options.keeps_place_s = 0;
  const Course run = run_policy(kube, "fifo", {}, {}, false, options);
  // m01 gets the place of n02, which no gang holds; n02 gets that of n01 after the end of the pod.
  EXPECT_EQ(kube.orders, Orders{"place ml/a on m01,n02"});
  EXPECT_EQ(count_of(run, "expected a free place for the node n02"), 1);
  EXPECT_EQ(count_of(run, "the node n02 has joined"), 1);
}

TEST(KubernetesCluster, AGangThatNeedsARackWaitsWhileTwoRacksHaveHalves) {
  for (const bool needs_rack : {true, false}) {
    BusyKube kube(4, 2, 0);
    kube.occupy("n01", 5);
    kube.occupy("n03", 60);
    kube.add_gang("ml/w", 2).needs_rack = needs_rack;
    run_policy(kube, "fifo");
    EXPECT_TRUE(kube.is_done());
    EXPECT_EQ(kube.orders, Orders{needs_rack ? "place ml/w on n01,n02" : "place ml/w on n02,n04"});
  }
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

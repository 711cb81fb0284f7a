#include "live/kubernetes/gang_follower.hpp"

#include <gtest/gtest.h>

#include <optional>

#include "policies/run/registry.hpp"
#include "tests/live/kubernetes/fake_kube.hpp"

namespace orrery::live {
namespace {

Cluster four_nodes() {
  JobReplay replay;
  replay.set_nodes(4);
  replay.set_gpus_per_node(4);
  return cluster_of(replay);
}

/// Follower with its world; events are kept as words.
class Followed : public GangOutlet {
 public:
  /// Nodes in racks of `per_rack`; `rack` replaces the names of all racks.
  explicit Followed(std::uint32_t per_rack = 4, std::optional<std::string> rack = {})
      : kube(4, per_rack),
        nodes_(named(kube.reading.nodes, rack)),
        world_(cluster_),
        follower_(world_, nodes_, 60, *this) {}

  FakeKube kube;
  std::vector<std::string> events, reports;
  std::int64_t now = 2000;

  void read() {
    events.clear();
    follower_.follow_gangs(kube.reading.gangs, ++now);
  }
  Assign assign(std::uint32_t job, std::uint32_t first_node, std::uint32_t nodes) const {
    Assign assign{.job = {job}};
    for (std::uint32_t gpu = first_node * 4; gpu < (first_node + nodes) * 4; ++gpu) {
      assign.gpus.push_back({gpu});
    }
    assign.layout = world_.jobs()[{job}].spec.layout;
    return assign;
  }
  GangFollower& follower() { return follower_; }
  const World& world() const { return world_; }

  void emit_event(Event event) override {
    world_.apply(event, now * kNanosPerSecond);
    if (std::holds_alternative<JobSubmitted>(event)) events.emplace_back("submitted");
    if (std::holds_alternative<JobStarted>(event)) events.emplace_back("started");
    if (std::holds_alternative<JobStopped>(event)) events.emplace_back("stopped");
    if (const auto* done = std::get_if<JobDone>(&event)) {
      events.emplace_back(done->how == Ending::completed ? "completed"
                          : done->how == Ending::failed  ? "failed"
                                                         : "cancelled");
    }
  }
  void report(std::string text) override { reports.push_back(std::move(text)); }

 private:
  static std::vector<QueueNode> named(std::vector<QueueNode> nodes,
                                      const std::optional<std::string>& rack) {
    for (QueueNode& node : nodes) node.rack = rack.value_or(node.rack);
    return nodes;
  }

  const NodeMap nodes_;
  const Cluster cluster_ = four_nodes();
  World world_;
  GangFollower follower_;
};

using Words = std::vector<std::string>;

TEST(GangFollower, AGangWaitsUntilAllOfItsPodsAreThere) {
  Followed followed;
  followed.kube.add_gang("ml/a", 2).state = GangState::incomplete;
  followed.read();
  EXPECT_EQ(followed.events, Words{});
  followed.kube.gang("ml/a").state = GangState::waiting;
  followed.read();
  EXPECT_EQ(followed.events, Words{"submitted"});
  EXPECT_EQ(followed.follower().id_of({0}), "ml/a");
  EXPECT_EQ(followed.world().jobs()[{0}].spec.title, "name of ml/a");
  followed.kube.gang("ml/a").state = GangState::incomplete;
  followed.read();
  EXPECT_EQ(followed.events, Words{"cancelled"});
}

TEST(GangFollower, AnOrderNamesANodeForEachPodAndIsShownOnceAllPodsAreBound) {
  Followed followed;
  KubeGang& gang = followed.kube.add_gang("ml/a", 4, 2);
  gang.pods_per_node = 2;
  followed.read();
  const Assign assign = followed.assign(0, 1, 2);
  EXPECT_EQ(followed.follower().objection(assign), "");
  EXPECT_NE(followed.follower().objection(followed.assign(0, 1, 1)), "");
  const GangOrder order = followed.follower().order(assign, followed.now);
  EXPECT_EQ(order.nodes, (Words{"n02", "n02", "n03", "n03"}));
  followed.kube.place_gang("ml/a", order.nodes);
  followed.read();
  EXPECT_EQ(followed.events, Words{});
  followed.now += 100;
  followed.read();
  followed.read();
  ASSERT_EQ(followed.reports.size(), 1u);
  EXPECT_NE(followed.reports[0].find("not all of its pods are bound"), std::string::npos);
  followed.kube.gang("ml/a").state = GangState::placed;
  followed.read();
  EXPECT_EQ(followed.events, Words{"started"});
  followed.kube.gang("ml/a").state = GangState::completed;
  followed.read();
  EXPECT_EQ(followed.events, Words{"completed"});
}

TEST(GangFollower, ANewControllerTakesOverPlacedAndHalfPlacedGangs) {
  Followed followed;
  followed.kube.add_gang("ml/a", 1);
  followed.kube.add_gang("ml/b", 1);
  followed.kube.place_gang("ml/a", {"n01"});
  followed.kube.place_gang("ml/b", {"n02"});
  followed.kube.gang("ml/b").state = GangState::placed;
  followed.read();
  EXPECT_EQ(followed.events, (Words{"submitted", "started", "submitted", "started"}));
  followed.kube.gang("ml/a").state = GangState::placed;
  followed.read();
  EXPECT_EQ(followed.events, Words{});
}

TEST(GangFollower, AnEvictedGangKeepsItsJobUntilItsPodsAreBack) {
  Followed followed;
  followed.kube.add_gang("ml/a", 1);
  followed.kube.place_gang("ml/a", {"n01"});
  followed.kube.gang("ml/a").state = GangState::placed;
  followed.read();
  const Assign release{.job = {0}};
  EXPECT_EQ(followed.follower().objection(release), "");
  followed.events.clear();
  EXPECT_EQ(followed.follower().order(release, followed.now).nodes, Words{});
  EXPECT_EQ(followed.events, Words{"stopped"});
  EXPECT_NE(followed.follower().objection(release), "");
  followed.read();
  const KubeGang gone = followed.kube.gang("ml/a");
  followed.kube.reading.gangs.clear();
  followed.read();
  EXPECT_EQ(followed.events, Words{});
  followed.kube.reading.gangs = {gone};
  followed.kube.gang("ml/a").state = GangState::waiting;
  followed.kube.gang("ml/a").nodes.clear();
  followed.read();
  EXPECT_EQ(followed.events, Words{});
  EXPECT_EQ(followed.follower().objection(followed.assign(0, 2, 1)), "");
  followed.kube.gang("ml/a").uid = "another Job of this name";
  followed.read();
  EXPECT_EQ(followed.events, (Words{"cancelled", "submitted"}));
}

TEST(GangFollower, ARefusedGangWaitsAgainAndPausesAfterThreeRefusals) {
  Followed followed;
  followed.kube.add_gang("ml/a", 1);
  followed.read();
  for (int i = 0; i < 3; ++i) {
    const GangOrder order = followed.follower().order(followed.assign(0, 0, 1), followed.now);
    followed.follower().record_refusal(order, "does not fit");
    EXPECT_EQ(followed.events.back(), "stopped");
    if (i < 2) followed.read();
  }
  EXPECT_EQ(followed.reports, (Words{3, "gang ml/a: does not fit"}));
  followed.read();
  EXPECT_EQ(followed.events, Words{"cancelled"});
  followed.now += 60;
  followed.read();
  EXPECT_EQ(followed.events, Words{"submitted"});
}

TEST(GangFollower, ObservedPodsOccupyGpusAndAreNeverOrdered) {
  Followed followed;
  KubeGang& pod = followed.kube.add_gang("else/pod/x", 1, 3);
  pod.is_managed = false;
  pod.state = GangState::placed;
  pod.nodes = {"n01"};
  KubeGang& too_many = followed.kube.add_gang("else/pod/y", 1, 3);
  too_many.is_managed = false;
  too_many.state = GangState::placed;
  too_many.nodes = {"n01"};
  followed.read();
  EXPECT_EQ(followed.events, (Words{"submitted", "started", "submitted", "cancelled"}));
  EXPECT_EQ(followed.reports.size(), 1u);
  EXPECT_NE(followed.follower().objection({.job = {0}}).find("observed only"), std::string::npos);
  followed.kube.reading.gangs.clear();
  followed.read();
  EXPECT_EQ(followed.events, Words{"cancelled"});
}

TEST(GangFollower, AGangThatNeedsARackIsOnNodesOfOneRack) {
  Followed followed(2);
  followed.kube.add_gang("ml/a", 2).needs_rack = true;
  followed.kube.add_gang("ml/large", 3).needs_rack = true;
  followed.read();
  EXPECT_EQ(followed.events, Words{"submitted"});
  ASSERT_EQ(followed.reports.size(), 1u);
  EXPECT_NE(followed.reports[0].find("requests 3 nodes of one rack, and the largest rack has 2"),
            std::string::npos);
  EXPECT_EQ(followed.follower().objection(followed.assign(0, 2, 2)), "");
  EXPECT_NE(followed.follower().objection(followed.assign(0, 1, 2)).find("must be in one rack"),
            std::string::npos);
}

TEST(GangFollower, AGangThatNeedsARackWaitsWithoutLabelsOfRacks) {
  Followed followed(4, "");
  followed.kube.add_gang("ml/a", 2).needs_rack = true;
  followed.kube.add_gang("ml/one", 1).needs_rack = true;
  followed.read();
  EXPECT_EQ(followed.events, Words{"submitted"}) << "one node is in one rack";
  ASSERT_EQ(followed.reports.size(), 1u);
  EXPECT_NE(followed.reports[0].find("--rack-label"), std::string::npos);
}

TEST(GangFollower, AGangThatFitsNoClusterOfThisSizeIsReportedOnce) {
  Followed followed;
  followed.kube.add_gang("ml/large", 5);
  followed.kube.add_gang("ml/wide", 1, 8);
  followed.read();
  followed.read();
  EXPECT_EQ(followed.events, Words{});
  EXPECT_EQ(followed.reports.size(), 2u);
}

}  // namespace
}  // namespace orrery::live

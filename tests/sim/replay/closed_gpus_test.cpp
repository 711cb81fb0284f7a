#include "sim/replay/closed_gpus.hpp"

#include <set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/policies/toy.hpp"

namespace orrery::sim {
namespace {

/// Four nodes of two GPUs.
class ClosedGpusTest : public ::testing::Test {
 protected:
  ClosedGpusTest() : cluster_(toy::cluster(4)), world_(cluster_), closed_(world_) {}

  void run_job(std::uint32_t id, std::uint32_t first, std::uint32_t gpus, Nanos now) {
    toy::run_on(world_, toy::plain(id, gpus), first, now);
  }
  /// Chooses the closed GPUs and returns those that are lost now.
  std::set<std::uint32_t> choose(std::uint32_t most, std::uint32_t down = 0) {
    stopped_.clear();
    const auto stop = [this](JobId job) {
      stopped_.push_back(job.value);
      world_.apply(JobStopped{job, 0}, 100);
    };
    closed_.choose_gpus({.most = most, .down = down, .departures = ++departures_}, stop,
                        [this](Event event) { world_.apply(std::move(event), 100); });
    std::set<std::uint32_t> lost;
    for (const auto& [part, state] : world_.state().parts) {
      if (part.kind == PartKind::gpu) lost.insert(part.index);
    }
    EXPECT_EQ(closed_.count(), lost.size());
    return lost;
  }
  using Gpus = std::set<std::uint32_t>;

  Cluster cluster_;
  World world_;
  ClosedGpus closed_;
  std::vector<std::uint32_t> stopped_;
  std::uint64_t departures_ = 0;
};

TEST_F(ClosedGpusTest, AnIdleClusterClosesItsLastNodes) {
  EXPECT_EQ(choose(5), (Gpus{5, 6, 7}));
  EXPECT_EQ(choose(7), (Gpus{7}));
  EXPECT_EQ(choose(8), Gpus{});
  EXPECT_TRUE(stopped_.empty());
}

TEST_F(ClosedGpusTest, IdleNodesStayOpenAsAWhole) {
  run_job(0, 0, 1, 0);
  run_job(1, 4, 1, 0);
  EXPECT_EQ(choose(6), (Gpus{1, 5}));
  EXPECT_EQ(choose(5), (Gpus{1, 5, 7}));
}

TEST_F(ClosedGpusTest, TheSetIsChosenAnewWhenAJobHasLeft) {
  run_job(0, 0, 7, 0);
  EXPECT_EQ(choose(7), (Gpus{7}));
  world_.apply(JobStopped{{0}, 0}, 50);
  closed_.record_departure(50);
  EXPECT_EQ(closed_.next_choice_time(), 50);
  run_job(1, 0, 1, 60);
  EXPECT_EQ(choose(7), (Gpus{1}));
  EXPECT_EQ(closed_.next_choice_time(), kNever);
}

TEST_F(ClosedGpusTest, TheNewestJobsStop) {
  run_job(0, 0, 2, 10);
  run_job(1, 2, 3, 30);
  run_job(2, 5, 2, 20);
  EXPECT_EQ(choose(4), (Gpus{3, 4, 2, 7}));
  EXPECT_EQ(stopped_, (std::vector{1u})) << "one GPU was idle, and four are enough";
}

TEST_F(ClosedGpusTest, NodesThatAreDownNeedNotBeClosed) {
  EXPECT_EQ(choose(5), (Gpus{5, 6, 7}));
  world_.apply(PartChanged{{PartKind::node, 3}, {.health = Health::lost, .rate = 0}}, 40);
  EXPECT_EQ(choose(5, 1), (Gpus{5}));
  world_.apply(PartChanged{{PartKind::node, 3}, {}}, 41);
  EXPECT_EQ(choose(5), (Gpus{5, 6, 7}));
}

TEST_F(ClosedGpusTest, EqualFactsChangeNothing) {
  choose(5);
  int events = 0;
  closed_.choose_gpus(
      {.most = 5, .departures = departures_}, [](JobId) { FAIL(); },
      [&events](const Event&) { ++events; });
  EXPECT_EQ(events, 0);
}

}  // namespace
}  // namespace orrery::sim

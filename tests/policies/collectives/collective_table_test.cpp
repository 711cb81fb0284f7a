#include "policies/collectives/collective_table.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "policies/parameters.pb.h"
#include "tests/policies/toy.hpp"

namespace orrery {
namespace {

using Kind = CollectiveKind;
using Algorithm = CollectiveAlgorithm;

/// One job on four GPUs, and the policy's decisions about it.
class CollectiveTableTest : public ::testing::Test {
 protected:
  void submit(bool runs) {
    JobSpec job;
    job.id = {world_.jobs().submitted()};
    job.gpus = job.layout.data = 2;
    job.can = Kinds<Setting>::of<CollectiveTable>();
    if (runs) return toy::run_on(world_, job);
    world_.apply(JobSubmitted{job}, 0);
  }
  std::vector<Decision> ask(const CollectiveTableParameters& parameters, bool anew = true) {
    Context context{rng_, {}};
    if (anew) policy_.start(context, cluster_, &parameters);
    DecisionList decisions;
    policy_.observe(context, toy::seen_of(world_, {}, samples_), decisions);
    EXPECT_TRUE(decisions.is_resting());
    return decisions.items();
  }
  static const CollectiveTable& table_of(const Decision& decision) {
    return std::get<CollectiveTable>(std::get<Configure>(decision.what).what);
  }

  const Cluster cluster_ = toy::cluster(1, 4);
  World world_{cluster_};
  NoSamples samples_;
  Rng rng_{1};
  CollectiveTablePolicy policy_;
};

TEST_F(CollectiveTableTest, TellsEachRunningJobOnce) {
  submit(true);
  submit(false);
  CollectiveTableParameters parameters;
  auto& line = *parameters.add_rules();
  line.set_kind("all-reduce");
  line.set_algorithm("halving-doubling");
  line.set_from_bytes(1e6);
  line.set_from_nodes(2);
  const std::vector<Decision> decided = ask(parameters);
  ASSERT_EQ(decided.size(), 1u);
  EXPECT_EQ(job_of(decided[0].what), JobId{0});
  EXPECT_EQ(table_of(decided[0]),
            (CollectiveTable{{Kind::all_reduce, 1e6, 0, Algorithm::halving_doubling, 2}}));
  EXPECT_TRUE(ask(parameters, false).empty());
}

TEST_F(CollectiveTableTest, WithoutRulesEverythingIsAutomatic) {
  submit(true);
  const auto decided = ask({});
  ASSERT_EQ(decided.size(), 1u);
  const CollectiveTable& rules = table_of(decided[0]);
  ASSERT_EQ(rules.size(), 5u);
  for (const CollectiveRule& each : rules) EXPECT_EQ(each.algorithm, Algorithm::automatic);
}

TEST_F(CollectiveTableTest, RemembersWhomItTold) {
  submit(true);
  ask({});
  Archive saved;
  policy_.save(saved);
  policy_ = {};
  policy_.load(saved);
  EXPECT_TRUE(ask({}, false).empty());
  EXPECT_THROW(policy_.load(saved + "x"), Error);
}

TEST_F(CollectiveTableTest, TheWorldHoldsTheTableFromItsStepOn) {
  submit(true);
  const CollectiveTable tree{{Kind::all_reduce, 0, 0, Algorithm::tree, 0}};
  Decision decision{.id = 7, .what = Configure{{0}, tree}, .at_step = 2};
  world_.announce_decision(decision);
  world_.apply(Decided{7, Outcome::applied, ""}, 0);
  const JobInfo& job = world_.jobs()[{0}];
  EXPECT_TRUE(job.now.get<CollectiveTable>().empty());
  world_.apply(StepsDone{.job = {0}, .last = 1, .count = 2}, 0);
  EXPECT_EQ(job.now.get<CollectiveTable>(), tree);
  decision.at_step = 1;
  EXPECT_EQ(world_.objection(decision), "step 1 is past: job 0 works on step 2");
}

TEST(CollectiveTable, TheFarthestRuleThatIsReachedDecides) {
  const CollectiveTable table = {
      {Kind::all_reduce, 0, 0, Algorithm::tree, 0},
      {Kind::all_reduce, 1e6, 0, Algorithm::ring, 0},
      {Kind::all_reduce, 0, 0, Algorithm::hierarchical, 4},
      {Kind::all_gather, 0, 64, Algorithm::direct, 0},
  };
  const auto look = [&](Kind kind, double bytes, std::uint32_t ranks, std::uint32_t nodes) {
    return look_up(table, kind, bytes, ranks, nodes, Algorithm::nvls);
  };
  EXPECT_EQ(look(Kind::all_reduce, 1e3, 8, 1), Algorithm::tree);
  EXPECT_EQ(look(Kind::all_reduce, 1e6, 8, 1), Algorithm::ring);
  EXPECT_EQ(look(Kind::all_reduce, 1e6, 32, 4), Algorithm::hierarchical);
  EXPECT_EQ(look(Kind::all_gather, 1e6, 32, 4), Algorithm::nvls);
  EXPECT_EQ(look(Kind::all_gather, 1e6, 64, 8), Algorithm::direct);
}

}  // namespace
}  // namespace orrery

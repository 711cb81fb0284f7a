#include "policies/collectives/collective_table.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "policies/registry.hpp"
#include "policies/parameters.pb.h"

namespace orrery {
namespace {

using Kind = CollectiveKind;
using Algorithm = CollectiveAlgorithm;

/// One job on four GPUs, and what the policy decides of it.
class CollectiveTableTest : public ::testing::Test {
 protected:
  CollectiveTableTest() {
    replay_.set_nodes(1);
    replay_.set_gpus_per_node(4);
    cluster_ = std::make_unique<Cluster>(cluster_of(replay_));
    world_ = std::make_unique<World>(*cluster_);
  }
  void submit(const std::vector<GpuId>& placed) {
    JobSpec job;
    job.id = {static_cast<std::uint32_t>(world_->jobs().size())};
    job.gpus = job.data = 2;
    world_->apply(JobSubmitted{.job = job, .placed = placed});
  }
  std::vector<Decision> ask(const CollectiveTableParameters& parameters, bool anew = true) {
    Context context{rng_, {kJobs, ~0u}};
    if (anew) policy_.start(context, *cluster_, &parameters);
    DecisionList decisions;
    policy_.observe(context,
                    Observation{.now = 0, .epoch = {}, .sequence = 0, .events = {},
                                .devices = {}, .links = {}, .ranks = {}, .collectives = {},
                                .cluster = *cluster_, .state = world_->state(),
                                .jobs = world_->jobs()},
                    decisions);
    EXPECT_TRUE(decisions.at_rest());
    return decisions.items();
  }

  JobReplay replay_;
  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<World> world_;
  Rng rng_{1};
  CollectiveTablePolicy policy_;
};

TEST_F(CollectiveTableTest, TellsEachRunningJobOnce) {
  submit({{0}, {1}});
  submit({});
  CollectiveTableParameters parameters;
  auto& line = *parameters.add_rules();
  line.set_kind("all-reduce");
  line.set_algorithm("halving-doubling");
  line.set_from_bytes(1e6);
  line.set_from_nodes(2);
  const std::vector<Decision> decided = ask(parameters);
  ASSERT_EQ(decided.size(), 1u);
  const auto& table = std::get<SetCollectiveTable>(decided[0].what);
  EXPECT_EQ(table.job, JobId{0});
  EXPECT_EQ(table.rules,
            (CollectiveTable{{Kind::all_reduce, 1e6, 0, Algorithm::halving_doubling, 2}}));
  EXPECT_TRUE(ask(parameters, false).empty());
}

TEST_F(CollectiveTableTest, WithoutRulesEverythingIsAutomatic) {
  submit({{0}, {1}});
  const auto decided = ask({});
  ASSERT_EQ(decided.size(), 1u);
  const auto& rules = std::get<SetCollectiveTable>(decided[0].what).rules;
  ASSERT_EQ(rules.size(), 5u);
  for (const CollectiveRule& each : rules) EXPECT_EQ(each.algorithm, Algorithm::automatic);
}

TEST_F(CollectiveTableTest, RemembersWhomItTold) {
  submit({{0}, {1}});
  ask({});
  Archive saved;
  policy_.save(saved);
  policy_ = {};
  policy_.load(saved);
  EXPECT_TRUE(ask({}, false).empty());
  EXPECT_THROW(policy_.load(saved + "x"), Error);
}

TEST_F(CollectiveTableTest, TheWorldHoldsTheTableFromItsStepOn) {
  submit({{0}, {1}});
  Decision decision{.number = 7,
                    .what = SetCollectiveTable{{0}, {{Kind::all_reduce, 0, 0, Algorithm::tree, 0}}},
                    .effective_at_step = 2};
  world_->announce(decision);
  world_->apply(DecisionOutcome{.decision = 7, .status = Outcome::applied, .reason = ""});
  EXPECT_TRUE(world_->jobs()[0].collectives.empty());
  world_->apply(StepDone{.job = {0}, .step = 1, .duration = 1});
  ASSERT_EQ(world_->jobs()[0].collectives.size(), 1u);
  decision.effective_at_step = 1;
  EXPECT_EQ(world_->objection(decision), "step 1 is past: job 0 works on step 2");
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

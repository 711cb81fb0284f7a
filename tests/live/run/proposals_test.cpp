#include "live/run/proposals.hpp"

#include <vector>

#include <gtest/gtest.h>

#include "tests/live/run/one_job.hpp"

namespace orrery::live {
namespace {

struct Vote : Carrier {
  std::string refusal(const Decision&) const override { return {}; }
  bool is_step_open(JobId) const override { return false; }
  void emit_event(Event event) override {
    run.world.apply(event, 0);
    if (const auto* outcome = std::get_if<Decided>(&event)) outcomes.push_back(*outcome);
  }
  void carry_out(const Decision&) override {}

  void decide(std::uint64_t id) {
    DecisionList decisions(id);
    decisions.add(Configure{kLiveJob, Shares{{1, 5, 5, 5}}}, "");
    gate.accept_decisions(decisions, 0);
  }

  OneJob run;
  PolicyClock clock;
  DecisionGate gate{
      run.world, {.actions = Kinds<Action>::all(), .settings = Kinds<Setting>::all()}, *this, true};
  std::vector<std::uint64_t> put;
  Proposals proposals{gate, clock, [this](std::uint64_t number) { put.push_back(number); }, 6};
  std::vector<Decided> outcomes;
};

TEST(Proposals, HoldOnceAllRanksHaveThem) {
  Vote vote;
  vote.proposals.propose_waiting();
  EXPECT_TRUE(vote.put.empty());
  vote.decide(0);
  vote.proposals.propose_waiting();
  EXPECT_EQ(vote.put, (std::vector<std::uint64_t>{7}));
  EXPECT_TRUE(vote.proposals.has_open());
  EXPECT_TRUE(vote.outcomes.empty());
  vote.proposals.apply_agreed(7);
  ASSERT_EQ(vote.outcomes.size(), 1u);
  EXPECT_EQ(vote.outcomes[0].status, Outcome::applied);
  EXPECT_FALSE(vote.proposals.has_open());
}

TEST(Proposals, AreVoidWithAnotherMembershipAndRejectedAtTheEndOfTheRun) {
  Vote vote;
  vote.decide(0);
  vote.proposals.propose_waiting();
  vote.proposals.drop_batches(7);
  ASSERT_EQ(vote.outcomes.size(), 1u);
  EXPECT_EQ(vote.outcomes[0].status, Outcome::expired);
  vote.decide(1);
  vote.proposals.propose_waiting();
  vote.proposals.reject_open(vote, "the run has ended");
  ASSERT_EQ(vote.outcomes.size(), 2u);
  EXPECT_EQ(vote.outcomes[1].reason, "the run has ended");
  EXPECT_FALSE(vote.proposals.has_open());
}

}  // namespace
}  // namespace orrery::live

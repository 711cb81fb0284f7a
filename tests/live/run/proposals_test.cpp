#include "live/run/proposals.hpp"

#include <vector>

#include <gtest/gtest.h>

#include "tests/live/run/one_job.hpp"

namespace orrery::live {
namespace {

struct Vote : Carrier {
  std::string refusal(const Decision&) const override { return {}; }
  bool step_open(JobId) const override { return false; }
  void happen(Event event) override {
    run.world.apply(event, 0);
    if (const auto* outcome = std::get_if<Decided>(&event)) outcomes.push_back(*outcome);
  }
  void carry_out(const Decision&) override {}

  void decide(std::uint64_t id) {
    DecisionList decisions(id);
    decisions.add(Configure{kLiveJob, Shares{{1, 5, 5, 5}}}, "");
    gate.take(decisions, 0);
  }

  OneJob run;
  PolicyClock clock;
  DecisionGate gate{
      run.world, {.actions = Kinds<Action>::all(), .settings = Kinds<Setting>::all()}, *this, true};
  std::vector<std::uint64_t> put;
  Proposals proposals{gate, clock, [this](std::uint64_t number) { put.push_back(number); }};
  std::vector<Decided> outcomes;
};

TEST(Proposals, HoldOnceAllRanksHaveThem) {
  Vote vote;
  vote.proposals.go_on_after(6);
  vote.proposals.put();
  EXPECT_TRUE(vote.put.empty());
  vote.decide(0);
  vote.proposals.put();
  EXPECT_EQ(vote.put, (std::vector<std::uint64_t>{7}));
  EXPECT_TRUE(vote.proposals.open());
  EXPECT_TRUE(vote.outcomes.empty());
  vote.proposals.agreed(7);
  ASSERT_EQ(vote.outcomes.size(), 1u);
  EXPECT_EQ(vote.outcomes[0].status, Outcome::applied);
  EXPECT_FALSE(vote.proposals.open());
}

TEST(Proposals, AreVoidWithAnotherMembershipAndRejectedAtTheEndOfTheRun) {
  Vote vote;
  vote.decide(0);
  vote.proposals.put();
  vote.proposals.dropped(1);
  ASSERT_EQ(vote.outcomes.size(), 1u);
  EXPECT_EQ(vote.outcomes[0].status, Outcome::expired);
  vote.decide(1);
  vote.proposals.put();
  vote.proposals.reject(vote, "the run has ended");
  ASSERT_EQ(vote.outcomes.size(), 2u);
  EXPECT_EQ(vote.outcomes[1].reason, "the run has ended");
  EXPECT_FALSE(vote.proposals.open());
}

}  // namespace
}  // namespace orrery::live

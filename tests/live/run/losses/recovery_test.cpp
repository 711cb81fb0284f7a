#include "live/run/losses/recovery.hpp"

#include <csignal>
#include <optional>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/live/run/fake_ranks.hpp"
#include "tests/live/run/one_job.hpp"

namespace orrery::live {
namespace {

/// Four ranks and whoever carries events to the world.
struct Regrouping : Carrier {
  explicit Regrouping(LossResponse response = LossResponse::go_on) : run(response) {}

  std::string refusal(const Decision&) const override { return {}; }
  bool step_open(JobId) const override { return false; }
  void happen(Event event) override {
    run.world.apply(event, clock.now());
    happened.push_back(std::move(event));
  }
  void carry_out(const Decision&) override {}

  template <class E>
  std::vector<E> all() const {
    std::vector<E> found;
    for (const Event& event : happened) {
      if (const auto* each = std::get_if<E>(&event)) found.push_back(*each);
    }
    return found;
  }

  OneJob run;
  FakeRanks ranks;
  PolicyClock clock;
  DecisionGate gate{run.world, {}, *this, true};
  Recovery recovery{run.placement, ranks, *this, gate, clock, std::nullopt};
  std::vector<Event> happened;
};

TEST(Recovery, LossesOfOneInstantAreToldTogetherOnceTheOthersAgree) {
  Regrouping job;
  EXPECT_TRUE(job.recovery.died(2, true));
  EXPECT_TRUE(job.recovery.died(1, true));
  EXPECT_FALSE(job.recovery.died(1, true));  // known already
  EXPECT_TRUE(job.happened.empty());
  EXPECT_TRUE(job.recovery.untold());
  EXPECT_FALSE(job.recovery.nobody_left());
  job.recovery.tell_losses();
  const auto lost = job.all<RanksLost>();
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].ranks, (std::vector<RankId>{{1}, {2}}));
  EXPECT_EQ(lost[0].epoch.value, 2u);
  EXPECT_FALSE(job.recovery.held());
  EXPECT_FALSE(job.recovery.untold());
}

TEST(Recovery, AJobThatIsToHoldStandsStillUntilItIsAssigned) {
  Regrouping job(LossResponse::hold);
  job.recovery.died(3, true);
  job.recovery.tell_losses();
  EXPECT_EQ(job.all<JobHeld>().size(), 1u);
  EXPECT_TRUE(job.recovery.held());
  JournalSnapshot kept;
  job.recovery.keep(kept);
  EXPECT_FALSE(job.recovery.waits_in_vain(false));
  EXPECT_TRUE(job.recovery.waits_in_vain(true));
  job.ranks.there = {0, 1, 2};
  job.recovery.assign(job.run.assign({0, 1, 2}), 7);
  const auto started = job.all<JobStarted>();
  ASSERT_EQ(started.size(), 1u);
  EXPECT_EQ(started[0].from, 7u);
  EXPECT_FALSE(job.recovery.held());
  job.recovery.restore(kept);
  EXPECT_TRUE(job.recovery.held());
  job.recovery.told(started[0], 0);
  EXPECT_FALSE(job.recovery.held());
}

TEST(Recovery, WhereLostRanksAreReplacedTheyAreStartedAtOnce) {
  Regrouping job(LossResponse::replace);
  job.recovery.died(1, true);
  job.recovery.tell_losses();
  EXPECT_EQ(job.ranks.replaced, (std::vector<std::uint32_t>{1}));
  EXPECT_FALSE(job.recovery.died(1, false));  // before it has joined
  EXPECT_EQ(job.ranks.replaced, (std::vector<std::uint32_t>{1, 1}));
  job.recovery.come_true({0, 1, 2, 3}, 4);
  EXPECT_EQ(job.all<JobStarted>().size(), 1u);
}

TEST(Recovery, WhoLeavesIsEndedOnceTheOthersAreThereAndIsNoLoss) {
  Regrouping job;
  job.recovery.assign(job.run.assign({0, 1, 5}), 4);
  EXPECT_EQ(job.ranks.replaced, (std::vector<std::uint32_t>{5}));
  EXPECT_TRUE(job.ranks.signals.empty());
  job.recovery.come_true({0, 1, 2, 3, 5}, 4);
  EXPECT_EQ(job.ranks.signals,
            (std::vector<std::pair<std::uint32_t, int>>{{2, SIGKILL}, {3, SIGKILL}}));
  EXPECT_TRUE(job.all<JobStarted>().empty());
  EXPECT_FALSE(job.recovery.died(2, true));
  job.recovery.come_true({0, 1, 5}, 4);
  EXPECT_EQ(job.all<JobStarted>().size(), 1u);
}

TEST(Recovery, AnAssignmentComesTrueWithoutWhomNobodyStarts) {
  Regrouping job;
  job.recovery.assign(job.run.assign({0, 1, 2, 5}), 4);
  EXPECT_TRUE(job.all<JobStarted>().empty());
  job.ranks.there = {0, 1, 2};
  job.recovery.give_up(5, 4);
  EXPECT_EQ(job.all<JobStarted>().size(), 1u);
  EXPECT_FALSE(job.recovery.deserted());
  job.ranks.there.clear();
  EXPECT_TRUE(job.recovery.deserted());
}

TEST(Recovery, WhoHasNotComeBackToANewControllerIsEndedAndLost) {
  Regrouping job;
  EXPECT_EQ(job.recovery.end_missing({0, 1, 3}), (std::vector<std::uint32_t>{2}));
  EXPECT_EQ(job.ranks.signals.size(), 1u);
  EXPECT_TRUE(job.recovery.died(2, true));
}

}  // namespace
}  // namespace orrery::live

#include "live/run/losses/fault_injector.hpp"

#include <unistd.h>
#include <csignal>

#include <filesystem>
#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "tests/live/run/fake_ranks.hpp"
#include "tests/traces/sample_cluster.hpp"

namespace orrery::live {
namespace {

/// Rank 1 is killed at step 3, rank 2 stands still from 500 ns on.
class FaultInjectorTest : public ::testing::Test {
 protected:
  FaultInjectorTest() {
    add(1).set_at_step(3);
    scenario_.mutable_faults(0)->set_kill(true);
    add(2).set_at_time(500);
    scenario_.mutable_faults(1)->set_stop(true);
  }
  ~FaultInjectorTest() override { std::filesystem::remove(path_); }

  Fault& add(std::uint32_t rank) {
    Fault& fault = *scenario_.add_faults();
    fault.set_rank(rank);
    return fault;
  }

  const std::string path_ =
      ::testing::TempDir() + "fault_injector_test." + std::to_string(getpid());
  const Cluster cluster_ = orrery::testing::sample_cluster(2);
  const std::vector<std::uint32_t> all_{0, 1, 2, 3};
  Scenario scenario_;
  FakeRanks ranks_;
};

TEST_F(FaultInjectorTest, StrikesByASignalAndWritesItDown) {
  Journal journal(path_, "hash");
  FaultInjector faults(scenario_, cluster_, 4, 0, ranks_, journal);
  faults.inject_due(2, 100, all_);
  EXPECT_TRUE(ranks_.signals.empty());
  faults.inject_due(3, 200, all_);
  faults.inject_due(3, 600, all_);
  EXPECT_EQ(ranks_.signals,
            (std::vector<std::pair<std::uint32_t, int>>{{1, SIGKILL}, {2, SIGSTOP}}));
  EXPECT_EQ(faults.take_hit_time(1), 200);
  EXPECT_EQ(faults.take_hit_time(1), std::nullopt);
  const std::vector<JournalStrike> written = Journal(path_, "hash").past().strikes;
  ASSERT_EQ(written.size(), 2u);
  EXPECT_EQ(written[0].rank(), 1u);
  EXPECT_EQ(written[0].at(), 200);
  EXPECT_EQ(journal.state().strikes.size(), 2u);
}

TEST_F(FaultInjectorTest, AnotherControllerStrikesAgainWhomNobodyHasMissed) {
  {
    Journal journal(path_, "hash");
    FaultInjector first(scenario_, cluster_, 4, 0, ranks_, journal);
    first.inject_due(3, 600, all_);
  }
  JournalRecord seen;
  JournalLoss& loss = *seen.mutable_seen()->add_losses();
  loss.set_rank(1);
  loss.mutable_report()->set_time_s(to_seconds(590));  // An earlier fault hit it.
  loss.mutable_report()->set_detected_s(to_seconds(620));
  Journal(path_, "hash").append_record(seen);

  Journal journal(path_, "hash");
  FakeRanks ranks;
  FaultInjector second(scenario_, cluster_, 4, 0, ranks, journal);
  second.send_recorded(650);
  EXPECT_EQ(ranks.signals, (std::vector<std::pair<std::uint32_t, int>>{{2, SIGSTOP}}));
  second.send_recorded(660);
  second.inject_due(3, 700, all_);
  EXPECT_EQ(ranks.signals.size(), 1u);  // each strikes once
}

TEST_F(FaultInjectorTest, AStopThatHasEndedIsNotSentAgain) {
  scenario_.mutable_faults(1)->set_for_(100);
  {
    Journal journal(path_, "hash");
    FaultInjector first(scenario_, cluster_, 4, 0, ranks_, journal);
    first.inject_due(0, 510, all_);
    EXPECT_EQ(ranks_.signals, (std::vector<std::pair<std::uint32_t, int>>{{2, SIGSTOP}}));
  }
  Journal journal(path_, "hash");
  FakeRanks ranks;
  FaultInjector second(scenario_, cluster_, 4, 0, ranks, journal);
  second.continue_stopped(650);
  second.send_recorded(650);
  EXPECT_EQ(ranks.signals, (std::vector<std::pair<std::uint32_t, int>>{{2, SIGCONT}}))
      << "no signal would continue it once more";
}

TEST_F(FaultInjectorTest, TellsPartsThatAreGoneAndThoseThatAreBack) {
  Journal journal(path_, "hash");
  const FaultInjector faults(scenario_, cluster_, 4, 0, ranks_, journal);
  EXPECT_FALSE(faults.has_lost_parts(0, 0));
  ClusterState known;
  EXPECT_TRUE(faults.part_changes(known, 0, 0).empty());
  known.parts[{PartKind::gpu, 2}] = {.health = Health::lost, .rate = 0};
  const std::vector<PartChanged> changes = faults.part_changes(known, 0, 0);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].to.health, Health::ok);
}

TEST_F(FaultInjectorTest, AChangeComesAtAnInstantOrHasNotBeenReported) {
  Fault& down = *scenario_.add_faults();
  down.set_gpu(3);
  down.set_at_time(700);
  down.set_down(true);
  Journal journal(path_, "hash");
  const FaultInjector faults(scenario_, cluster_, 4, 0, ranks_, journal);
  ClusterState known;
  EXPECT_TRUE(faults.has_coming_changes(known, 0, 600));
  EXPECT_TRUE(faults.has_coming_changes(known, 0, 800)) << "the loss is not reported yet";
  known.parts[{PartKind::gpu, 3}] = faults.part_changes(known, 0, 800).at(0).to;
  EXPECT_FALSE(faults.has_coming_changes(known, 0, 800)) << "only a fault of step 3 is left";
}

TEST_F(FaultInjectorTest, TellsHowSlowPartsAre) {
  const auto slow = [this](std::uint32_t from, std::uint32_t until, double rate) {
    Fault& fault = *scenario_.add_faults();
    fault.set_gpu(2);
    fault.set_at_step(from);
    fault.set_until_step(until);
    fault.set_rate(rate);
  };
  slow(5, 9, 0.5), slow(7, 8, 0.3);
  Journal journal(path_, "hash");
  const FaultInjector faults(scenario_, cluster_, 4, 0, ranks_, journal);
  ClusterState known;
  EXPECT_TRUE(faults.part_changes(known, 4, 0).empty());
  for (const auto& [step, expected] : std::map<Step, double>{{5, 0.5}, {7, 0.15}, {8, 0.5}}) {
    const std::vector<PartChanged> changes = faults.part_changes(known, step, 0);
    ASSERT_EQ(changes.size(), 1u);
    EXPECT_EQ(changes[0].part, (Part{PartKind::gpu, 2}));
    EXPECT_DOUBLE_EQ(changes[0].to.rate, expected);
    EXPECT_DOUBLE_EQ(faults.hardware(2, step, 0).speed(), expected) << "as the rank computes";
    known.parts[changes[0].part] = changes[0].to;
    EXPECT_TRUE(faults.part_changes(known, step, 0).empty());
    EXPECT_FALSE(faults.has_lost_parts(step, 0));
  }
  ASSERT_EQ(faults.part_changes(known, 9, 0).size(), 1u);
  EXPECT_TRUE(faults.part_changes(known, 9, 0)[0].to.is_nominal());
}

TEST_F(FaultInjectorTest, AnAnnouncedRemovalIsTheSameForASuccessor) {
  const std::uint32_t gpus = cluster_.shape().gpus_per_node;
  const Part node{PartKind::node, 0};
  const ClusterState known;
  const auto announced = [&](const FaultInjector& faults, Nanos now) {
    const std::vector<PartChanged> changes = faults.part_changes(known, 0, now);
    return changes.size() == 1 && changes[0].part == node && changes[0].to.removal &&
           changes[0].to.removal->at == 1'400 && changes[0].to.removal->back_at == 9'400;
  };
  {
    Journal journal(path_, "hash");
    FaultInjector faults(scenario_, cluster_, gpus, 0, ranks_, journal);
    EXPECT_TRUE(faults.part_changes(known, 0, 300).empty());
    faults.announce_removal(node, 400, 1'000, 8'000, true);
    EXPECT_TRUE(announced(faults, 400));
    EXPECT_TRUE(faults.has_test(node));
    EXPECT_EQ(faults.next_instant(600), 1'400);
    EXPECT_FALSE(faults.has_lost_parts(0, 1'399));
    EXPECT_EQ(journal.state().removals.size(), 1u);
  }
  Journal journal(path_, "hash");
  FakeRanks ranks;
  FaultInjector second(scenario_, cluster_, gpus, 0, ranks, journal);
  EXPECT_TRUE(announced(second, 700));
  EXPECT_TRUE(second.has_lost_parts(0, 1'400));
  second.inject_due(0, 1'400, all_);
  std::set<std::uint32_t> killed;
  for (const auto& [rank, signal] : ranks.signals) {
    if (signal == SIGKILL) killed.insert(rank);
  }
  EXPECT_EQ(killed.size(), std::min<std::size_t>(gpus, all_.size()));
  EXPECT_EQ(second.take_hit_time(0), 1'400);
}

}  // namespace
}  // namespace orrery::live

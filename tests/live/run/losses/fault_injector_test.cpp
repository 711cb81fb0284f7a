#include "live/run/losses/fault_injector.hpp"

#include <csignal>
#include <filesystem>
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

  const std::string path_ = ::testing::TempDir() + "fault_injector_test.journal";
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
  JournalSnapshot kept;
  faults.save_to(kept);
  EXPECT_EQ(kept.strikes_size(), 2);
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
  loss.mutable_report()->set_time_s(to_seconds(600));
  Journal(path_, "hash").append_record(seen);

  Journal journal(path_, "hash");
  FakeRanks ranks;
  FaultInjector second(scenario_, cluster_, 4, 0, ranks, journal);
  second.repeat_injections();
  EXPECT_EQ(ranks.signals, (std::vector<std::pair<std::uint32_t, int>>{{2, SIGKILL}}));
  second.inject_due(3, 700, all_);
  EXPECT_EQ(ranks.signals.size(), 1u);  // each strikes once
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

}  // namespace
}  // namespace orrery::live

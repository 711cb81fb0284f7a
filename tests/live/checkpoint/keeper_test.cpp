#include "live/checkpoint/keeper.hpp"

#include <unistd.h>

#include <filesystem>
#include <thread>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "tests/live/checkpoint/samples.hpp"
#include "tests/live/checkpoint/stores.hpp"

namespace orrery::live {
namespace {

constexpr std::uint32_t kRanks = 2;
constexpr int kNoCall = 1'000'000;

class CheckpointKeeperTest : public testing::Test {
 protected:
  ~CheckpointKeeperTest() override { std::filesystem::remove_all(path_); }

  std::unique_ptr<CheckpointKeeper> keeper(std::uint32_t keep, int fails_at = kNoCall,
                                           std::chrono::milliseconds patience = kPatience) {
    return std::make_unique<CheckpointKeeper>(
        std::make_unique<FailingStore>(*store_, fails_at, true),
        CheckpointKeeper::Options{
            .training = kTraining, .total = kParameters, .keep = keep, .patience = patience});
  }

  /// Writes a shard as a rank does.
  Seal write(std::uint64_t attempt, Step step, std::uint32_t rank) {
    const ShardHeader header = header_of({kTraining, step, attempt}, rank, kRanks);
    return CheckpointArchive(*store_).write_shard(header, encoded_shard(header, state_at(step)));
  }

  void write_all(CheckpointKeeper& keeper, Step step) {
    const std::uint64_t attempt = keeper.next_attempt();
    keeper.begin(step, kRanks);
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      keeper.shard_durable(attempt, rank, write(attempt, step, rank));
    }
  }

  static std::vector<CheckpointKeeper::Outcome> outcomes(CheckpointKeeper& keeper,
                                                         std::size_t count) {
    std::vector<CheckpointKeeper::Outcome> all;
    for (int i = 0; i < 1000 && (all.size() < count || !keeper.is_idle()); ++i) {
      for (auto& outcome : keeper.drain_outcomes()) all.push_back(std::move(outcome));
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_EQ(all.size(), count);
    EXPECT_TRUE(keeper.is_idle());
    return all;
  }

  std::vector<Step> whole() {
    std::vector<Step> steps;
    CheckpointArchive archive(*store_);
    for (const CheckpointId& id : archive.committed_attempts(kTraining)) {
      EXPECT_EQ(archive.load(id, kParameters), state_at(id.step));
      steps.push_back(id.step);
    }
    return steps;
  }

  static constexpr std::chrono::milliseconds kPatience{60'000};
  const std::string path_ = testing::TempDir() + "orrery_keeper." + std::to_string(getpid());
  // used by this process alone
  const std::unique_ptr<Store> store_ = FolderStore::make_folder(path_);
};

TEST_F(CheckpointKeeperTest, ACheckpointOfReplicasThatDisagreeIsNeverComplete) {
  auto keeper = this->keeper(2);
  write_all(*keeper, 10);
  const Checksum state(9, 9);
  for (const bool agrees : {false, true}) {
    const std::uint64_t attempt = keeper->next_attempt();
    const Step step = agrees ? 30 : 20;
    keeper->begin(step, kRanks);
    keeper->shard_durable(attempt, 0, write(attempt, step, 0), {{{0, state}}, {4, 5}});
    keeper->shard_durable(attempt, 1, write(attempt, step, 1),
                          {{{0, agrees ? state : Checksum(1, 1)}}, {5, 4}});
  }
  const auto all = outcomes(*keeper, 3);
  EXPECT_NE(all[1].failure.find("equal training states"), std::string::npos) << all[1].failure;
  EXPECT_EQ(all[2].failure, "");
  EXPECT_EQ(whole(), (std::vector<Step>{10, 30}));
}

TEST_F(CheckpointKeeperTest, ACheckpointIsThereWhenAllShardsAre) {
  const auto keep = keeper(2);
  const std::uint64_t attempt = keep->next_attempt();
  keep->begin(10, kRanks);
  keep->shard_durable(attempt, 0, write(attempt, 10, 0));
  keep->shard_durable(attempt, 0, write(attempt + 7, 10, 0));  // said twice
  EXPECT_FALSE(keep->is_idle());
  EXPECT_TRUE(whole().empty());
  const Seal seal = write(attempt, 10, 1);
  keep->shard_durable(attempt, 1, seal);
  const auto done = outcomes(*keep, 1);
  EXPECT_EQ(done[0].step, 10u);
  EXPECT_EQ(done[0].failure, "");
  EXPECT_EQ(done[0].size, shard_size(header_of(id_at(10), 0, kRanks)) + seal.size);
  EXPECT_EQ(whole(), std::vector<Step>{10});
}

TEST_F(CheckpointKeeperTest, TheNewestAreKept) {
  const auto keep = keeper(2);
  for (const Step step : {10u, 20u, 30u, 40u}) {
    write_all(*keep, step);
    outcomes(*keep, 1);
  }
  EXPECT_EQ(whole(), (std::vector<Step>{30, 40}));
  EXPECT_EQ(store_->list().size(), 2 * (kRanks + 1));
}

/// A rollback happens while a slow disk still writes the manifest of a later step.
TEST_F(CheckpointKeeperTest, AProtectedOneStaysUntilTheNextBegins) {
  const auto keep = keeper(1);
  const std::uint64_t first = keep->next_attempt();
  write_all(*keep, 10);
  outcomes(*keep, 1);
  const std::uint64_t late = keep->next_attempt();
  // begin() ends the protection, so the attempt begins before the rollback.
  keep->begin(20, kRanks);
  keep->protect_checkpoint({kTraining, 10, first});
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    keep->shard_durable(late, rank, write(late, 20, rank));
  }
  const auto ended = outcomes(*keep, 1);
  EXPECT_EQ(ended[0].attempt, late);
  EXPECT_EQ(whole(), (std::vector<Step>{10, 20}));
  write_all(*keep, 15);
  outcomes(*keep, 1);
  EXPECT_EQ(whole(), (std::vector<Step>{15}));
}

TEST_F(CheckpointKeeperTest, AFailedOneCountsAndLeavesTheOlderOnes) {
  const auto keep = keeper(1);
  write_all(*keep, 10);
  outcomes(*keep, 1);
  std::uint64_t attempt = keep->next_attempt();
  keep->begin(20, kRanks);
  keep->shard_durable(attempt, 0, write(attempt, 20, 0));
  keep->shard_failed(attempt, 1, "no space left on this device");
  keep->shard_failed(attempt, 1, "said twice");
  EXPECT_NE(outcomes(*keep, 1)[0].failure.find("no space left"), std::string::npos);
  EXPECT_EQ(whole(), std::vector<Step>{10});
  EXPECT_EQ(store_->list().size(), kRanks + 1) << "the failed one's files are gone";

  attempt = keep->next_attempt();
  keep->begin(30, kRanks);
  keep->shard_durable(attempt, 0, write(attempt, 30, 0));
  keep->writer_gone(0);  // its shard is durable: nothing is lost with it
  EXPECT_FALSE(keep->is_idle());
  keep->writer_gone(1);
  EXPECT_NE(outcomes(*keep, 1)[0].failure, "");
  write_all(*keep, 40);
  EXPECT_EQ(outcomes(*keep, 1)[0].failure, "");
  EXPECT_EQ(whole(), std::vector<Step>{40});
}

TEST_F(CheckpointKeeperTest, WhatComesAfterAnAttemptHasFailedIsRemovedInTheEnd) {
  {
    const auto keep = keeper(1);
    const std::uint64_t attempt = keep->next_attempt();
    keep->begin(20, kRanks);
    keep->shard_failed(attempt, 1, "no space left on this device");
    outcomes(*keep, 1);
    keep->shard_durable(attempt, 0, write(attempt, 20, 0));
    EXPECT_TRUE(keep->is_idle());
  }
  EXPECT_TRUE(store_->list().empty());
}

TEST_F(CheckpointKeeperTest, WhatComesWhenLaterAttemptsHaveFailedTooIsRemovedInTheEnd) {
  {
    const auto keep = keeper(1);
    write_all(*keep, 10);
    outcomes(*keep, 1);
    const std::uint64_t first = keep->next_attempt();
    for (int attempt = 0; attempt < 3; ++attempt) {
      const std::uint64_t number = keep->next_attempt();
      keep->begin(20, kRanks);
      keep->shard_failed(number, 1, "no space left on this device");
      outcomes(*keep, 1);
    }
    write(first, 20, 0);  // written by a rank without any of these events
  }
  EXPECT_EQ(whole(), std::vector<Step>{10});
  EXPECT_EQ(store_->list().size(), kRanks + 1);
}

TEST_F(CheckpointKeeperTest, WhatIsUnderWayWhenTheRunEndsGoes) {
  {
    const auto keep = keeper(1);
    write_all(*keep, 10);
    outcomes(*keep, 1);
    write(keep->next_attempt(), 20, 0);
    keep->begin(20, kRanks);
  }
  EXPECT_EQ(whole(), std::vector<Step>{10});
  EXPECT_EQ(store_->list().size(), kRanks + 1);
}

TEST_F(CheckpointKeeperTest, AnAttemptThatTakesTooLongHasFailed) {
  const auto keep = keeper(1, kNoCall, std::chrono::milliseconds(1));
  keep->begin(10, kRanks);
  EXPECT_NE(outcomes(*keep, 1)[0].failure.find("in time"), std::string::npos);
  keep->begin(20, kRanks);
  keep->begin(30, kRanks);
  outcomes(*keep, 2);
}

TEST_F(CheckpointKeeperTest, WhicheverCallFailsTheOlderCheckpointStays) {
  for (int n = 0; n < 5; ++n) {  // create, write, sync, rename, sync names: of the manifest
    write_checkpoint(*store_, 10, kRanks);
    {
      const auto keep = keeper(1, n);
      write_all(*keep, 20);
      EXPECT_NE(outcomes(*keep, 1)[0].failure, "") << n;
    }
    const auto newest = CheckpointArchive(*store_).search_newest(kTraining, kParameters).newest;
    ASSERT_TRUE(newest);
    EXPECT_EQ(newest->step, n < 4 ? 10u : 20u) << "call " << n;
    for (const std::string& name : store_->list()) store_->remove_file(name);
  }
}

TEST_F(CheckpointKeeperTest, OneWhoseManifestMayNotBeDurableHasFailedAndGoes) {
  write_checkpoint(*store_, 10, kRanks);
  {
    const auto keep = std::make_unique<CheckpointKeeper>(
        std::make_unique<FailingStore>(*store_, 4, false),  // the manifest's name alone
        CheckpointKeeper::Options{.training = kTraining, .total = kParameters, .keep = 1});
    write_all(*keep, 20);
    EXPECT_NE(outcomes(*keep, 1)[0].failure, "");
  }
  EXPECT_EQ(whole(), std::vector<Step>{10});
}

TEST_F(CheckpointKeeperTest, ARunThatGoesOnTakesOverWhatTheEarlierOneHasLeft) {
  for (const Step step : {10u, 20u, 90u}) write_checkpoint(*store_, step, kRanks);
  write(5, 25, 0);
  const auto keep = keeper(2);
  keep->adopt_existing(20);
  write_all(*keep, 30);
  outcomes(*keep, 1);
  EXPECT_EQ(whole(), (std::vector<Step>{20, 30, 90}));
  EXPECT_EQ(store_->list().size(), 3 * (kRanks + 1));
}

TEST_F(CheckpointKeeperTest, ANewControllerTakesOverWhatTheEarlierOneHasBegun) {
  for (const Step step : {10u, 20u, 30u, 90u}) write_checkpoint(*store_, step, kRanks);
  write(id_at(40).attempt, 40, 0);
  write(7, 40, 1);  // attempt of another run
  const auto keep = keeper(2);
  keep->continue_attempts({id_at(5), id_at(10), id_at(20), id_at(30), id_at(40)});
  const auto told = outcomes(*keep, 5);
  EXPECT_NE(told[0].failure, "") << "it has been removed";
  for (const std::size_t i : {1u, 2u, 3u}) {
    EXPECT_EQ(told[i].failure, "");
    EXPECT_EQ(told[i].step, 10 * i);
    EXPECT_EQ(told[i].size, shard_size(header_of(id_at(10), 0, kRanks)) +
                                shard_size(header_of(id_at(10), 1, kRanks)));
  }
  EXPECT_NE(told[4].failure, "");
  EXPECT_EQ(whole(), (std::vector<Step>{20, 30, 90}));
  EXPECT_EQ(store_->list().size(), 3 * (kRanks + 1) + 1) << "the other run's shard stays";
  write(id_at(40).attempt, 40, 1);  // a rank that was slow
  write_all(*keep, 50);
  outcomes(*keep, 1);
  EXPECT_EQ(whole(), (std::vector<Step>{30, 50, 90}));
  EXPECT_EQ(store_->list().size(), 3 * (kRanks + 1) + 1);
}

TEST_F(CheckpointKeeperTest, AnAttemptOfAnEarlierControllerWithAnInvalidManifestIsDeleted) {
  for (const Step step : {10u, 20u}) write_checkpoint(*store_, step, kRanks);
  for (const auto& file : std::filesystem::directory_iterator(path_)) {
    const std::string name = file.path().filename();
    if (name.starts_with("step-000000000020") && name.ends_with("manifest")) {
      std::filesystem::resize_file(file.path(), 40);
    }
  }
  const auto keep = keeper(2);
  keep->continue_attempts({id_at(10), id_at(20)});
  const auto told = outcomes(*keep, 2);
  EXPECT_EQ(told[0].failure, "");
  EXPECT_NE(told[1].failure, "");
  EXPECT_EQ(whole(), std::vector<Step>{10});
  EXPECT_EQ(store_->list().size(), kRanks + 1);
}

}  // namespace
}  // namespace orrery::live

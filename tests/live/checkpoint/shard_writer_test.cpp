#include "live/checkpoint/shard_writer.hpp"

#include <condition_variable>
#include <mutex>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "tests/live/checkpoint/samples.hpp"
#include "tests/live/checkpoint/stores.hpp"
#include "tests/live/flip.hpp"

namespace orrery::live {
namespace {

/// Stands for a store that belongs to somebody else.
class Borrowed : public FailingStore {
 public:
  Borrowed(Store& store, int fails_at) : FailingStore(store, fails_at, false) {}
};

constexpr int kNever = 1000;

ShardHeader header() { return header_of(id_at(5), 0, 1); }

TEST(ShardWriter, WritesOnAThreadOfItsOwnAndSaysSo) {
  MemoryStore store;
  std::vector<ShardOutcome> outcomes;
  {
    ShardWriter writer([&] { return std::make_unique<Borrowed>(store, kNever); },
                       [&](const ShardOutcome& outcome) { outcomes.push_back(outcome); });
    writer.write(header(), state_at(5));
    writer.wait_until_idle();
    ASSERT_EQ(outcomes.size(), 1u);
    EXPECT_EQ(outcomes[0].failure, "");
    EXPECT_EQ(outcomes[0].seal.size, shard_size(header()));
    writer.write(header_of(id_at(6), 0, 1), state_at(6));
  }
  EXPECT_EQ(outcomes.size(), 2u) << "what has begun is finished before it goes";
  CheckpointArchive archive(store);
  archive.commit_manifest({.id = id_at(5), .total = kParameters, .shards = {outcomes[0].seal}});
  EXPECT_EQ(archive.load(id_at(5), kParameters), state_at(5));
}

TEST(ShardWriter, WhatFailsIsSaidAndTheNextOneIsTriedAgain) {
  MemoryStore store;
  std::vector<ShardOutcome> outcomes;
  int opened = 0;
  ShardWriter writer(
      [&]() -> std::unique_ptr<Store> {
        if (++opened == 1) throw Error(ErrorKind::environment, "no such disk");
        return std::make_unique<Borrowed>(store, opened == 2 ? 1 : kNever);
      },
      [&](const ShardOutcome& outcome) { outcomes.push_back(outcome); });
  for (Step step = 5; step < 8; ++step) {
    writer.write(header_of(id_at(step), 0, 1), state_at(step));
    writer.wait_until_idle();
  }
  ASSERT_EQ(outcomes.size(), 3u);
  EXPECT_NE(outcomes[0].failure.find("no such disk"), std::string::npos);
  EXPECT_NE(outcomes[1].failure.find("no space left"), std::string::npos);
  EXPECT_EQ(outcomes[2].failure, "");
  EXPECT_EQ(store.list().size(), 1u);
}

TEST(ShardWriter, ACopyThatChangesInMemoryBeforeItIsWrittenFails) {
  MemoryStore store;
  std::vector<ShardOutcome> outcomes;
  const std::vector<float> parameters = state_at(5).parameters;
  ShardWriter writer(
      [&] {
        const std::vector<float*> copies = copies_in_memory(parameters);
        EXPECT_FALSE(copies.empty());
        for (float* const copy : copies) flip_bit(*copy);
        return std::make_unique<Borrowed>(store, kNever);
      },
      [&](const ShardOutcome& outcome) { outcomes.push_back(outcome); });
  writer.write(header(), state_at(5));
  writer.wait_until_idle();
  ASSERT_EQ(outcomes.size(), 1u);
  EXPECT_NE(outcomes[0].failure.find("the copy of the shard in memory"), std::string::npos);
  EXPECT_TRUE(store.list().empty());
}

TEST(ShardWriter, TheStepLoopDoesNotWaitForASlowDisk) {
  std::mutex mutex;
  std::condition_variable changed;
  bool slow = true;
  MemoryStore store;
  std::vector<ShardOutcome> outcomes;
  ShardWriter writer(
      [&] {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return !slow; });
        return std::make_unique<Borrowed>(store, kNever);
      },
      [&](const ShardOutcome& outcome) {
        const std::scoped_lock lock(mutex);
        outcomes.push_back(outcome);
      });
  writer.write(header(), state_at(5));
  writer.write(header_of(id_at(6), 0, 1), state_at(6));  // returns though the first is stuck
  {
    const std::scoped_lock lock(mutex);
    ASSERT_EQ(outcomes.size(), 1u);
    EXPECT_EQ(outcomes[0].header.id.step, 6u);
    EXPECT_NE(outcomes[0].failure, "");
    slow = false;
    changed.notify_all();
  }
  writer.wait_until_idle();
  ASSERT_EQ(outcomes.size(), 2u);
  EXPECT_EQ(outcomes[1].failure, "");
}

}  // namespace
}  // namespace orrery::live

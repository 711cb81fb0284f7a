#include "live/checkpoint/archive.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "tests/live/checkpoint/samples.hpp"
#include "tests/live/checkpoint/stores.hpp"

namespace orrery::live {
namespace {

std::optional<CheckpointId> newest(Store& store) {
  return CheckpointArchive(store).search_newest(kTraining, kParameters).newest;
}

/// The newest whole checkpoint is that of step `step`, with exactly its state.
testing::AssertionResult holds(Store& store, Step step) {
  const auto found = newest(store);
  if (!found) return testing::AssertionFailure() << "no whole checkpoint";
  const TrainingState state = CheckpointArchive(store).load(*found, kParameters);
  if (found->step != step) return testing::AssertionFailure() << "step " << found->step;
  if (state != state_at(step)) return testing::AssertionFailure() << "another state";
  return testing::AssertionSuccess();
}

TEST(CheckpointArchive, ACheckpointIsReadAsItWasWrittenByAnyNumberOfRanks) {
  for (const std::uint32_t ranks : {1u, 2u, 3u, 23u, 40u}) {
    MemoryStore store;
    write_checkpoint(store, 12, ranks);
    EXPECT_TRUE(holds(store, 12)) << ranks;
  }
}

TEST(CheckpointArchive, TheNewestOfSeveralIsFound) {
  MemoryStore store;
  for (const Step step : {9u, 1000u, 20u}) write_checkpoint(store, step, 2);
  EXPECT_TRUE(holds(store, 1000));
}

TEST(CheckpointArchive, WithoutAManifestThereIsNoCheckpoint) {
  MemoryStore store;
  CheckpointArchive archive(store);
  EXPECT_FALSE(newest(store));
  archive.write_shard(header_of(id_at(3), 0, 1), encoded_shard(header_of(id_at(3), 0, 1),
                                                               state_at(3)));
  EXPECT_FALSE(newest(store));
  EXPECT_EQ(archive.unfinished(kTraining), std::vector{id_at(3)});
  write_checkpoint(store, 4, 1);
  EXPECT_EQ(archive.unfinished(kTraining), std::vector{id_at(3)});
  EXPECT_EQ(archive.committed_attempts(kTraining), std::vector{id_at(4)});
}

TEST(CheckpointArchive, ADamagedOneIsPassedOverAndNamed) {
  const auto damage = [](MemoryStore& store, const std::string& part, auto how) {
    for (const std::string& name : store.list()) {
      if (name.find("0020.") != std::string::npos && name.find(part) != std::string::npos) {
        how(store, name);
      }
    }
  };
  const auto flip = [](MemoryStore& store, const std::string& name) {
    store.content(name)[store.content(name).size() / 2] ^= 4;
  };
  const auto cut = [](MemoryStore& store, const std::string& name) {
    store.content(name).resize(store.content(name).size() - 1);
  };
  const auto drop = [](MemoryStore& store, const std::string& name) { store.remove_file(name); };
  for (const std::string part : {"manifest", "shard-0-of-3", "shard-2-of-3"}) {
    for (int kind = 0; kind < 3; ++kind) {
      MemoryStore store;
      write_checkpoint(store, 10, 2);
      write_checkpoint(store, 20, 3);
      if (kind == 0) damage(store, part, flip);
      if (kind == 1) damage(store, part, cut);
      if (kind == 2) damage(store, part, drop);
      EXPECT_TRUE(holds(store, 10)) << part << kind;
      const auto search = CheckpointArchive(store).search_newest(kTraining, kParameters);
      const bool unseen = kind == 2 && part == "manifest";  // then it is as if it had never been
      ASSERT_EQ(search.passed_over.size(), unseen ? 0u : 1u) << part << kind;
      if (!unseen) {
        EXPECT_NE(search.passed_over[0].find(part), std::string::npos) << search.passed_over[0];
      }
    }
  }
}

TEST(CheckpointArchive, ShardsOfAnotherCheckpointAreNotTakenForItsOwn) {
  MemoryStore store;
  write_checkpoint(store, 10, 2);
  write_checkpoint(store, 20, 2);
  std::string older, newer;
  for (const std::string& name : store.list()) {
    if (name.find("shard-1") == std::string::npos) continue;
    (name.find("0020.") == std::string::npos ? older : newer) = name;
  }
  store.content(newer) = store.content(older);
  EXPECT_TRUE(holds(store, 10));
}

TEST(CheckpointArchive, AnotherTrainingOrModelIsNotFound) {
  MemoryStore store;
  write_checkpoint(store, 10, 2);
  CheckpointArchive archive(store);
  EXPECT_FALSE(archive.search_newest(sha256_hex("another"), kParameters).newest);
  const auto search = archive.search_newest(kTraining, kParameters + 1);
  EXPECT_FALSE(search.newest);
  ASSERT_EQ(search.passed_over.size(), 1u);
  EXPECT_NE(search.passed_over[0].find("parameters"), std::string::npos) << search.passed_over[0];
}

TEST(CheckpointArchive, OtherFilesOfTheFolderAreLeftAlone) {
  MemoryStore store;
  const std::vector<std::string> others{
      "notes.txt", "step-", "step-000000000010", "step-9.manifest",
      "step-99999999999999999999999999.aa.bb.manifest", "step-000000000010.x.y.manifest"};
  for (const std::string& name : others) store.create_file(name);
  write_checkpoint(store, 10, 2);
  EXPECT_TRUE(holds(store, 10));
  CheckpointArchive(store).remove_attempt(id_at(10));
  EXPECT_EQ(store.list().size(), others.size());
}

/// Writes the checkpoint of step 20 beside that of step 10 and removes the older one, as a run
/// does; everything goes through a store that fails at call `n`. True if it failed.
bool replace_checkpoint(Store& store, int n, bool for_good) {
  FailingStore failing(store, n, for_good);
  try {
    write_checkpoint(failing, 20, 3);
    CheckpointArchive(failing).remove_attempt(id_at(10));
  } catch (const Error&) {
  }
  return failing.has_failed();
}

TEST(CheckpointArchive, WhicheverCallFailsTheNewestIsTheOldOrTheNewOne) {
  for (const bool for_good : {false, true}) {
    bool failed = true;
    int n = 0;
    for (; failed; ++n) {
      MemoryStore store;
      write_checkpoint(store, 10, 2);
      failed = replace_checkpoint(store, n, for_good);
      EXPECT_TRUE(holds(store, 10) || holds(store, 20)) << "call " << n;
    }
    EXPECT_GT(n, 4 * 5) << "creates, writes, syncs, renames and syncs names of four files";
  }
}

TEST(CheckpointArchive, WhateverSurvivesALossOfPowerTheNewestIsTheOldOrTheNewOne) {
  const char* given = std::getenv("ORRERY_SEED");
  const std::uint64_t seed = given ? std::strtoull(given, nullptr, 10) : 1;
  SCOPED_TRACE(testing::Message() << "ORRERY_SEED=" << seed);
  Rng rng(seed);
  bool failed = true;
  for (int n = 0; failed; ++n) {
    MemoryStore store;
    write_checkpoint(store, 10, 2);
    failed = replace_checkpoint(store, n, true);
    for (int i = 0; i < 200; ++i) {
      MemoryStore left = store.lose_power(rng);
      ASSERT_TRUE(holds(left, 10) || holds(left, 20)) << "power lost at call " << n;
      if (!failed) {
        ASSERT_TRUE(holds(left, 20)) << "what was durable is gone";
      }
    }
  }
}

TEST(CheckpointArchive, OneThatIsBeingRemovedIsWholeOrGone) {
  Rng rng(1);
  bool failed = true;
  for (int n = 0; failed; ++n) {
    MemoryStore store;
    write_checkpoint(store, 10, 3);
    FailingStore failing(store, n, true);
    try {
      CheckpointArchive(failing).remove_attempt(id_at(10));
    } catch (const Error&) {
    }
    failed = failing.has_failed();
    for (int i = 0; i < 200; ++i) {
      MemoryStore left = store.lose_power(rng);
      ASSERT_TRUE(
          CheckpointArchive(left).search_newest(kTraining, kParameters).passed_over.empty());
    }
  }
}

TEST(CheckpointArchive, AFailedShardGivesItsSpaceBack) {
  for (int n = 0; n < 4; ++n) {
    MemoryStore store;
    FailingStore failing(store, n, false);
    const ShardHeader header = header_of(id_at(3), 0, 1);
    EXPECT_THROW(CheckpointArchive(failing).write_shard(header, encoded_shard(header, state_at(3))),
                 Error);
    EXPECT_TRUE(store.list().empty()) << "call " << n;
  }
}

TEST(CheckpointArchive, WorksOnAFolderOfTheFileSystem) {
  const std::string path = testing::TempDir() + "orrery_archive." + std::to_string(getpid());
  std::filesystem::remove_all(path);
  const auto store = FolderStore::make_folder(path);
  for (const Step step : {10u, 20u}) write_checkpoint(*store, step, 3);
  EXPECT_TRUE(holds(*store, 20));
  CheckpointArchive(*store).remove_attempt(id_at(20));
  EXPECT_TRUE(holds(*store, 10));
  EXPECT_EQ(store->list().size(), 4u);
  std::filesystem::remove_all(path);
}

}  // namespace
}  // namespace orrery::live

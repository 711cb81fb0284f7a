#include "live/checkpoint/spread_store.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "live/checkpoint/archive.hpp"

namespace orrery::live {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kTotal = 10;

/// Checkpoint of two shards in the memory of the nodes 0 and 1.
class SpreadStoreTest : public ::testing::Test {
 protected:
  SpreadStoreTest() { fs::remove_all(root_); }
  ~SpreadStoreTest() override { fs::remove_all(root_); }

  /// Writes a checkpoint whose shards are in the folders of the given nodes.
  void write(const std::vector<std::vector<std::uint32_t>>& holders) {
    Manifest manifest{.id = id_, .total = kTotal, .shards = {}};
    for (std::uint32_t index = 0; index < 2; ++index) {
      std::vector<std::string> folders;
      for (const std::uint32_t node : holders[index]) {
        folders.push_back(SpreadStore::node_folder({node}));
      }
      SpreadStore store(root_, folders);
      const ShardHeader header{.id = id_, .index = index, .count = 2, .total = kTotal};
      const std::vector<float> values(header.range().size(), 1.5f);
      const TrainingState part{
          .optimizer_steps = 4, .parameters = values, .mean = values, .square = values};
      manifest.shards.push_back(
          CheckpointArchive(store).write_shard(header, encode_shard(header, part)));
    }
    SpreadStore store(root_, {"manifests"});
    CheckpointArchive(store).commit_manifest(manifest);
  }
  bool is_whole() const {
    SpreadStore store(root_, {});
    try {
      return CheckpointArchive(store).load(id_, kTotal).parameters.size() == kTotal;
    } catch (const Error&) {
      return false;
    }
  }
  /// Changes a byte in the files of a node.
  void damage(const std::string& folder) const {
    for (const auto& file : fs::directory_iterator(root_ + "/" + folder)) {
      std::fstream bytes(file.path(), std::ios::in | std::ios::out | std::ios::binary);
      bytes.seekp(200);
      bytes.put('x');
    }
  }

  const std::string root_ = ::testing::TempDir() + "orrery_spread." + std::to_string(getpid());
  const CheckpointId id_{.training = std::string(64, 'a'), .step = 4, .attempt = 1};
};

TEST_F(SpreadStoreTest, AnyHolderOfAShardIsEnough) {
  write({{0, 1}, {1, 0}});
  EXPECT_TRUE(is_whole());
  SpreadStore::remove_node(root_, {0});
  SpreadStore::remove_node(root_, {0});
  EXPECT_TRUE(is_whole());
  SpreadStore::remove_node(root_, {1});
  EXPECT_FALSE(is_whole());
}

TEST_F(SpreadStoreTest, AShardWithoutAPeerIsLostWithItsNode) {
  write({{0}, {1}});
  EXPECT_TRUE(is_whole());
  SpreadStore::remove_node(root_, {1});
  EXPECT_FALSE(is_whole());
}

TEST_F(SpreadStoreTest, ADamagedCopyIsPassedOver) {
  write({{0, 1}, {1, 0}});
  damage("node-0");
  EXPECT_TRUE(is_whole());
  damage("node-1");
  EXPECT_FALSE(is_whole());
}

TEST_F(SpreadStoreTest, AnAttemptIsListedOnceAndRemovedEverywhere) {
  write({{0, 1}, {1, 0}});
  SpreadStore store(root_, {});
  CheckpointArchive archive(store);
  EXPECT_EQ(store.list().size(), 3u) << "two shards and the manifest";
  EXPECT_EQ(archive.committed_attempts(id_.training).size(), 1u);
  archive.remove_attempt(id_);
  EXPECT_TRUE(store.list().empty());
  EXPECT_THROW(store.read("step-4", 100), Error);
}

}  // namespace
}  // namespace orrery::live

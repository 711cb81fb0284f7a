#include "live/checkpoint/key.hpp"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "core/sha256.hpp"
#include "tests/live/checkpoint/samples.hpp"
#include "tests/live/checkpoint/stores.hpp"

namespace orrery::live {
namespace {

const std::string kKey(32, 'k'), kOther(32, 'o');

std::string written(const std::string& name, const std::string& contents, mode_t mode = 0600) {
  const std::string path = testing::TempDir() + "orrery_key." + name;
  std::ofstream(path) << contents;
  chmod(path.c_str(), mode);
  return path;
}

std::string refusal(const std::string& path) {
  try {
    read_checkpoint_key(path);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_NE(error.message().find(path), std::string::npos);
    return error.message();
  }
  ADD_FAILURE() << path << " was read";
  return {};
}

/// Test case 2 of RFC 4231.
TEST(CheckpointKey, TheCodeIsHmacWithSha256) {
  EXPECT_EQ(hmac_sha256_hex("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST(CheckpointKey, IsAFileOfThisUserAlone) {
  EXPECT_EQ(read_checkpoint_key(""), "");
  EXPECT_EQ(read_checkpoint_key(written("good", kKey)), kKey);
  EXPECT_NE(refusal(written("open", kKey, 0640)).find("others may read it"), std::string::npos);
  EXPECT_NE(refusal(written("short", "secret\n")).find("has 7 bytes"), std::string::npos);
  EXPECT_NE(refusal(written("long", std::string(4097, 'k'))).find("more"), std::string::npos);
  refusal(testing::TempDir() + "orrery_key.missing");
  refusal(testing::TempDir());
}

TEST(CheckpointKey, OnlyWhatWasWrittenWithItIsFound) {
  MemoryStore store;
  write_checkpoint(store, 10, 2, kKey);
  write_checkpoint(store, 20, 2, kOther);
  write_checkpoint(store, 30, 2);
  auto with = CheckpointArchive(store, kKey).search_newest(kTraining, kParameters);
  EXPECT_EQ(with.newest, id_at(10));
  ASSERT_EQ(with.passed_over.size(), 2u);
  EXPECT_NE(with.passed_over[0].find("is not authenticated"), std::string::npos);
  EXPECT_NE(with.passed_over[1].find("another key"), std::string::npos);
  auto without = CheckpointArchive(store).search_newest(kTraining, kParameters);
  EXPECT_EQ(without.newest, id_at(30));
  CheckpointArchive(store).remove_attempt(id_at(30));
  without = CheckpointArchive(store).search_newest(kTraining, kParameters);
  EXPECT_FALSE(without.newest);
  EXPECT_NE(without.passed_over[0].find("checkpoints.key"), std::string::npos);
}

/// Attack by a writer of the folder without the key: other parameters, every checksum right.
TEST(CheckpointKey, AForgedShardOrManifestIsNoticed) {
  MemoryStore store;
  write_checkpoint(store, 10, 1, kKey);
  const ShardHeader header = header_of(id_at(10), 0, 1);
  Manifest forged{.id = id_at(10), .total = kParameters, .shards = {}};
  forged.shards.push_back(CheckpointArchive(store).write_shard(
      header, encode_shard(header, part_of(state_at(99), header.range()))));
  EXPECT_FALSE(CheckpointArchive(store, kKey).search_newest(kTraining, kParameters).newest);
  CheckpointArchive(store).commit_manifest(forged);  // checksums, as without a key
  EXPECT_TRUE(CheckpointArchive(store).search_newest(kTraining, kParameters).newest);
  EXPECT_FALSE(CheckpointArchive(store, kKey).search_newest(kTraining, kParameters).newest);
  CheckpointArchive(store, kOther).commit_manifest(forged);
  EXPECT_FALSE(CheckpointArchive(store, kKey).search_newest(kTraining, kParameters).newest);
}

TEST(CheckpointKey, EveryFlippedBitOfAnAuthenticatedManifestIsNoticed) {
  Manifest manifest{
      .id = id_at(7), .total = kParameters, .shards = {{.size = 100, .sha256 = kTraining}}};
  std::string good = encode_manifest(manifest, true);
  seal(good, kKey);
  EXPECT_EQ(parse_manifest(good, "m", kKey), manifest);
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    EXPECT_THROW(parse_manifest(bad, "m", kKey), Error) << "bit " << bit;
  }
}

}  // namespace
}  // namespace orrery::live

#include "live/checkpoint/format.hpp"

#include <functional>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "core/random.hpp"
#include "tests/live/checkpoint/samples.hpp"

namespace orrery::live {
namespace {

std::string shard_file() {
  const ShardHeader header = header_of(id_at(7), 1, 3);
  std::string bytes = encoded_shard(header, state_at(7));
  seal(bytes);
  return bytes;
}

Manifest manifest() {
  return {.id = id_at(7), .total = kParameters, .shards = {{.size = 100, .sha256 = kTraining}}};
}

std::string manifest_file() {
  std::string bytes = encode_manifest(manifest());
  seal(bytes);
  return bytes;
}

/// The message with which `parse` refuses; fails if it does not.
std::string refusal(const std::function<void()>& parse) {
  try {
    parse();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input) << error.what();
    return error.message();
  }
  ADD_FAILURE() << "it was read";
  return "";
}

TEST(CheckpointFormat, PartsCoverAllAndDifferByAtMostOne) {
  for (const std::size_t total : {0u, 1u, 5u, 23u, 24u}) {
    for (std::uint32_t count = 1; count < 9; ++count) {
      std::size_t next = 0;
      for (std::uint32_t index = 0; index < count; ++index) {
        const Range range = part_of(total, index, count);
        EXPECT_EQ(range.begin, next);
        EXPECT_LE(range.size() - total / count, 1u);
        next = range.end;
      }
      EXPECT_EQ(next, total);
    }
  }
}

TEST(CheckpointFormat, AShardIsReadAsItWasWritten) {
  const std::string bytes = shard_file();
  const Shard shard = parse_shard(bytes, "s");
  EXPECT_EQ(shard.header, header_of(id_at(7), 1, 3));
  EXPECT_EQ(bytes.size(), shard_size(shard.header));
  EXPECT_EQ(shard.part, part_of(state_at(7), shard.header.range()));
}

TEST(CheckpointFormat, TheBytesAreThoseOfTheDocument) {
  const std::string bytes = shard_file();
  EXPECT_EQ(bytes.substr(0, 8), "ORRYSHRD");
  EXPECT_EQ(bytes.substr(8, 4), std::string("\1\0\0\0", 4));
  EXPECT_EQ(bytes.substr(12, 64), kTraining);
  EXPECT_EQ(bytes.substr(84, 8), std::string("\7\0\0\0\0\0\0\0", 8));  // step
  EXPECT_EQ(bytes.substr(92, 8), std::string("\1\0\0\0\3\0\0\0", 8));  // index, count
  EXPECT_EQ(bytes.substr(bytes.size() - 64), sha256_hex(bytes.substr(0, bytes.size() - 64)));
}

TEST(CheckpointFormat, AManifestIsReadAsItWasWritten) {
  EXPECT_EQ(parse_manifest(manifest_file(), "m"), manifest());
}

TEST(CheckpointFormat, EveryFlippedBitIsNoticed) {
  for (const bool is_shard : {true, false}) {
    const std::string good = is_shard ? shard_file() : manifest_file();
    for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
      std::string bad = good;
      bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
      const std::string message = refusal([&] {
        is_shard ? static_cast<void>(parse_shard(bad, "the-file"))
                 : static_cast<void>(parse_manifest(bad, "the-file"));
      });
      ASSERT_TRUE(message.starts_with("the-file: ")) << "bit " << bit << ": " << message;
    }
  }
}

TEST(CheckpointFormat, EveryTruncationIsNoticed) {
  const std::string shard = shard_file(), manifest = manifest_file();
  for (std::size_t size = 0; size < shard.size(); ++size) {
    refusal([&] { parse_shard(std::string_view(shard).substr(0, size), "s"); });
  }
  for (std::size_t size = 0; size < manifest.size(); ++size) {
    refusal([&] { parse_manifest(std::string_view(manifest).substr(0, size), "m"); });
  }
  refusal([&] { parse_shard(shard + '\0', "s"); });
}

TEST(CheckpointFormat, WhatIsNotReadableIsRefusedByName) {
  const auto says = [](const std::string& bytes, const std::string& expected) {
    const std::string message = refusal([&] { parse_shard(bytes, "s"); });
    EXPECT_NE(message.find(expected), std::string::npos) << message;
  };
  says("", "not a checkpoint's shard");
  says(manifest_file(), "not a checkpoint's shard");
  std::string later = shard_file();
  later[8] = 2;
  says(later, "format version 2; this program reads version 1");
  says(shard_file().substr(0, 150), "checksum");
}

/// Right checksum, wrong content: as another program, or a defect of this one, would write it.
std::string resealed(std::string bytes, std::size_t at, std::string_view content) {
  bytes.resize(bytes.size() - 64);
  bytes.replace(at, content.size(), content);
  seal(bytes);
  return bytes;
}

TEST(CheckpointFormat, ContentsThatCannotBeAreRefusedThoughTheirChecksumIsRight) {
  const std::string huge(8, '\xff');
  refusal([&] { parse_shard(resealed(shard_file(), 92, std::string(4, '\3')), "s"); });  // index
  refusal([&] { parse_shard(resealed(shard_file(), 96, std::string(4, '\0')), "s"); });  // count
  refusal([&] { parse_shard(resealed(shard_file(), 100, huge), "s"); });                 // total
  refusal([&] { parse_shard(resealed(shard_file(), 12, "not hexadecimal"), "s"); });
  refusal([&] { parse_manifest(resealed(manifest_file(), 100, huge.substr(4)), "m"); });
  refusal([&] { parse_manifest(resealed(manifest_file(), 100, std::string(4, '\0')), "m"); });
}

}  // namespace
}  // namespace orrery::live

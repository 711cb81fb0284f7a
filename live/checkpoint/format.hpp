// Format of the two files of a checkpoint, byte for byte (docs/checkpoints.md): a shard contains
// one rank's part of the training state, the manifest names the shards of a complete checkpoint.
// Little endian, fixed widths, a SHA-256 of all previous bytes at the end of each file; with a key
// the manifest's is an HMAC, which covers the shards' checksums in it. Pure functions without file
// access.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/ids.hpp"

namespace orrery::live {

inline constexpr std::uint32_t kCheckpointVersion = 1;
inline constexpr std::uint32_t kKeyedVersion = 2;  ///< version of authenticated manifests
inline constexpr std::uint32_t kMostShards = 131072;

/// Identity of one checkpoint, common to all its files.
struct CheckpointId {
  std::string training;       ///< 64 hex digits: model, training method and data
  Step step = 0;              ///< the state holds the updates of the steps before this one
  std::uint64_t attempt = 0;  ///< number of the attempt; files of two attempts are never combined
  friend bool operator==(const CheckpointId&, const CheckpointId&) = default;
};

/// Part of a vector.
struct Range {
  std::size_t begin = 0, end = 0;
  /// Returns the number of elements; `begin` must not be above `end`.
  std::size_t size() const { return end - begin; }
  friend bool operator==(const Range&, const Range&) = default;
};

/// Returns part `index` of `count` parts of a vector of `total` elements; sizes differ by at most
/// one. For example, parts of 10 elements in 3 parts have 4, 3 and 3 elements. Throws an internal
/// Error unless index < count.
Range part_of(std::size_t total, std::uint32_t index, std::uint32_t count);

/// Header of a shard.
struct ShardHeader {
  CheckpointId id;
  std::uint32_t index = 0, count = 1;
  std::uint64_t total = 0;  ///< parameters of the whole model
  /// Returns the range of the shard's parameters. Throws an internal Error unless index < count.
  Range range() const { return part_of(total, index, count); }
  friend bool operator==(const ShardHeader&, const ShardHeader&) = default;
};

/// Parameters and optimizer state of a model, or of a part of one, element by element.
struct TrainingState {
  std::uint64_t optimizer_steps = 0;  ///< number of updates in the moments
  std::vector<float> parameters = {}, mean = {}, square = {};
  friend bool operator==(const TrainingState&, const TrainingState&) = default;
};

/// Decoded shard.
struct Shard {
  ShardHeader header;
  TrainingState part;
};

/// Size of a file and the SHA-256 at its end, 64 hex digits.
struct Seal {
  std::uint64_t size = 0;
  std::string sha256;
  friend bool operator==(const Seal&, const Seal&) = default;
};

/// Decoded manifest.
struct Manifest {
  CheckpointId id;
  std::uint64_t total = 0;
  std::vector<Seal> shards;  ///< indexed by shard
  friend bool operator==(const Manifest&, const Manifest&) = default;
};

/// Returns the bytes of a shard without their checksum. Throws an internal Error if `part` has
/// other sizes than the header's range, the index is not below the count, or the training is not 64
/// digits long.
std::string encode_shard(const ShardHeader& header, const TrainingState& part);
/// Returns the bytes of a manifest without their checksum; `keyed`: to be sealed with a key. Throws
/// an internal Error if the training is not 64 digits long. parse_manifest() refuses a manifest
/// with no shards, more than kMostShards, or a shard whose hash has not 64 digits; not checked
/// here.
std::string encode_manifest(const Manifest& manifest, bool keyed = false);
/// Appends the checksum that completes a file, and returns the checksum with the complete size.
/// With a key only its owner can compute the checksum. Call once for a file.
Seal seal(std::string& bytes, std::string_view key = {});

/// Returns the size of a shard file in bytes, checksum included. Throws as ShardHeader::range().
std::uint64_t shard_size(const ShardHeader& header);

/// Returns the shard in a file. Throws bad_input, beginning with `name`, for any bytes that are not
/// exactly such a file.
Shard parse_shard(std::string_view bytes, const std::string& name);
/// Returns the manifest in a file; throws like parse_shard(). With a key it accepts only manifests
/// sealed with this key, without a key only manifests without one.
Manifest parse_manifest(std::string_view bytes, const std::string& name, std::string_view key = {});

}  // namespace orrery::live

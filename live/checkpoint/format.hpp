// The two files of a checkpoint, byte for byte (docs/checkpoints.md): a shard holds one rank's part
// of the training state, the manifest says which shards make it whole. Little endian, fixed widths,
// a SHA-256 over all before it at the end of each; with a key the manifest's is an HMAC, and since
// it states those of the shards, it speaks for them. Pure functions; nothing here reads a file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/ids.hpp"

namespace orrery::live {

inline constexpr std::uint32_t kCheckpointVersion = 1;
inline constexpr std::uint32_t kKeyedVersion = 2;  ///< of manifests that are authenticated
inline constexpr std::uint32_t kMostShards = 131072;

/// What the files of one checkpoint have in common.
struct CheckpointId {
  std::string training;       ///< 64 hex digits: which model is trained, how, on what
  Step step = 0;              ///< the state holds the updates of the steps before this one
  std::uint64_t attempt = 0;  ///< one try to write it: files of two are never taken together
  friend bool operator==(const CheckpointId&, const CheckpointId&) = default;
};

/// A part of a vector.
struct Range {
  std::size_t begin = 0, end = 0;
  std::size_t size() const { return end - begin; }
  friend bool operator==(const Range&, const Range&) = default;
};

/// Part `index` of `count` parts of a vector of `total` elements, equal but for one element.
Range part_of(std::size_t total, std::uint32_t index, std::uint32_t count);

struct ShardHeader {
  CheckpointId id;
  std::uint32_t index = 0, count = 1;
  std::uint64_t total = 0;  ///< parameters of the whole model
  Range range() const { return part_of(total, index, count); }
  friend bool operator==(const ShardHeader&, const ShardHeader&) = default;
};

/// Parameters and optimizer state of a model, or of a part of one, element by element.
struct TrainingState {
  std::uint64_t optimizer_steps = 0;  ///< updates that the moments hold
  std::vector<float> parameters = {}, mean = {}, square = {};
  friend bool operator==(const TrainingState&, const TrainingState&) = default;
};

struct Shard {
  ShardHeader header;
  TrainingState part;
};

/// A file's size and the SHA-256 that stands at its end, 64 hex digits.
struct Seal {
  std::uint64_t size = 0;
  std::string sha256;
  friend bool operator==(const Seal&, const Seal&) = default;
};

struct Manifest {
  CheckpointId id;
  std::uint64_t total = 0;
  std::vector<Seal> shards;  ///< by index
  friend bool operator==(const Manifest&, const Manifest&) = default;
};

/// The shard's bytes without their checksum.
std::string encode_shard(const ShardHeader& header, const TrainingState& part);
/// `keyed`: to be sealed with a key.
std::string encode_manifest(const Manifest& manifest, bool keyed = false);
/// Appends the checksum that makes the bytes a file: with a key one that only its owner can make.
Seal seal(std::string& bytes, std::string_view key = {});

/// Size of a shard file, checksum included.
std::uint64_t shard_size(const ShardHeader& header);

/// Both throw bad_input, which begins with `name`, for anything that is not exactly such a file.
Shard parse_shard(std::string_view bytes, const std::string& name);
/// With a key only a manifest that was sealed with it, without one only a manifest that was not.
Manifest parse_manifest(std::string_view bytes, const std::string& name, std::string_view key = {});

}  // namespace orrery::live

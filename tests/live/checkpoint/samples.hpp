// A small training state that differs from step to step, and its checkpoint.
#pragma once

#include <string>
#include <vector>

#include "core/sha256.hpp"
#include "live/checkpoint/archive.hpp"

namespace orrery::live {

inline constexpr std::uint64_t kParameters = 23;
inline const std::string kTraining = sha256_hex("a training");

inline TrainingState state_at(Step step) {
  TrainingState state;
  state.optimizer_steps = step;
  for (std::uint64_t i = 0; i < kParameters; ++i) {
    const auto value = static_cast<float>(step * 1000 + i);
    state.parameters.push_back(value);
    state.mean.push_back(-value);
    state.square.push_back(value * value);
  }
  return state;
}

/// The elements of a range.
inline TrainingState part_of(const TrainingState& state, const Range& range) {
  TrainingState part{.optimizer_steps = state.optimizer_steps};
  for (std::size_t i = range.begin; i < range.end; ++i) {
    part.parameters.push_back(state.parameters[i]);
    part.mean.push_back(state.mean[i]);
    part.square.push_back(state.square[i]);
  }
  return part;
}

inline std::string encoded_shard(const ShardHeader& header, const TrainingState& state) {
  return encode_shard(header, part_of(state, header.range()));
}

inline ShardHeader header_of(const CheckpointId& id, std::uint32_t index, std::uint32_t count) {
  return {.id = id, .index = index, .count = count, .total = kParameters};
}

inline CheckpointId id_at(Step step) { return {kTraining, step, 1000 + step}; }

/// Writes a checkpoint as the ranks and the controller do, one after the other.
inline void write_checkpoint(Store& store, Step step, std::uint32_t ranks,
                             const std::string& key = {}) {
  CheckpointArchive archive(store, key);
  Manifest manifest{.id = id_at(step), .total = kParameters, .shards = {}};
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const ShardHeader header = header_of(manifest.id, rank, ranks);
    manifest.shards.push_back(archive.write_shard(header, encoded_shard(header, state_at(step))));
  }
  archive.commit_manifest(manifest);
}

}  // namespace orrery::live

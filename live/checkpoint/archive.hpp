// The checkpoints in a folder: written so that each is whole or not there, whatever fails and
// whenever, and found again. Ranks write shards; when all are durable somebody writes the manifest,
// which makes them a checkpoint. The folder may hold other files and other trainings' checkpoints.
// Several archives may work on one folder; two that write the same file may not.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "live/checkpoint/format.hpp"
#include "live/checkpoint/store.hpp"

namespace orrery::live {

class CheckpointArchive {
 public:
  /// The store outlives the archive. Whatever it throws is passed on. `key`: of its manifests.
  explicit CheckpointArchive(Store& store, std::string key = {})
      : store_(store), key_(std::move(key)) {}

  /// `unsealed` is what encode_shard() made. Durable when it returns; what fails leaves nothing
  /// that would be taken for a shard.
  Seal write_shard(const ShardHeader& header, std::string unsealed);
  /// All shards are durable: from when this returns there is a checkpoint.
  void commit(const Manifest& manifest);
  /// Removes every file of that attempt, the manifest first.
  void remove(const CheckpointId& id);

  /// Attempts of this training that have a manifest, oldest first; the contents are not looked at.
  std::vector<CheckpointId> committed(const std::string& training);
  /// Those that have files but no manifest.
  std::vector<CheckpointId> unfinished(const std::string& training);

  /// Of all shards, bytes, as its manifest says. Throws unless there is one.
  std::uint64_t size(const CheckpointId& id);
  /// Reads every byte. Throws bad_input, which names the file, unless the checkpoint is whole and
  /// of `total` parameters.
  void check(const CheckpointId& id, std::uint64_t total);
  TrainingState load(const CheckpointId& id, std::uint64_t total);

  struct Search {
    std::optional<CheckpointId> newest;    ///< whole
    std::vector<std::string> passed_over;  ///< newer ones, with what is wrong
  };
  Search search(const std::string& training, std::uint64_t total);

 private:
  void write_durably(const std::string& name, std::string_view bytes);
  std::vector<CheckpointId> attempts(const std::string& training, bool with_manifest);
  Manifest manifest(const CheckpointId& id);
  void visit(const CheckpointId& id, std::uint64_t total,
             const std::function<void(const Shard&)>& visitor);

  Store& store_;
  const std::string key_;
};

}  // namespace orrery::live

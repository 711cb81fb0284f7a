// Checkpoints in a folder: each is complete or absent, whatever fails and whenever, and can be
// found again. Ranks write shards; when all are durable, the controller writes the manifest, which
// makes them a checkpoint. The folder may contain other files and checkpoints of other trainings.
// Several archives may use one folder; two of them must not write the same file.
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

/// Reader and writer of the checkpoints of a folder. Trainings are 64 hex digits, see CheckpointId.
class CheckpointArchive {
 public:
  /// Constructs an archive on `store`, which must outlive it; the store's errors are thrown on.
  /// `key`: authenticates its manifests.
  explicit CheckpointArchive(Store& store, std::string key = {})
      : store_(store), key_(std::move(key)) {}

  /// Writes a shard, `unsealed` being the result of encode_shard() for `header`; durable on return.
  /// Returns its size and checksum, for the manifest. Replaces a shard of the same name. A failure
  /// leaves no incomplete file that could be taken for a shard; a complete one may exist.
  Seal write_shard(const ShardHeader& header, std::string unsealed);
  /// Writes the manifest, and replaces one of the same attempt: on return the checkpoint exists.
  /// Call after all shards are durable, which is not checked. After an exception a manifest may
  /// exist that is not durable. Throws an internal Error unless the training has 64 digits.
  void commit_manifest(const Manifest& manifest);
  /// Deletes all files of an attempt, the manifest first; durable on return. No effect if the
  /// attempt has no files. After an exception some files may remain; a later call deletes them.
  void remove_attempt(const CheckpointId& id);

  /// Returns the attempts of a training that have a manifest, by step and then by attempt, lowest
  /// first; empty if none exists. Reads no contents.
  std::vector<CheckpointId> committed_attempts(const std::string& training);
  /// Returns the attempts of a training that have files, also unfinished ones, but no manifest, in
  /// the same order.
  std::vector<CheckpointId> unfinished(const std::string& training);

  /// Returns the bytes of all shards, as the manifest says. Throws the store's error if the
  /// manifest cannot be read, bad_input if the manifest is not valid.
  std::uint64_t size(const CheckpointId& id);
  /// Reads every byte. Throws bad_input with the file name unless the checkpoint is complete and
  /// has `total` parameters; throws the store's error for a file that is missing or cannot be read.
  void check_whole(const CheckpointId& id, std::uint64_t total);
  /// Returns the state of a checkpoint. Throws like check_whole().
  TrainingState load(const CheckpointId& id, std::uint64_t total);

  /// Result of search_newest().
  struct Search {
    std::optional<CheckpointId> newest;    ///< newest complete checkpoint
    std::vector<std::string> passed_over;  ///< newer attempts with their defects
  };
  /// Returns the newest complete checkpoint of a training, for which every byte of the newer ones
  /// is read too; `newest` is absent if no checkpoint is complete. A checkpoint that cannot be read
  /// or has not `total` parameters is passed over; throws only if the folder cannot be listed.
  Search search_newest(const std::string& training, std::uint64_t total);

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

#include "live/rank/checkpoint_shards.hpp"

#include <utility>

#include "live/training/state_hashes.hpp"

namespace orrery::live {

CheckpointShards::CheckpointShards(std::string training, const Trainer& trainer, std::size_t total,
                                   const std::optional<std::string>& folder, Send send)
    : training_(std::move(training)), trainer_(trainer), total_(total), send_(std::move(send)) {
  if (!folder) return;
  writer_.emplace([path = *folder] { return FolderStore::make_folder(path); },
                  [this](const ShardOutcome& outcome) { report(outcome); });
}

void CheckpointShards::plan(Step step, std::uint64_t attempt, std::uint32_t index,
                            std::uint32_t count) {
  planned_ = {
      .id = {training_, step + 1, attempt}, .index = index, .count = count, .total = total_};
}

void CheckpointShards::write_planned(Step step) {
  const ShardHeader header = std::exchange(planned_, {});
  if (header.id.attempt == 0 || header.id.step != step + 1) return;
  write(header);
}

void CheckpointShards::save(const SaveShard& order, Step applied) {
  const ShardHeader header{.id = {training_, order.step(), order.attempt()},
                           .index = order.index(),
                           .count = order.count(),
                           .total = total_};
  if (writer_ && applied == order.step()) {
    return write(header);
  }
  report({.header = header,
          .proof = {},
          .seal = {},
          .failure = "expected the state of the ordered step, found the state of another step"});
}

void CheckpointShards::write(const ShardHeader& header) {
  writer_->write(header, trainer_.part(header.range()), trainer_.state_checksums());
}

void CheckpointShards::report(const ShardOutcome& outcome) const {
  AgentMessage message;
  ShardWritten& shard = *message.mutable_shard();
  shard.set_attempt(outcome.header.id.attempt);
  shard.set_index(outcome.header.index);
  shard.set_size(outcome.seal.size);
  shard.set_sha256(outcome.seal.sha256);
  shard.set_failure(outcome.failure);
  for (const auto& [part, checksum] : outcome.proof.state) {
    *shard.add_hashes() = to_wire(part, checksum);
  }
  *shard.mutable_content() = to_wire(0, outcome.proof.content);
  send_(message);
}

}  // namespace orrery::live

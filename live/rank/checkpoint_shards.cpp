#include "live/rank/checkpoint_shards.hpp"

#include <memory>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "live/checkpoint/spread_store.hpp"
#include "live/training/state_hashes.hpp"

namespace orrery::live {

CheckpointShards::CheckpointShards(std::string training, const Trainer& trainer, std::size_t total,
                                   const std::optional<std::string>& folder, Send send)
    : training_(std::move(training)), trainer_(trainer), total_(total), send_(std::move(send)) {
  if (!folder) return;
  writer_.emplace([path = *folder] { return FolderStore::make_folder(path); },
                  [this](const ShardOutcome& outcome) { report(outcome); });
  // A slow place does not delay the checkpoints of another tier.
  for (std::optional<ShardWriter>* each : {&memory_writer_, &storage_writer_}) {
    each->emplace(ShardWriter::OpenStore(),
                  [this](const ShardOutcome& outcome) { report(outcome); });
  }
}

void CheckpointShards::plan(const StepPlan& plan, std::uint32_t index, std::uint32_t count) {
  planned_ = {.id = {training_, plan.step() + 1, plan.checkpoint()},
              .index = index,
              .count = count,
              .total = total_};
  place_ = {};
  if (plan.folder().empty()) return;
  if (plan.holders().empty()) {
    place_ = {[path = plan.folder()] { return FolderStore::make_folder(path); }, false};
    return;
  }
  ensure(index < static_cast<std::uint32_t>(plan.holders_size()),
         "expected holders for each shard of a checkpoint in memory");
  const ShardHolders& holders = plan.holders(static_cast<int>(index));
  std::vector<std::string> folders{SpreadStore::node_folder({holders.node()})};
  if (holders.peer() != holders.node()) {
    folders.push_back(SpreadStore::node_folder({holders.peer()}));
  }
  place_ = {[root = plan.folder(), folders] {
              return std::make_unique<SpreadStore>(root, folders);
            },
            true};
}

void CheckpointShards::write_planned(Step step) {
  const ShardHeader header = std::exchange(planned_, {});
  if (header.id.attempt == 0 || header.id.step != step + 1) return;
  write(header, std::exchange(place_, {}));
}

void CheckpointShards::save(const SaveShard& order, Step applied) {
  const ShardHeader header{.id = {training_, order.step(), order.attempt()},
                           .index = order.index(),
                           .count = order.count(),
                           .total = total_};
  if (writer_ && applied == order.step()) {
    return write(header, {});
  }
  report({.header = header,
          .proof = {},
          .seal = {},
          .failure = "expected the state of the ordered step, found the state of another step"});
}

void CheckpointShards::write(const ShardHeader& header, Place place) {
  ShardWriter& other = place.is_memory ? *memory_writer_ : *storage_writer_;
  ShardWriter& writer = place.open ? other : *writer_;
  writer.write(header, trainer_.part(header.range()), trainer_.state_checksums(),
               std::move(place.open));
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

#include "sim/training/checkpoint_writer.hpp"

#include <algorithm>

namespace orrery::sim {

bool CheckpointWriter::is_due(Step step, std::uint64_t every) {
  const bool due = std::exchange(after_step_, false) || (every > 0 && step % every == 0);
  return due && !writing_;
}

Nanos CheckpointWriter::begin(JobId job, Step step, Nanos now, const Checkpoints& costs,
                              double storage) {
  const auto write = static_cast<double>(costs.write()) / std::max(storage, 1e-6);
  const Nanos took = costs.stall() + (storage > 0 ? static_cast<Nanos>(write) : 0);
  writing_ = Writing{{.job = job,
                      .step = step,
                      .tier = Tier::local_disk,
                      .stalled = costs.stall(),
                      .took = took,
                      .durable = storage > 0},
                     now + took};
  return costs.stall();
}

std::optional<SaveDone> CheckpointWriter::take_done(Nanos now) {
  if (!writing_ || writing_->at > now) return {};
  return std::exchange(writing_, std::nullopt)->done;
}

void CheckpointWriter::spoil_current() {
  if (writing_) writing_->at = kNever;
}

std::optional<SaveDone> CheckpointWriter::abandon_save() {
  if (!writing_) return {};
  SaveDone failed = std::exchange(writing_, std::nullopt)->done;
  failed.durable = false;
  return failed;
}

}  // namespace orrery::sim

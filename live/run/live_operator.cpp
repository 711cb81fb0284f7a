// The part of LiveBackend that faces its operator: what the run stands at, and orders that end it.
#include <algorithm>

#include "core/error.hpp"
#include "live/run/live_backend.hpp"
#include "policies/run/registry.hpp"

namespace orrery::live {

RunStatus LiveBackend::status() const {
  RunStatus status;
  status.scenario = scenario_.name();
  status.mode = request_.mode();
  status.phase = stage_ != Stage::training ? "starting"
                 : end_.stopping()         ? "stopping"
                 : recovery_->held()       ? "held"
                                           : "training";
  if (stage_ == Stage::over || stage_ == Stage::ended) status.phase = "over";
  status.step = step_.number();
  status.steps = scenario_.run().steps();
  for (const PolicySpec& policy : scenario_.policies()) status.policies.push_back(policy.name());
  desk_.fill(status);
  status.elapsed_s = to_seconds(account_.elapsed());
  status.step_time_s = to_seconds(step_.took());
  status.loss = account_.newest_loss();
  status.losses = failures_.all().size();
  status.controller_restarts = supervision_.start().restarts();
  status.checkpoints_written = checkpoints_.written();
  status.checkpoints_failed = checkpoints_.failed();
  if (crew_ == nullptr || world_.jobs().empty()) return status;
  status.epoch = crew_->epoch();
  if (job().saved_at > 0) status.saved = job().saved;
  const std::vector<std::uint32_t> members = crew_->members();
  for (std::uint32_t seat = 0; seat < ranks_; ++seat) {
    const bool member = std::find(members.begin(), members.end(), seat) != members.end();
    const bool there = crew_->running(seat);
    const auto [step, micro_batches] = detector_->at(seat);
    status.ranks.push_back({.rank = seat,
                            .state = member  ? "working"
                                     : there ? "joining"
                                             : "lost",
                            .pid = there ? crew_->pid(seat) : 0,
                            .step = step,
                            .micro_batches = micro_batches,
                            .device = there ? telemetry_.device(seat) : DeviceReading()});
  }
  return status;
}

/// The step under way is still carried through, and one more if a checkpoint is to follow it.
void LiveBackend::stop_after_step(const StopRun& order) {
  if (stage_ != Stage::training || end_.stopping()) return;
  end_.stop(order.reason());
  desk_.note(now(), "the run is to end: " + order.reason());
  if (order.checkpoint() && checkpoints_.kept()) checkpoints_.ask();
}

std::string LiveBackend::objection(const ParameterSet& set) const {
  if (request_.policy_outside()) return "the policies of this run decide in another process";
  try {
    check_parameter(scenario_, set, cluster_);
  } catch (const Error& error) {
    return error.message();
  }
  return {};
}

void LiveBackend::hear_operator() {
  if (const auto order = supervision_.take_stop()) stop_after_step(*order);
  const auto order = desk_.hear(now(), stage_ == Stage::training, !observations_.waiting());
  if (order) stop_after_step(*order);
}

}  // namespace orrery::live

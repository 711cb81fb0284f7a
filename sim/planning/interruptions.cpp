#include "sim/planning/interruptions.hpp"

#include <utility>

#include "traces/scenario/failure_model.hpp"

namespace orrery::sim {
namespace {

bool interrupts(const FailureKind& kind) {
  if (is_of_job(kind)) return kind.has_kill() || kind.has_stop();
  const std::optional<PartKind> part = part_kind(kind);
  const bool holds_ranks = is_of_nodes(kind) || part == PartKind::gpu || part == PartKind::node;
  return kind.has_down() && holds_ranks;
}

Scenario with_seed(Scenario scenario, std::uint64_t seed) {
  scenario.mutable_run()->set_seed(seed);
  *scenario.mutable_failures() = only_kinds(scenario.failures(), interrupts);
  return scenario;
}

}  // namespace

Interruptions::Interruptions(Scenario scenario, const Cluster& cluster, std::uint64_t seed)
    : gpus_per_node_(cluster.shape().gpus_per_node),
      stream_(with_seed(std::move(scenario), seed), cluster) {}

const Interruption& Interruptions::at(std::size_t index) {
  while (drawn_.size() <= index) draw_next();
  return drawn_[index];
}

void Interruptions::draw_next() {
  if (stream_.next_time() == kNever) {
    drawn_.emplace_back();
    return;
  }
  for (const Fault& fault : stream_.pop_failure()) {
    Interruption& made = drawn_.emplace_back();
    made.at = fault.at_time();
    made.repaired = fault.has_for_() ? fault.at_time() + fault.for_() : kNever;
    if (fault.has_gpu()) made.node = fault.gpu() / gpus_per_node_;
    if (fault.has_node()) made.node = fault.node();
    if (fault.has_detection()) made.detection = fault.detection();
    if (fault.has_restart()) made.restart = fault.restart();
  }
}

std::vector<std::string> causes_left_out(const Failures& failures) {
  std::vector<std::string> causes;
  for (const FailureKind& kind : failure_kinds(failures)) {
    if (!interrupts(kind)) causes.push_back(kind.cause());
  }
  return causes;
}

}  // namespace orrery::sim

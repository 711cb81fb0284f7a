#include "sim/estimates/step/step_hardware.hpp"

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery::estimates {

StepHardware::StepHardware(const IterationRequest& request, const StepPrograms& programs)
    : request_(request), programs_(programs), state_(request.state) {
  const Plan& plan = request.plan;
  ensure(programs.workers() * plan.member_hosts <= request.engine.hosts(),
         "the engine has a host for every simulated worker");
  if (plan.slots.size() <= request.engine.links()) return;
  throw Error(ErrorKind::bad_input,
              fmt::format("faults: expected a step with at most {1} different links, found {0}: "
                          "use fewer different faults at once",
                          plan.slots.size(), request.engine.links()));
}

void StepHardware::begin() {
  const Plan& plan = request_.plan;
  for (std::uint32_t slot = 0; slot < plan.slots.size(); ++slot) {
    request_.engine.set_link_up(slot, true);
    request_.engine.set_bandwidth(slot, plan.slots[slot].bandwidth);
  }
  for (const std::uint32_t link : request_.state.down) take_down({link});
  set_speeds();
}

double StepHardware::slow_of(std::uint32_t worker, std::uint32_t member) const {
  const Plan& plan = request_.plan;
  StepGraph& graph = request_.graph;
  const std::uint32_t replica = plan.classes[programs_.class_of(worker)].members.front();
  const RankId rank = graph.rank(replica, programs_.stage_of(worker), member);
  const bool apart = plan.member_hosts > 1 && graph.communicator_size(Communicator::expert) == 1;
  return apart ? state_.slow_of(rank) : slowest_beside(graph, state_, rank);
}

void StepHardware::set_speeds() {
  for (std::uint32_t worker = 0; worker < programs_.workers(); ++worker) {
    for (std::uint32_t member = 0; member < request_.plan.member_hosts; ++member) {
      request_.engine.set_speed(host(worker, member), 1 / slow_of(worker, member));
    }
  }
}

void StepHardware::apply_change(const TimedChange& change) {
  for (const auto& [rank, factor] : change.slow) state_.slow[rank.value] = factor;
  set_speeds();
  for (const auto& [link, rate] : change.bandwidth) {
    const auto slot = request_.plan.pinned.find(link.value);
    if (slot != request_.plan.pinned.end()) request_.engine.set_bandwidth(slot->second, rate);
  }
  for (const LinkId link : change.down) take_down(link);
}

/// A link without a slot carries no flow of the plan.
void StepHardware::take_down(LinkId link) {
  state_.down.insert(link.value);
  const auto slot = request_.plan.pinned.find(link.value);
  if (slot != request_.plan.pinned.end()) request_.engine.set_link_up(slot->second, false);
}

std::optional<LinkId> StepHardware::broken_link(const CommPhase& phase) const {
  std::optional<LinkId> broken;
  for (const WideFlow& part : phase.parts) {
    for (const std::uint32_t slot : part.links) {
      const LinkId link = request_.plan.slots[slot].link;
      if (state_.down.contains(link.value)) broken = link;
    }
  }
  return broken;
}

}  // namespace orrery::estimates

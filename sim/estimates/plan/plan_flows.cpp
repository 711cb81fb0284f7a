#include "sim/estimates/plan/plan_flows.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "sim/estimates/plan/binding_links.hpp"

namespace orrery::estimates {

PlanFlows::PlanFlows(const PlanRequest& request, PlanBase* base) : in_(request), base_(base) {
  if (base == nullptr) own_counter_.emplace(request.cluster);
}

void PlanFlows::add_counted(std::uint32_t known) {
  add_part(counter().drain_loads(), known);
}

void PlanFlows::add_part(Loads loads, std::uint32_t known) {
  if (base_ != nullptr) parts_of_.emplace_back(loads_.size(), known);
  loads_.push_back(std::move(loads));
}

void PlanFlows::add_rest_of(std::uint32_t known) {
  rest_.push_back(static_cast<std::uint32_t>(loads_.size()));
  rest_of_.push_back(known);
  loads_.emplace_back();
}

BindingLinks PlanFlows::bind_known(const std::function<double(LinkId)>& bandwidth,
                                   const std::set<std::uint32_t>& pinned) const {
  KnownFlows::Request request{.flows = static_cast<std::uint32_t>(loads_.size()),
                              .now = {},
                              .rest = rest_,
                              .parts = {},
                              .changed = {},
                              .bandwidth = bandwidth,
                              .pinned = pinned};
  auto part = parts_of_.begin();
  for (std::uint32_t flow = 0; flow < loads_.size(); ++flow) {
    if (loads_[flow].empty()) continue;
    while (part != parts_of_.end() && part->first < flow) ++part;
    KnownFlows::Part& made = request.parts.emplace_back();
    made.flow = flow;
    made.links = &loads_[flow];
    if (part == parts_of_.end() || part->first != flow) continue;
    made.known = static_cast<std::uint32_t>(
        std::find(rest_of_.begin(), rest_of_.end(), part->second) - rest_of_.begin());
  }
  for (const auto& [link, slow] : in_.state.link_slow) request.changed.push_back(link);
  PlanBase::Known known = base_->known(rest_of_);
  request.now = std::move(known.now);
  return known.flows.bind_links(request);
}

void PlanFlows::bind_flows(Plan& plan) const {
  std::set<std::uint32_t> pinned(in_.state.down.begin(), in_.state.down.end());
  for (const LinkId link : in_.pinned) pinned.insert(link.value);
  const auto bandwidth = [this](LinkId link) {
    return link_rate(in_.cluster, in_.profile, link) / in_.state.link_slow_of(link);
  };
  BindingLinks bound = base_ != nullptr
                           ? bind_known(bandwidth, pinned)
                           : binding_links(loads_, in_.cluster.links(), bandwidth, pinned);
  for (const BindingLinks::Link& link : bound.links) {
    plan.slots.push_back({link.link, link.bandwidth});
  }
  plan.pinned = std::move(bound.pinned);
  std::size_t flow = 0;
  for (CommPlan& comm : plan.comms) {
    for (CommPhase& phase : comm.phases) {
      for (WideFlow& part : phase.parts) part.links = std::move(bound.of_flow[flow++]);
    }
  }
  ensure(flow == bound.of_flow.size(), "every flow of a plan receives its links");
}

}  // namespace orrery::estimates

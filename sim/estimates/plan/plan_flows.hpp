// The flows of a plan as it is laid out, and the links that bind them in the end. With a base, most
// are what is left of a flow that the base knows, and only what differs is counted anew. Used by
// sim/estimates/plan/plan; one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "sim/estimates/collectives/flow_counter.hpp"
#include "sim/estimates/plan/plan.hpp"
#include "sim/estimates/plan/plan_base.hpp"

namespace orrery::estimates {

class PlanFlows {
 public:
  using Loads = std::vector<LinkLoad>;

  /// `base`: null without one. All outlive this.
  PlanFlows(const PlanRequest& request, PlanBase* base);

  /// Whoever counts adds what was counted before anybody else counts.
  FlowCounter& counter() { return base_ != nullptr ? base_->counter() : *own_counter_; }
  // In the order of comms, phases, parts.
  void add(Loads loads) { loads_.push_back(std::move(loads)); }
  /// What was counted; with a base it is a part of what is `known` there.
  void add_counted(std::uint32_t known);
  /// Its links are what the parts of a known flow leave.
  void add_rest_of(std::uint32_t known);

  /// With a base, of what is left of a known flow: of all of it.
  template <class Look>
  void each(const Look& look) const {
    for (const Loads& loads : loads_) look(loads);
    for (const std::uint32_t known : rest_of_) look(base_->links(known));
  }
  /// Gives the plan its links, and every flow those that bind it.
  void bind(Plan& plan) const;

 private:
  BindingLinks bind_known(const std::function<double(LinkId)>& bandwidth,
                          const std::set<std::uint32_t>& pinned) const;

  const PlanRequest& in_;
  PlanBase* const base_;
  std::optional<FlowCounter> own_counter_;
  std::vector<Loads> loads_;
  // With a base: flows that have what is left of a known one, and those that are parts of one.
  std::vector<std::uint32_t> rest_, rest_of_;                      ///< flow, and its known one
  std::vector<std::pair<std::uint32_t, std::uint32_t>> parts_of_;  ///< (flow, known one)
};

}  // namespace orrery::estimates

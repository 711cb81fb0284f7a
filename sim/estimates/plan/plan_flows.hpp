// Flows of a plan under construction. Used by sim/estimates/plan/plan; one thread.
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

/// Flows of a plan while it is laid out, and the computation of the links that bind them. With a
/// cache of shared facts, most flows are remainders of flows that the cache knows, and only
/// differences are counted anew. Flows are added in the order of communications, phases and parts.
/// Not thread-safe.
class PlanFlows {
 public:
  using Loads = std::vector<LinkLoad>;

  /// Starts without flows. `base` is the cache, or null. Request and cache must outlive this
  /// object.
  PlanFlows(const PlanRequest& request, PlanBase* base);

  /// Returns the flow counter. The caller must add the counted flow before any other counting.
  FlowCounter& counter() { return base_ != nullptr ? base_->counter() : *own_counter_; }
  /// Adds a flow with these links.
  void add(Loads loads) { loads_.push_back(std::move(loads)); }
  /// Adds the counted flow. With a cache the flow is a part of the cache's flow `known`, of which
  /// add_rest_of() must add the remainder, earlier or later; without a cache `known` is ignored.
  void add_counted(std::uint32_t known);
  /// Adds a flow with these links, which is a part of the cache's flow `known` as in add_counted().
  void add_part(Loads loads, std::uint32_t known);
  /// Adds the flow that remains of the cache's flow `known` after its parts are subtracted. Call
  /// only with a cache.
  void add_rest_of(std::uint32_t known);

  /// Calls `look` with the links of each flow in the order of adding, where the list of a remainder
  /// is empty; then, for each remainder, with all links of the known flow that it remains of.
  template <class Look>
  void for_each_flow(const Look& look) const {
    for (const Loads& loads : loads_) look(loads);
    for (const std::uint32_t known : rest_of_) look(base_->links(known));
  }
  /// Appends the binding links to the plan's slots, replaces its pinned links, and writes the slots
  /// of each flow to its communications. The communications must have one part for each added flow,
  /// in the same order: throws an internal Error for fewer parts, more are not checked. Call once.
  void bind_flows(Plan& plan) const;

 private:
  /// Returns the binding links by the cache's known flows.
  BindingLinks bind_known(const std::function<double(LinkId)>& bandwidth,
                          const std::set<std::uint32_t>& pinned) const;

  const PlanRequest& in_;
  PlanBase* const base_;
  std::optional<FlowCounter> own_counter_;
  std::vector<Loads> loads_;
  // Flow numbers of remainders and parts; empty without a cache.
  std::vector<std::uint32_t> rest_, rest_of_;  ///< flow number, and number of the known flow
  std::vector<std::pair<std::uint32_t, std::uint32_t>> parts_of_;  ///< (flow, known flow)
};

}  // namespace orrery::estimates

// Reduction of the links that flows cross to the links that can bind. Links that constrain the same
// flows in the same way count as one link; links that cannot be full with any set of active flows
// are left out. The rates of a max-min fair network are unchanged. Called by
// sim/estimates/plan/plan. Pure; thread-safe. Bytes per second.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "core/tables/huge_pages.hpp"
#include "sim/estimates/collectives/collectives.hpp"

namespace orrery::estimates {

/// Links that can bind a set of flows, and the links of each flow. For example, if ten flows each
/// cross a fast NVLink, one common 50 GB/s uplink and one equally fast downlink, only the uplink
/// remains: the downlink constrains the same flows in the same way.
struct BindingLinks {
  /// Link that stands for all links with the same constraint.
  struct Link {
    LinkId link;  ///< first of the links that count as one
    /// Bytes per second.
    double bandwidth = 0;
  };
  std::vector<Link> links;
  std::map<std::uint32_t, std::uint32_t> pinned;  ///< LinkId -> index in `links`
  /// Indices in `links` by flow, ascending, each repeated as often as flows count on the link.
  std::vector<std::vector<std::uint32_t>> of_flow;
};

/// Returns the links that bind `flows`; each flow lists its links ascending, with ids below
/// `link_count`. `bandwidth` returns the rate of a link in bytes per second. Links of `pinned` may
/// change later: if a flow crosses them, they are always kept as links of their own.
BindingLinks binding_links(const std::vector<std::vector<LinkLoad>>& flows,
                           std::uint32_t link_count,
                           const std::function<double(LinkId)>& bandwidth,
                           const std::set<std::uint32_t>& pinned);

/// Set of flows that most requests share. The constructor groups the links of these known flows
/// once; a request then costs time for the links that differ, not for all links. Immutable after
/// construction; thread-safe.
class KnownFlows {
 public:
  using Loads = std::vector<LinkLoad>;
  /// Groups the links of `flows`, which must outlive this object. `bandwidth` returns the rates of
  /// links without faults, in bytes per second.
  KnownFlows(std::vector<const Loads*> flows, std::uint32_t link_count,
             const std::function<double(LinkId)>& bandwidth);

  /// Flow that carries a part of a known flow, or is unrelated to known flows.
  struct Part {
    static constexpr std::uint32_t kOfNone = ~0u;
    std::uint32_t flow = 0;          ///< number of the flow
    std::uint32_t known = kOfNone;   ///< known flow that contains this one, or kOfNone
    /// Links of the flow; never null in a request.
    const Loads* links = nullptr;
  };
  /// Change of a known flow since construction: additional flows that cross a link (negative if
  /// fewer).
  struct Change {
    std::uint32_t link = 0;
    std::int32_t flows = 0;
  };
  /// Flows of one plan, given by their differences from the known flows.
  struct Request {
    std::uint32_t flows = 0;               ///< number of flows; flow numbers are below it
    /// Changes by known flow; each list ascends by link, each link once. Empty if no known flow
    /// changed.
    std::vector<const std::vector<Change>*> now = {};
    /// Flow number of the remainder of each known flow, ascending.
    std::vector<std::uint32_t> rest;
    /// Flows besides the remainders.
    std::vector<Part> parts;
    std::vector<std::uint32_t> changed;    ///< links whose bandwidth differs from the known one
    const std::function<double(LinkId)>& bandwidth;
    const std::set<std::uint32_t>& pinned;
  };
  /// Returns the same links as binding_links() for all flows of the request.
  BindingLinks bind_links(const Request& request) const;

 private:
  /// (flow, flows on the link), by flow.
  using Constraint = std::vector<std::pair<std::uint32_t, std::uint32_t>>;
  /// Links that the same known flows cross equally often with equal bandwidth.
  struct Alike {
    Constraint constraint;
    double bandwidth;
    std::vector<std::uint32_t> links;  ///< ascending
  };
  /// Change of one known flow on one link.
  struct Difference {
    std::uint32_t link = 0, known = 0;
    std::int32_t flows = 0;
  };
  /// Loads of the parts on one link, and the changes of known flows on that link.
  struct Touched {
    std::span<const std::pair<LinkLoad, const Part*>> parts;
    std::span<const Difference> now;
  };
  /// Returns the links that differ from the known state, ascending; marks them in `is`.
  std::vector<std::uint32_t> touched_by(const Request& request, std::vector<bool>& is) const;
  /// Returns the changes of all known flows, by link and then by known flow.
  static std::vector<Difference> differences(const Request& request);
  /// Sets the constraint of a link: remainders of the known flows and the parts that cross it.
  void set_constraint(std::uint32_t link, const std::vector<std::uint32_t>& rest,
                      const Touched& touched, Constraint& constraint) const;

  std::vector<const Loads*> flows_;
  std::uint32_t link_count_;
  HugeVector<std::uint32_t> first_;  ///< index of each link's first entry in crossings_
  /// Crossings by link, then by known flow.
  HugeVector<std::pair<std::uint32_t, std::uint32_t>> crossings_;
  std::vector<Alike> alike_;          ///< groups of links with equal constraints and bandwidth
};

}  // namespace orrery::estimates

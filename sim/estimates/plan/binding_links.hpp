// Of the links that flows cross, those that decide: links that constrain the same flows in the
// same way are one, and links that cannot be full, whatever goes on at once, are left out. The
// rates that a fair network gives the flows are the same. Called by sim/estimates/plan/plan. Pure;
// thread-safe. Bytes per second.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "sim/estimates/collectives/collectives.hpp"

namespace orrery::estimates {

struct BindingLinks {
  struct Link {
    LinkId link;  ///< the first of those that are one
    double bandwidth = 0;
  };
  std::vector<Link> links;
  std::map<std::uint32_t, std::uint32_t> pinned;  ///< LinkId -> place in `links`
  /// By flow: places in `links`, ascending, each as often as it counts.
  std::vector<std::vector<std::uint32_t>> of_flow;
};

/// `flows`: the links of each, ascending, below `link_count`. Links of `pinned` may change and are
/// kept as they are.
BindingLinks binding_links(const std::vector<std::vector<LinkLoad>>& flows,
                           std::uint32_t link_count,
                           const std::function<double(LinkId)>& bandwidth,
                           const std::set<std::uint32_t>& pinned);

/// The same for flows that are, but for a few, the same each time: those are known beforehand, and
/// what a call costs is the links of what differs, not of all.
class KnownFlows {
 public:
  using Loads = std::vector<LinkLoad>;
  /// `flows` outlive this. `bandwidth`: of links that nothing has happened to.
  KnownFlows(std::vector<const Loads*> flows, std::uint32_t link_count,
             const std::function<double(LinkId)>& bandwidth);

  /// A flow that carries some of what a known one does, or something else.
  struct Part {
    static constexpr std::uint32_t kOfNone = ~0u;
    std::uint32_t flow = 0;          ///< its number
    std::uint32_t known = kOfNone;   ///< the known one whose links these are a part of
    const Loads* links = nullptr;
  };
  /// A known flow may be another one by now: how many more cross a link (fewer: negative).
  struct Change {
    std::uint32_t link = 0;
    std::int32_t flows = 0;
  };
  struct Request {
    std::uint32_t flows = 0;               ///< numbers in use
    /// By known flow, by link, each once; empty: they are as they are known.
    std::vector<const std::vector<Change>*> now = {};
    std::vector<std::uint32_t> rest;       ///< by known flow, ascending: the number of what is left
    std::vector<Part> parts;
    std::vector<std::uint32_t> changed;    ///< links whose bandwidth is another now
    const std::function<double(LinkId)>& bandwidth;
    const std::set<std::uint32_t>& pinned;
  };
  /// As binding_links() of all of them.
  BindingLinks bind(const Request& request) const;

 private:
  /// (flow, how often it counts), by flow.
  using Constraint = std::vector<std::pair<std::uint32_t, std::uint32_t>>;
  struct Alike {
    Constraint constraint;
    double bandwidth;
    std::vector<std::uint32_t> links;  ///< ascending
  };
  /// Of a known flow, on one link.
  struct Difference {
    std::uint32_t link = 0, known = 0;
    std::int32_t flows = 0;
  };
  /// What parts carry on one link, and how known flows differ there.
  struct Touched {
    std::span<const std::pair<LinkLoad, const Part*>> parts;
    std::span<const Difference> now;
  };
  std::vector<std::uint32_t> touched_by(const Request& request, std::vector<bool>& is) const;
  static std::vector<Difference> differences(const Request& request);
  Constraint constraint_of(std::uint32_t link, const std::vector<std::uint32_t>& rest,
                           const Touched& touched) const;

  std::vector<const Loads*> flows_;
  std::uint32_t link_count_;
  std::vector<std::uint32_t> first_;  ///< by link: its first entry in crossings_
  Constraint crossings_;              ///< by link, then by known flow
  std::vector<Alike> alike_;          ///< links that the same flows cross as often, equally fast
};

}  // namespace orrery::estimates

// The one reader of a scenario's faults: what holds for a rank or a part of the cluster at a
// moment, what begins, what ends ranks, when something changes next. It knows no world: the
// simulator maps it onto links and simulated ranks, live mode onto processes. Sorted once; whoever
// asks along the time pays for each beginning and each end once, in either direction. One thread
// (it remembers where it was asked last). Times are the policy clock's.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "core/ids.hpp"
#include "core/random.hpp"
#include "topologies/part.hpp"
#include "traces/scenario.pb.h"

namespace orrery {

/// What a fault hits.
using FaultTarget = std::variant<RankId, Part>;

/// A moment of a run: the step under way, or about to begin, and the instant.
struct Moment {
  std::int64_t step = 0;
  Nanos now = 0;
};
inline constexpr Moment kBeforeTheRun{-1, -1};

/// How something deviates from its data sheet.
struct Condition {
  double slow = 1;  ///< takes this many times as long; a part of the fabric has 1/x of its rate
  double link_slow = 1;    ///< of a rank: its NIC has 1/x of its bandwidth
  bool link_down = false;  ///< of a rank: nothing goes through its NIC
  bool down = false;       ///< of a part
  friend bool operator==(const Condition&, const Condition&) = default;
};

/// Faults of one trigger, by their index in the scenario, ascending.
struct FaultGroup {
  bool at_step = false;
  std::int64_t at = 0;  ///< the step, or the instant
  std::vector<std::uint32_t> faults;
};

class FaultScript {
 public:
  /// The scenario has been checked; its seed draws the parts of shares. Throws bad_input for parts
  /// that the cluster does not have.
  FaultScript(const Scenario& scenario, const Cluster& cluster);

  std::size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }

  // ---- the state at a moment ----
  /// Of one rank or part, by the faults that name it: a GPU's is not its node's, nor its rank's.
  Condition condition(const FaultTarget& target, Moment at) const;
  /// Faults that hold, by what they hit; kills and stops are not among them. Until the next call.
  const std::map<FaultTarget, std::set<std::uint32_t>>& active(Moment at) const;
  /// All that deviates.
  std::map<FaultTarget, Condition> conditions(Moment at) const;

  // ---- what happens ----
  /// What begins after `from` and until `until`: at steps, ascending, then at instants.
  std::vector<FaultGroup> due(Moment from, Moment until) const;
  /// The first instant in [from, until) at which ranks may be lost, with all faults that do so
  /// then and are not spent: kills, stops, GPUs and nodes that go down. Those of `step`, if one is
  /// given, strike as it begins, at `from`.
  struct Strike {
    Nanos at = 0;
    std::vector<std::uint32_t> faults;
  };
  std::optional<Strike> next_strike(std::optional<Step> step, Nanos from, Nanos until) const;
  /// It has struck: it will not again.
  void spend(std::uint32_t fault) { spent_.at(fault) = true; }
  /// How many faults have begun.
  std::uint64_t begun(Moment at) const;
  /// The same by the cause that the scenario names; of those that begin after `from`.
  std::map<std::string, std::uint64_t> begun_by_cause(Moment from, Moment at) const;

  // ---- when something changes ----
  /// The first step after `after` at which something begins, ends or grows.
  std::optional<Step> next_step(Step after) const;
  /// The first instant after `after` at which something begins or ends.
  std::optional<Nanos> next_instant(Nanos after) const;
  /// All such instants after `from` and before `until`, ascending.
  std::vector<Nanos> instants(Nanos from, Nanos until) const;
  /// The faults that begin or end at exactly `instant`.
  std::vector<std::uint32_t> changing(Nanos instant) const;

  // ---- one fault ----
  std::span<const FaultTarget> targets(std::uint32_t fault) const;
  bool at_step(std::uint32_t fault) const { return entries_.at(fault).begin.at_step; }
  /// The step or the instant at which it begins.
  std::int64_t begin(std::uint32_t fault) const { return entries_.at(fault).begin.at; }
  Fault::KindCase kind(std::uint32_t fault) const { return entries_.at(fault).kind; }
  /// Whether ranks do not survive it: it is never among the active ones, but a part that is down.
  bool ends_ranks(std::uint32_t fault) const;
  /// "rank 3 killed", "NIC of rank 4 down", "node 1 down"; behind the cause that is named, if any.
  std::string cause(std::uint32_t fault, const FaultTarget& target) const;
  /// As the scenario names it; empty: it does not.
  const std::string& named_cause(std::uint32_t fault) const {
    return causes_[entries_.at(fault).cause];
  }

 private:
  /// A beginning or an end, of a step or of an instant.
  struct Border {
    bool at_step = false;
    std::int64_t at = 0;
  };
  struct Entry {
    Border begin;
    Fault::KindCase kind = Fault::KIND_NOT_SET;
    bool begun = false, over = false;  ///< where the script was asked last
    double size = 1;                   ///< of slow, link_slow and rate; of a ramp its top
    std::uint64_t ramp_steps = 0;
    std::uint32_t first_target = 0, targets = 0;
    std::uint32_t cause = 0;  ///< in causes_
  };
  struct Edge {
    std::int64_t at = 0;
    std::uint32_t fault = 0;
    bool end = false;
  };
  /// Steps or instants: what happens along them, in order.
  struct Axis {
    std::vector<Edge> edges;            ///< by `at`
    std::vector<Edge> begins;           ///< of them
    std::vector<Edge> strikes;          ///< of those, what ends ranks
    mutable std::size_t passed = 0;     ///< edges behind where the script was asked last
  };

  void add(const Fault& fault, const Scenario& scenario, const Cluster& cluster);
  void add_targets(const Fault& fault, std::uint64_t seed, const Cluster& cluster);
  std::uint32_t number_of(const std::string& cause);
  std::string what_happens(std::uint32_t fault, const FaultTarget& target) const;
  void move_to(Moment at) const;
  void pass(const Edge& edge, bool onward) const;
  bool grows(Step step) const;
  double slowness(const Entry& entry, std::int64_t step) const;
  void apply(std::uint32_t fault, std::int64_t step, Condition& to) const;
  Axis& axis(bool steps) { return steps ? steps_ : times_; }

  mutable std::vector<Entry> entries_;  ///< by index in the scenario
  std::vector<FaultTarget> targets_;
  std::vector<std::string> causes_{""};  ///< each once
  std::vector<bool> spent_;
  Axis steps_, times_;
  std::vector<std::int64_t> ramp_begins_, ramp_tops_;  ///< steps, ascending
  mutable std::map<FaultTarget, std::set<std::uint32_t>> active_;
};

/// Parts of the cluster that are gone, or through which nothing goes: a rank's NIC too, by the GPUs
/// of rank 0, 1, ...
std::set<Part> lost_parts(const FaultScript& script, Moment at, const Cluster& cluster,
                          std::span<const GpuId> gpus);

/// So many of `all`, each as likely, ascending.
std::vector<std::uint32_t> some_of(std::uint32_t count, std::uint32_t all, Rng rng);

/// The kind of the parts that a fault hits; nothing: it hits a rank.
std::optional<PartKind> part_kind(const Fault& fault);
/// Whether such a fault happens to parts; else to ranks.
bool happens_to_parts(Fault::KindCase kind);
/// Whether it hits a share of them, not one by its index.
bool hits_share(const Fault& fault);
/// How many that is, of `all` there are; or the index.
std::uint32_t parts_hit(const Fault& fault, std::uint32_t all);
std::uint32_t hit_index(const Fault& fault);

}  // namespace orrery

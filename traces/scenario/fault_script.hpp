// Reader of a scenario's faults for both worlds: conditions of a rank or a part of the cluster at a
// moment, begins, losses of ranks, and the next change. It knows no world: the simulator maps it to
// links and simulated ranks, live mode to processes. Sorted once; queries along the time cost each
// begin and each end once, in either direction. One thread (it stores the moment of the last
// query). Times are the policy clock's. For example, a fault with slow 2 from step 10 to step 20
// has begun at step 12, and condition() returns slow = 2.
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

/// Target of a fault.
using FaultTarget = std::variant<RankId, Part>;

/// Moment of a run: the current step, or the next one, and the instant.
struct Moment {
  std::int64_t step = 0;
  Nanos now = 0;
};
inline constexpr Moment kBeforeTheRun{-1, -1};

/// Deviation from the data sheet.
struct Condition {
  double slow = 1;  ///< time factor; a part of the fabric has 1/x of its rate
  double link_slow = 1;    ///< effect on a rank: its NIC has 1/x of its bandwidth
  bool link_down = false;  ///< effect on a rank: its NIC transfers nothing
  bool down = false;       ///< effect on a part
  friend bool operator==(const Condition&, const Condition&) = default;
};

/// Faults of one trigger, by their index in the scenario, ascending.
struct FaultGroup {
  bool at_step = false;
  std::int64_t at = 0;  ///< step or instant
  std::vector<std::uint32_t> faults;
};

/// Faults of one run. A fault is named by its index in the scenario; methods with such an index
/// throw std::out_of_range from size() on.
class FaultScript {
 public:
  /// Sorts the faults. The scenario must have been checked; its seed draws the parts of shares.
  /// Throws bad_input for parts that the cluster lacks.
  FaultScript(const Scenario& scenario, const Cluster& cluster);

  std::size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }

  // ---- the state at a moment ----
  /// Returns the condition of one rank or part, by the faults that name it: a GPU's condition is
  /// neither its node's nor its rank's.
  Condition condition(const FaultTarget& target, Moment at) const;
  /// Returns the active faults by target, without kills and stops. Valid until the next call.
  const std::map<FaultTarget, std::set<std::uint32_t>>& active(Moment at) const;
  /// Returns all conditions that deviate.
  std::map<FaultTarget, Condition> conditions(Moment at) const;

  // ---- what happens ----
  /// Returns the faults that begin after `from` and until `until` (inclusive), spent ones too: at
  /// steps, ascending, then at instants.
  std::vector<FaultGroup> due(Moment from, Moment until) const;
  /// First instant with a loss of ranks, and its faults: kills, stops, GPUs and nodes that go down,
  /// except spent ones.
  struct Strike {
    Nanos at = 0;
    std::vector<std::uint32_t> faults;
  };
  /// Returns the first strike in [from, until); nothing if none falls there. Faults of `step`, if
  /// given, strike at its begin, `from`.
  std::optional<Strike> next_strike(std::optional<Step> step, Nanos from, Nanos until) const;
  /// Marks a fault as spent: next_strike() leaves the fault out. No other method does.
  void mark_spent(std::uint32_t fault) { spent_.at(fault) = true; }
  /// Returns the number of faults that have begun, those that are over too.
  std::uint64_t begun_count(Moment at) const;
  /// Returns the number of faults that begin after `from` and until `at`, by the cause in the
  /// scenario; faults without a cause are left out.
  std::map<std::string, std::uint64_t> begun_by_cause(Moment from, Moment at) const;

  // ---- when something changes ----
  /// Returns the first step after `after` at which a fault begins, ends or grows; nothing if none
  /// does.
  std::optional<Step> next_step(Step after) const;
  /// Returns the first instant after `after` at which a fault begins or ends; nothing if none does.
  std::optional<Nanos> next_instant(Nanos after) const;
  /// Returns all such instants after `from` and before `until`, ascending.
  std::vector<Nanos> instants(Nanos from, Nanos until) const;
  /// Returns the faults that begin or end at exactly `instant`.
  std::vector<std::uint32_t> changing_faults(Nanos instant) const;

  // ---- one fault ----
  std::span<const FaultTarget> targets(std::uint32_t fault) const;
  bool is_at_step(std::uint32_t fault) const { return entries_.at(fault).begin.at_step; }
  /// Returns the step or the instant at which the fault begins.
  std::int64_t begin(std::uint32_t fault) const { return entries_.at(fault).begin.at; }
  Fault::KindCase kind(std::uint32_t fault) const { return entries_.at(fault).kind; }
  /// Returns true if ranks do not survive the fault: a kill, a stop, or a GPU or node that goes
  /// down. Of these, active() contains only the GPUs and nodes.
  bool is_ending_ranks(std::uint32_t fault) const;
  /// Returns a description, for example "rank 3 killed", "NIC of rank 4 down" or "node 1 down",
  /// after the scenario's cause, if any. Call for kills, stops, link_down and down only: every
  /// other fault is described as a loss too.
  std::string cause(std::uint32_t fault, const FaultTarget& target) const;
  /// Returns the cause in the scenario; empty if none is given.
  const std::string& named_cause(std::uint32_t fault) const {
    return causes_[entries_.at(fault).cause];
  }

 private:
  /// Begin or end, at a step or an instant.
  struct Border {
    bool at_step = false;
    std::int64_t at = 0;
  };
  struct Entry {
    Border begin;
    Fault::KindCase kind = Fault::KIND_NOT_SET;
    bool begun = false, over = false;  ///< state at the moment of the last query
    double size = 1;                   ///< value of slow, link_slow and rate; top of a ramp
    std::uint64_t ramp_steps = 0;
    std::uint32_t first_target = 0, targets = 0;
    std::uint32_t cause = 0;  ///< index into causes_
  };
  struct Edge {
    std::int64_t at = 0;
    std::uint32_t fault = 0;
    bool end = false;
  };
  /// Events along steps or instants, in order.
  struct Axis {
    std::vector<Edge> edges;            ///< indexed by `at`
    std::vector<Edge> begins;           ///< begins among them
    std::vector<Edge> strikes;          ///< begins that lose ranks
    mutable std::size_t passed = 0;     ///< edges before the moment of the last query
  };

  void add(const Fault& fault, const Scenario& scenario, const Cluster& cluster);
  void add_targets(const Fault& fault, std::uint64_t seed, const Cluster& cluster);
  std::uint32_t number_of(const std::string& cause);
  std::string what_happens(std::uint32_t fault, const FaultTarget& target) const;
  void move_to(Moment at) const;
  void pass_edge(const Edge& edge, bool onward) const;
  bool is_growing(Step step) const;
  double slowness(const Entry& entry, std::int64_t step) const;
  void apply(std::uint32_t fault, std::int64_t step, Condition& to) const;
  Axis& axis(bool steps) { return steps ? steps_ : times_; }

  mutable std::vector<Entry> entries_;  ///< indexed by index in the scenario
  std::vector<FaultTarget> targets_;
  std::vector<std::string> causes_{""};  ///< each once
  std::vector<bool> spent_;
  Axis steps_, times_;
  std::vector<std::int64_t> ramp_begins_, ramp_tops_;  ///< steps, ascending
  mutable std::map<FaultTarget, std::set<std::uint32_t>> active_;
};

/// Returns the parts of the cluster that are lost or transfer nothing, including ranks' NICs, by
/// the GPUs of ranks 0, 1, ... Leaves out parts whose loss takes only a fraction of their links,
/// and ranks without an entry in `gpus`.
std::set<Part> lost_parts(const FaultScript& script, Moment at, const Cluster& cluster,
                          std::span<const GpuId> gpus);

/// Returns `count` of the numbers below `all`, each equally likely, ascending. `count` must be at
/// most `all`.
std::vector<std::uint32_t> some_of(std::uint32_t count, std::uint32_t all, Rng rng);

/// Returns the kind of the parts that a fault hits; nothing if it hits a rank.
std::optional<PartKind> part_kind(const Fault& fault);
/// Returns true if such a fault hits parts rather than ranks.
bool happens_to_parts(Fault::KindCase kind);
/// Returns true if the fault hits a fraction of the parts, not one by its index.
bool hits_share(const Fault& fault);
/// Returns the number of hit parts of `all`, rounded. Throws an internal Error unless
/// hits_share(fault).
std::uint32_t parts_hit(const Fault& fault, std::uint32_t all);
/// Returns the index of the hit rank or part. Throws an internal Error if hits_share(fault).
std::uint32_t hit_index(const Fault& fault);

}  // namespace orrery

// Reader of a scenario's faults for both worlds: conditions of a rank or a part of the cluster at a
// moment, begins, losses of ranks, and the next change. It knows no world: the simulator maps it to
// links and simulated ranks, live mode to processes. The scenario's own faults are sorted once;
// failures that follow from rates (FailureStream) are drawn as far as the queries look. Queries
// along the time cost each begin and each end once, in either direction. One thread (it stores the
// moment of the last query). Times are the policy clock's. For example, a fault with slow 2 from
// step 10 to step 20 has begun at step 12, and condition() returns slow = 2.
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
#include "traces/scenario/failure_stream.hpp"

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

/// Faults of one trigger, by their number, ascending.
struct FaultGroup {
  bool at_step = false;
  std::int64_t at = 0;  ///< step or instant
  std::vector<std::uint32_t> faults;
};

/// Faults of one run. A fault has a number: its index in the scenario, and from there on the drawn
/// faults by time.
class FaultScript {
 public:
  /// Sorts the faults. The scenario must have been checked; its seed draws the parts of shares, and
  /// the failures of `scenario.failures()`. Throws bad_input for parts that the cluster lacks. The
  /// cluster must outlive this object.
  FaultScript(const Scenario& scenario, const Cluster& cluster);

  /// Returns the number of the scenario's own faults.
  std::size_t size() const { return own_; }

  // ---- the state at a moment ----
  /// Returns the condition of one rank or part, by the faults that name it: a GPU's condition is
  /// neither its node's nor its rank's. Factors of several faults multiply. Returns a default
  /// Condition without an active fault, and for kills and stops.
  Condition condition(const FaultTarget& target, Moment at) const;
  /// Returns the active faults by target, without kills and stops. Valid until the next call.
  const std::map<FaultTarget, std::set<std::uint32_t>>& active(Moment at) const;
  /// Returns all conditions that deviate, by target; empty if none does.
  std::map<FaultTarget, Condition> conditions(Moment at) const;
  /// Returns the planned removals from their announcement to the return of the part. If several
  /// concern one part: one that has begun, else the first in the scenario.
  std::map<Part, Removal> removals(Moment at) const;

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
  /// Returns the first strike in [from, until); nothing if none falls there, or if every loss there
  /// is spent. Faults of `step`, if given, strike at its begin, `from`. Marks nothing as spent: the
  /// same query gives the same strike.
  std::optional<Strike> next_strike(std::optional<Step> step, Nanos from, Nanos until) const;
  /// Marks a fault as spent, for good: next_strike() leaves the fault out. No other method does.
  /// Throws std::out_of_range for a drawn fault that is not in memory: removed or not drawn yet.
  void mark_spent(std::uint32_t fault) { entry(fault).spent = true; }
  /// Returns the number of faults that have begun, those that are over too.
  std::uint64_t begun_count(Moment at) const;
  /// Returns the number of faults that begin after `from` and until `at`, by the cause in the
  /// scenario; faults without a cause are left out.
  std::map<std::string, std::uint64_t> begun_by_cause(Moment from, Moment at) const;

  // ---- when something changes ----
  /// Returns the first step after `after` at which a fault begins, ends, grows or is announced;
  /// nothing if none does.
  std::optional<Step> next_step(Step after) const;
  /// Returns the first instant after `after` at which a fault begins, ends or is announced; nothing
  /// if none does.
  /// Drawn failures count only if they begin by `horizon`, the scenario's own faults always.
  std::optional<Nanos> next_instant(Nanos after, Nanos horizon = kNever) const;
  /// Returns all such instants after `from` and before `until`, ascending.
  std::vector<Nanos> instants(Nanos from, Nanos until) const;
  /// Returns the faults that begin or end at exactly `instant`; a fault that does both is listed
  /// twice.
  std::vector<std::uint32_t> changing_faults(Nanos instant) const;
  /// Returns true if a fault begins, ends or is announced at exactly `instant`.
  bool has_change_at(Nanos instant) const { return !instants(instant - 1, instant + 1).empty(); }

  // ---- memory ----
  // Drawn fault that is over and was removed.
  struct Forgotten {
    std::uint32_t fault = 0;
    std::string cause;  ///< cause in the scenario
  };
  /// Returns the number of faults in memory: the scenario's own and those drawn so far, without
  /// removed ones. Faults are drawn in batches, so some are later than any query has looked.
  std::size_t faults_in_memory() const { return own_ + drawn_entries_.size(); }
  /// Returns true if so many drawn faults are in memory that forget_before() is worth its time.
  bool is_worth_forgetting() const;
  /// Removes all begins and ends at instants before `instant`, not those at steps, and the drawn
  /// faults that are over by then, which it returns. No later query may look before `instant`,
  /// except begun_count() and begun_by_cause(), whose `from` must be `counted_from` after this
  /// call.
  std::vector<Forgotten> forget_before(Nanos instant, Nanos counted_from);

  /// Returns the duration of the test of the part when it returns from a fault; 0: no test. Several
  /// faults of the scenario with a test of the part: the longest test.
  Nanos test_time(Part part) const;

  // ---- one fault ----
  // Each throws std::out_of_range for a drawn fault that is not in memory: removed or not drawn
  // yet. Faults are drawn in batches, so one that no query has read may be there already.
  /// Returns the rank or part that the fault hits, or the parts of its share, perhaps none.
  std::span<const FaultTarget> targets(std::uint32_t fault) const;
  /// Returns true if the fault begins at a step, false if at an instant.
  bool is_at_step(std::uint32_t fault) const { return entry(fault).begin.at_step; }
  /// Returns the step or the instant at which the fault begins.
  std::int64_t begin(std::uint32_t fault) const { return entry(fault).begin.at; }
  Fault::KindCase kind(std::uint32_t fault) const { return entry(fault).kind; }
  /// Returns true if ranks do not survive the fault: a kill, a stop, or a GPU or node that goes
  /// down. Of these, active() contains only the GPUs and nodes.
  bool is_ending_ranks(std::uint32_t fault) const;
  /// Returns the share of the data sheet's rate that the fault leaves its part, or the NIC of its
  /// rank: that of `rate`, or 1/x with `link_slow: x`; 1 for every other fault.
  double rate(std::uint32_t fault) const;
  /// Returns a description, for example "rank 3 killed", "NIC of rank 4 down" or "node 1 down",
  /// after the scenario's cause, if any. Call for kills, stops, link_down and down only: every
  /// other fault is described as a loss too.
  std::string cause(std::uint32_t fault, const FaultTarget& target) const;
  /// Returns the fault's own time until its loss of ranks is detected; nothing if it has none.
  std::optional<Nanos> own_detection(std::uint32_t fault) const { return entry(fault).detection; }
  /// Returns the fault's own duration of a restart from a checkpoint; nothing if it has none.
  std::optional<Nanos> own_restart(std::uint32_t fault) const { return entry(fault).restart; }
  /// Returns the fault's own time until its lost ranks are replaced; nothing if it has none.
  std::optional<Nanos> own_replacement(std::uint32_t fault) const {
    return entry(fault).replacement;
  }
  /// Returns the time before the fault since which the training state is corrupted; nothing if the
  /// fault corrupts nothing.
  std::optional<Nanos> corrupted(std::uint32_t fault) const { return entry(fault).corrupted; }
  /// Returns the instant at which the ranks of a stop run again; nothing for another fault and for
  /// a stop without an end.
  std::optional<Nanos> stop_end(std::uint32_t fault) const { return entry(fault).stop_end; }
  /// Returns the cause in the scenario; empty if none is given. The reference is valid until the
  /// next query about a moment, a step or an instant, which may draw failures; the methods about
  /// one fault keep it valid.
  const std::string& named_cause(std::uint32_t fault) const {
    return causes_[entry(fault).cause];
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
    bool announced = false;            ///< true for a planned removal, also once it has begun
    double size = 1;                   ///< value of slow, link_slow or rate; top of a ramp
    std::uint64_t ramp_steps = 0;
    /// own times, instead of those of `survival`
    std::optional<Nanos> detection, restart, replacement;
    std::optional<Nanos> corrupted;    ///< time since which the state is corrupted
    std::optional<Nanos> stop_end;     ///< end of a stop
    FaultTarget target;                ///< the only target, unless the fault hits a share
    bool share = false;
    std::uint32_t first_target = 0, targets = 0;  ///< range in targets_ of a share
    bool spent = false;
    std::uint32_t cause = 0;  ///< index into causes_
  };
  enum class EdgeKind : std::uint8_t { begin, end, notice };
  struct Edge {
    std::int64_t at = 0;
    std::uint32_t fault = 0;
    EdgeKind kind = EdgeKind::begin;
  };
  /// Fault of the scenario that is announced before it begins.
  struct Planned {
    std::uint32_t fault = 0;
    Removal what;
  };
  /// Events along steps or instants, in order.
  struct Axis {
    std::vector<Edge> edges;            ///< indexed by `at`
    std::vector<Edge> begins;           ///< begins among them
    std::vector<Edge> strikes;          ///< begins that lose ranks
    std::size_t passed = 0;             ///< edges before the moment of the last query
  };

  Entry& entry(std::uint32_t fault) const;
  void add(const Fault& fault) const;
  void add_targets(const Fault& fault, Entry& entry) const;
  /// Adds the announcement of a planned removal, which ends at `end`, and the test after it.
  void add_plan(const Fault& fault, std::uint32_t index, const std::optional<Border>& end) const;
  /// Puts the edges that were added behind the first `sorted` ones of an axis in order.
  void sort_edges(Axis& along, std::size_t sorted) const;
  /// Draws some further failures, if any are left.
  void draw_more() const;
  void draw_until(Nanos instant) const;
  std::uint32_t number_of(const std::string& cause) const;
  std::string what_happens(std::uint32_t fault, const FaultTarget& target) const;
  void move_to(Moment at) const;
  void pass_edge(const Edge& edge, bool onward) const;
  bool is_growing(Step step) const;
  double slowness(const Entry& entry, std::int64_t step) const;
  void apply(std::uint32_t fault, std::int64_t step, Condition& to) const;
  Axis& axis(bool steps) const { return steps ? steps_ : times_; }

  const Cluster* cluster_;
  std::uint64_t seed_;
  std::size_t own_;
  std::uint64_t forgotten_ = 0;                            ///< removed begins
  std::map<std::string, std::uint64_t> forgotten_causes_;  ///< counted ones among them, by cause
  std::size_t kept_ = 0;                                   ///< drawn faults after the last removal
  // The following grows when a query looks further than the failures are drawn.
  mutable std::optional<FailureStream> stream_;
  mutable Nanos drawn_until_ = kNever;  ///< no failure up to here is left in the stream
  mutable std::uint32_t next_number_ = 0;
  mutable std::vector<Entry> own_entries_;  ///< entry of each of the scenario's faults
  mutable std::map<std::uint32_t, Entry> drawn_entries_;
  mutable std::vector<FaultTarget> targets_;
  mutable std::vector<Planned> planned_;   ///< planned removals, in the order of the scenario
  mutable std::map<Part, Nanos> tests_;    ///< durations of the tests of returned parts
  mutable std::vector<std::string> causes_{""};  ///< each once
  mutable Axis steps_, times_;
  mutable std::vector<std::int64_t> ramp_begins_, ramp_tops_;  ///< steps, ascending
  mutable std::map<FaultTarget, std::set<std::uint32_t>> active_;
};

/// Returns the parts of the cluster that are lost or transfer nothing, including ranks' NICs, by
/// the GPUs of ranks 0, 1, ... Leaves out parts whose loss takes only a fraction of their links,
/// and ranks without an entry in `gpus`.
std::set<Part> lost_parts(const FaultScript& script, Moment at, const Cluster& cluster,
                          std::span<const GpuId> gpus);
/// Returns the parts of the cluster that have less than the rate of their data sheet, each with the
/// share that is left: the product of the shares of its faults. Counts `link_slow` of a rank as a
/// fault of its NIC. Leaves out the parts and ranks that lost_parts() leaves out; `slow` and `ramp`
/// slow down the process of a rank, which is no part. Parts that are lost too are included. For
/// example, a NIC with `rate: 0.5` whose rank has `link_slow: 2` has the rate 0.25.
std::map<Part, double> slower_parts(const FaultScript& script, Moment at, const Cluster& cluster,
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
/// Returns the index of the hit rank or part. Throws an internal Error if hits_share(fault), or if
/// the fault has no target.
std::uint32_t hit_index(const Fault& fault);

}  // namespace orrery

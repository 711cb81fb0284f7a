// Failures of a scenario drawn from their rates, one after the other, for as long as somebody asks:
// a run of any length gets failures until its end, and only the failures near the present are in
// memory. FaultScript reads the stream. Each kind has its own random numbers, so a further kind
// does not change the others, and the failures do not depend on when they are drawn. One thread.
// Seconds inside, the policy clock's nanoseconds outside. For example, 1,000 nodes with a mean time
// between failures of 1,000 hours give one failure an hour on average.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "core/ids.hpp"
#include "core/random.hpp"
#include "topologies/cluster.hpp"
#include "traces/scenario.pb.h"

namespace orrery {

/// Sequence of the failures of `scenario.failures()`, without its trace, by time. It ends at
/// failures.until, or after 9e9 seconds.
///
/// Kinds without memory are drawn failure by failure. Kinds whose parts wear out or that are
/// regular are drawn part by part, one window after the other: the first window is `until` or 60
/// days. A window is shorter if a million failures are expected in it.
class FailureStream {
 public:
  /// Constructs the stream at its begin. The scenario must have been checked; the cluster must
  /// outlive this object.
  FailureStream(const Scenario& scenario, const Cluster& cluster);

  /// Returns the instant of the next failure, which stays the next one; kNever after the last one.
  Nanos next_time();
  /// Removes the next failure and returns its faults, with their instant, target and duration: one,
  /// or one for each node of a rack or row. Of failures of one instant the kind listed first is
  /// first. Throws an internal Error after the last failure.
  std::vector<Fault> pop_failure();
  /// Returns the longest notice of all kinds: failures that begin within this time from now may be
  /// announced already.
  Nanos longest_notice() const;

 private:
  /// One drawn failure.
  struct Failure {
    Nanos at = 0;
    std::uint32_t target = 0;  ///< part, or rank of the job
    Nanos lasts = 0;           ///< 0: for ever, or without a duration
    /// own times, if the kind has them
    std::optional<Nanos> detection = {}, restart = {}, replacement = {};
    std::optional<Nanos> corrupted = {};  ///< time before, since which the state is corrupted
  };
  /// One kind of failures and the state of its random numbers.
  struct Source {
    FailureKind kind;
    double mtbf_s;
    std::uint32_t parts;
    std::uint32_t lemons;  ///< number of such parts
    double times;          ///< factor on their failure rate
    Rng rng;
    /// Each duration has its own numbers, so that a further one changes neither instants nor the
    /// other durations.
    Rng repair_rng, detection_rng, restart_rng, replacement_rng, corruption_rng;
    double next_s = 0;                 ///< instant of the next failure (without memory)
    std::vector<double> due_s = {};    ///< instant of the next failure of each part (memory)
    double window_s = 0, drawn_s = 0;  ///< length of a window, end of the last one (memory)
    std::vector<Failure> drawn = {};   ///< failures of the window, by time (memory)
    std::size_t popped = 0;            ///< number of these that were removed

    double weight() const { return parts + (times - 1) * lemons; }
    bool has_memory() const { return kind.shape() != 1 || kind.regular(); }
  };

  void add_source(const FailureKind& kind, std::size_t number, const Rng& rng);
  /// Returns the duration of an outage that begins at `at` and takes a crew `work`; books the crew.
  Nanos repaired_after(Nanos at, Nanos work);
  bool knows_lemons(const FailureKind& kind) const;
  std::uint32_t parts_per_node(const FailureKind& kind) const;
  bool is_lemon(std::uint32_t node) const;
  /// Returns the instant of the source's next failure in nanoseconds; kNever after the last one.
  Nanos next_time(Source& source) const;
  Failure pop_failure(Source& source) const;
  /// Draws the time until the next failure of all parts of a kind without memory.
  void draw_gap(Source& source) const;
  std::uint32_t draw_part(Source& source) const;
  /// Draws the windows of a kind with memory until one has a failure; false after the last window.
  bool draw_window(Source& source) const;
  void renew_part(Source& source, std::uint32_t part, double end_s) const;
  Failure draw_failure(Source& source, double at_s, std::uint32_t part) const;
  Nanos draw_outage(Source& source) const;

  Failures failures_;
  const Cluster* cluster_;
  double end_s_;
  std::uint64_t ranks_ = 0;
  std::vector<std::uint32_t> lemons_;  ///< nodes, ascending
  std::vector<Source> sources_;
  std::vector<Nanos> crews_;  ///< heap of the instants at which crews are free, the earliest first
  std::optional<std::size_t> first_;  ///< source of the next failure, once it is known
  Nanos first_at_ = kNever;
};

}  // namespace orrery

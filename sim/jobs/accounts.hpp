// What a run adds up to: time by what it went into, energy, money, and the ledger of micro-batches
// that is kept apart from the engine. The backend tells it every committed step; it fills the
// report at the end. One thread.
#pragma once

#include <cstdint>
#include <vector>

#include "core/ids.hpp"
#include "sim/estimates/step/played_step.hpp"
#include "sim/jobs/time_ledger.hpp"
#include "topologies/cluster.hpp"
#include "traces/report.pb.h"
#include "traces/training/step_graph.hpp"

namespace orrery::sim {

class Accounts {
 public:
  /// `rest`: what each step takes beside computation, exchange and update, seconds.
  Accounts(const Cluster& cluster, const StepGraph& graph, double rest = 0);

  /// `count` equal committed steps of `duration`; `per_replica` is what each replica was given,
  /// `stretch` how many times as long each computed (empty: 1).
  void commit(const estimates::SimulatedStep& step, Nanos duration, std::uint64_t count,
              const std::vector<std::uint32_t>& per_replica,
              const std::vector<double>& stretch = {});
  /// `count` steps, `duration` together, of which only that is known, before began().
  void tell(Nanos duration, std::uint64_t count);
  /// Everything that is told otherwise comes after that instant.
  void began(Nanos at) { began_s_ = to_seconds(at); }
  /// Where the time between committed steps goes is told there.
  TimeLedger& time() { return time_; }
  const TimeLedger& time() const { return time_; }
  /// The job goes on from `to`; `from` would have been its next step.
  void roll_back(Step from, Step to);

  /// A step that was cut short and will be done again: so are the micro-batches it had done.
  void discard(const estimates::SimulatedStep& step);
  void discard(std::uint64_t micro_batches) { recomputed_ += micro_batches; }

  std::uint64_t steps() const { return steps_; }
  /// Seconds; there is one.
  double median_step() const;
  /// `elapsed`: first start to last commit. `fault_free`: seconds of a step without any fault.
  void fill(Report& report, Nanos elapsed, double fault_free) const;

 private:
  void enter(const estimates::SimulatedStep& step, std::uint64_t count,
             const std::vector<std::uint32_t>& per_replica);
  void note(Nanos duration, std::uint64_t count);
  void spend(const estimates::SimulatedStep& step, Nanos duration, std::uint64_t count,
             const std::vector<double>& stretch);
  void fill_footprint(Report& report, double elapsed) const;
  void fill_time(Report& report) const;
  void add_phases(const estimates::SimulatedStep& step, double whole, std::uint64_t count,
                  const std::vector<double>& stretch);
  void fill_phases(Report& report) const;
  double energy(double elapsed, double utilization) const;

  const Cluster& cluster_;
  const StepGraph& graph_;
  const double rest_;
  /// A step's parts, as often as they came one after the other.
  struct Parts {
    double compute = 0, exchange = 0, update = 0;
    std::uint64_t count = 0;
  };
  std::vector<Parts> parts_;
  double wire_bytes_ = 0, began_s_ = 0;
  std::uint64_t steps_ = 0, rolled_back_ = 0, lost_ = 0, repeated_ = 0, recomputed_ = 0;
  double busy_s_ = 0;  ///< computing and exchanging, mean over the job's GPUs, kept or lost
  TimeLedger time_;
  std::vector<std::pair<Nanos, std::uint64_t>> durations_;  ///< (step time, how often)
  std::vector<double> first_steps_;
};

}  // namespace orrery::sim

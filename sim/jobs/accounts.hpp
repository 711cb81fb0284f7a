// Sums of a run: time by use, energy, cost, and the ledger of micro-batches, kept apart from the
// engine. The backend adds every committed step and fills the report at the end. One thread.
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

/// Metrics of one training run.
class Accounts {
 public:
  /// Constructs empty metrics. `rest`: seconds of each step besides computation, exchange and
  /// update.
  Accounts(const Cluster& cluster, const StepGraph& graph, double rest = 0);

  /// Adds `count` equal committed steps of `duration`. `per_replica`: micro-batches of each
  /// replica. `stretch`: by replica, factor on the compute time (empty: 1).
  void commit_steps(const estimates::SimulatedStep& step, Nanos duration, std::uint64_t count,
              const std::vector<std::uint32_t>& per_replica,
              const std::vector<double>& stretch = {});
  /// Adds `count` steps of which only the total `duration` is known, before begin_at().
  void add_told_steps(Nanos duration, std::uint64_t count);
  /// Sets the instant at which detailed records begin.
  void begin_at(Nanos at) { began_s_ = to_seconds(at); }
  /// Returns the ledger of the time between committed steps.
  TimeLedger& time() { return time_; }
  const TimeLedger& time() const { return time_; }
  /// Records a rollback: the job continues with step `to`; `from` would have been its next step.
  void roll_back(Step from, Step to);

  /// Records that a cut step will be repeated, and with it its completed micro-batches.
  void discard_work(const estimates::SimulatedStep& step);
  void discard_work(std::uint64_t micro_batches) { recomputed_ += micro_batches; }

  /// Returns the number of committed steps.
  std::uint64_t steps() const { return steps_; }
  /// Returns the median step time in seconds; at least one step must exist.
  double median_step() const;
  /// Writes the metrics. `elapsed`: from the first start to the last commit. `fault_free`: seconds
  /// of a step without faults.
  void fill(Report& report, Nanos elapsed, double fault_free) const;

 private:
  void enter_steps(const estimates::SimulatedStep& step, std::uint64_t count,
             const std::vector<std::uint32_t>& per_replica);
  void record_duration(Nanos duration, std::uint64_t count);
  void spend_time(const estimates::SimulatedStep& step, Nanos duration, std::uint64_t count,
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
  /// Parts of a step, with the number of consecutive repetitions.
  struct Parts {
    double compute = 0, exchange = 0, update = 0;
    std::uint64_t count = 0;
  };
  std::vector<Parts> parts_;
  double wire_bytes_ = 0, began_s_ = 0;
  std::uint64_t steps_ = 0, rolled_back_ = 0, lost_ = 0, repeated_ = 0, recomputed_ = 0;
  /// seconds of computing and exchanging, mean over the job's GPUs, kept or lost
  double busy_s_ = 0;
  TimeLedger time_;
  std::vector<std::pair<Nanos, std::uint64_t>> durations_;  ///< (step time, count)
  std::vector<double> first_steps_;
};

}  // namespace orrery::sim

// Metrics of the committed steps of one simulated training run: GPU time by use, energy, cost, step
// times, and lost or repeated micro-batches. TrainingMetrics adds every committed step and fills
// the report at the end. One thread; nanoseconds of the policy clock, else seconds.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/ids.hpp"
#include "sim/estimates/step/played_step.hpp"
#include "sim/training/gpu_time.hpp"
#include "topologies/cluster.hpp"
#include "traces/report.pb.h"
#include "traces/report/sample_count.hpp"
#include "traces/workload/step_graph.hpp"

namespace orrery::sim {

/// Metrics of one training run, a plain value: a copy counts on by itself. The cluster
/// must outlive it.
///
/// For example, ten steps of 0.85 s on two GPUs that compute for 0.4 s and 0.8 s of each step add
/// 17 GPU-seconds, of which 12 are computing; energy follows from the activities of the GPUs, and
/// cost from the elapsed time.
class RunMetrics {
 public:
  /// Constructs empty metrics. `rest`: seconds that the host adds to each step, besides
  /// computation, exchange and update.
  RunMetrics(const Cluster& cluster, std::shared_ptr<const StepGraph> graph, double rest = 0);

  /// Adds `count` equal committed steps, each of `duration`, with their bytes, their parts, and
  /// their lost and repeated micro-batches, and books their GPU time from time().booked_until() on.
  /// Call once all time before the steps is booked (GpuTimeLedger::interrupt_at). `per_replica`:
  /// number of micro-batches that each replica owns. `batch`: micro-batches of a step. `stretch`:
  /// by replica, factor on the compute time; empty: 1.
  void commit_steps(const estimates::SimulatedStep& step, Nanos duration, std::uint64_t count,
                    const std::vector<std::uint32_t>& per_replica, std::uint32_t batch,
                    const std::vector<double>& stretch = {});
  /// Adds `count` steps of a log that the run continues. Only their total `duration` is known, so
  /// that each step counts with the mean, and no GPU time, bytes or parts of a step are booked.
  /// Does nothing if `count` is 0.
  void add_told_steps(Nanos duration, std::uint64_t count, std::uint32_t batch);
  /// Sets the instant at which a run that continues a log begins its own steps; GPU utilization and
  /// power are means from that instant on, and unknown without a later step. Without a call, from 0
  /// on.
  void begin_at(Nanos at) {
    began_s_ = to_seconds(at);
    time_.meter().begin_at(at);
  }
  /// Returns the ledger of GPU time, in which the caller books all time outside committed steps.
  GpuTimeLedger& time() { return time_; }
  const GpuTimeLedger& time() const { return time_; }
  /// Records a rollback from `from`, the next step until now, to `to`: the steps between them no
  /// longer count as committed but as rolled back, and the work since the mark of `to` becomes lost
  /// work (GpuTimeLedger::roll_back). Their durations stay in median_step(). If `to` is not before
  /// `from`, only the ledger changes.
  void roll_back(Step from, Step to);

  /// Adds the micro-batches that a cut step had completed in all stages to the recomputed ones: the
  /// repeated step computes these micro-batches again. Books no GPU time
  /// (GpuTimeLedger::lose_step).
  void discard_work(const estimates::SimulatedStep& step);
  /// Adds `micro_batches` completed micro-batches that will be computed again.
  void discard_work(std::uint64_t micro_batches) { recomputed_ += micro_batches; }

  /// Returns the number of committed steps, without steps that were rolled back.
  std::uint64_t steps() const { return steps_; }
  /// Returns the number of sequences in those steps.
  std::uint64_t samples() const { return micro_batches_.total() * graph_->job().micro_batch(); }
  /// Returns the median duration of the committed steps, including steps that were rolled back
  /// later, in seconds; 0 without steps.
  double median_step() const;
  /// Writes all sums to the report; a second call lists the step times again. `elapsed`: time from
  /// the first start to the last commit. `fault_free`: seconds of a step without faults, the
  /// reference of goodput. Without a committed step or without elapsed time, only the counts, the
  /// list of step times (of the first 10,000 steps) and, with steps, `elapsed` are written.
  void fill(Report& report, Nanos elapsed, double fault_free) const;

 private:
  /// Adds the lost and the repeated micro-batches of `count` steps.
  void enter_steps(const estimates::SimulatedStep& step, std::uint64_t count,
                   const std::vector<std::uint32_t>& per_replica, std::uint64_t all);
  /// Counts `count` steps, each of `duration`.
  void record_duration(Nanos duration, std::uint64_t count);
  /// Books the GPU time of `count` steps by use.
  void spend_time(const estimates::SimulatedStep& step, Nanos duration, std::uint64_t count,
             const std::vector<double>& stretch);
  /// Writes the energy, its price and its emissions.
  void fill_energy(Report& report, double elapsed) const;
  /// Writes the ledger of GPU time, and its shares.
  void fill_time(Report& report) const;
  /// Adds `count` steps of `whole` seconds to the durations of the parts of a step.
  void add_phases(const estimates::SimulatedStep& step, double whole, std::uint64_t count,
                  const std::vector<double>& stretch);
  /// Writes the medians of the parts of a step.
  void fill_phases(Report& report) const;

  const Cluster* cluster_;
  std::shared_ptr<const StepGraph> graph_;
  double rest_;
  /// Parts of a step in seconds, with the number of consecutive equal steps.
  struct Parts {
    double compute = 0, exchange = 0, update = 0;
    std::uint64_t count = 0;
    /// Passes all members to a StateWriter or StateReader.
    template <class Archive>
    friend void fields(Archive& archive, Parts& of) {
      archive(of.compute, of.exchange, of.update, of.count);
    }
  };
  std::vector<Parts> parts_;
  /// bytes that all ranks sent for gradients; begin of the run's own steps in seconds
  double wire_bytes_ = 0, began_s_ = 0;
  std::uint64_t steps_ = 0, rolled_back_ = 0, lost_ = 0, repeated_ = 0, recomputed_ = 0;
  /// seconds of computation and exposed communication, mean over the job's GPUs, including steps
  /// that were rolled back
  double busy_s_ = 0;
  GpuTimeLedger time_;
  SampleCount micro_batches_;  ///< micro-batches of the committed steps
  std::vector<std::pair<Nanos, std::uint64_t>> durations_;  ///< (step time, count)
  std::vector<double> first_steps_;  ///< seconds of each of the first 10,000 steps

  /// Passes all members except the description (cluster, graph, rest) to a StateWriter or
  /// StateReader.
  template <class Archive>
  friend void fields(Archive& archive, RunMetrics& of) {
    archive(of.parts_, of.wire_bytes_, of.began_s_, of.steps_, of.rolled_back_, of.lost_,
            of.repeated_, of.recomputed_, of.busy_s_, of.time_, of.micro_batches_, of.durations_,
            of.first_steps_);
  }
};

}  // namespace orrery::sim

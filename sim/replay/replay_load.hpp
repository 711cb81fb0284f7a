// Load of a cluster during the replay of a log: busy GPUs, waiting jobs, fragmentation. Called by
// sim/replay/recorded_jobs; one thread. Nanoseconds of the policy clock.
#pragma once

#include <algorithm>
#include <cstdint>

#include "policies/seam/world.hpp"
#include "sim/replay/load_series.hpp"
#include "traces/report.pb.h"

namespace orrery::sim {

/// Current load and its time series.
class ReplayLoad {
 public:
  /// Constructs the load; `world` must outlive it.
  explicit ReplayLoad(const World& world) : world_(world) {}
  /// Begins an empty series at `at`; waiting jobs stay.
  void begin(Nanos at) { series_ = LoadSeries(at); }

  /// Records that a job of `gpus` GPUs, in a cluster of slices of slices, waits.
  void wait(std::uint32_t gpus) { ++waiting_.waiting_jobs, waiting_ids_ += gpus; }
  /// Records that a job of `gpus` GPUs no longer waits; it must have been passed to wait().
  void serve_job(std::uint32_t gpus) { --waiting_.waiting_jobs, waiting_ids_ -= gpus; }
  /// Adds the load up to `now`: the busy GPUs and the waiting jobs as they are at the call; nothing
  /// if `now` is not later than the newest call or begin(). Call before the state changes at `now`.
  /// `busy`: number of busy GPUs, or slices.
  void hold_load(Nanos now, std::uint32_t busy) {
    const double slices = world_.cluster().shape().slices_per_gpu;
    waiting_.busy_gpus = busy / slices;
    waiting_.waiting_gpus = static_cast<double>(waiting_ids_) / slices;
    series_.hold_load(waiting_, now, [this] { return fragmentation(); });
  }

  /// Returns the load over time since begin(); its GPUs that are down count as not busy.
  const LoadSeries& series() const { return series_; }
  /// Writes the means; nothing if no time has passed.
  void fill(JobsReport& report) const {
    if (series_.now() == series_.begin()) return;
    const LoadSeries::Interval mean = series_.mean();
    report.set_queue_length_mean(mean.waiting_jobs);
    report.set_queue_length_max(series_.most_waiting());
    report.set_fragmentation_mean(mean.fragmentation);
  }

 private:
  /// Returns the fraction of the free GPUs, or slices, that are in partly used nodes.
  double fragmentation() const {
    const ClusterState& state = world_.state();
    const std::uint32_t size = world_.cluster().shape().gpus_per_node;
    if (state.free == 0) return 0;
    const auto idle = std::count(state.free_per_node.begin(), state.free_per_node.end(), size);
    return 1 - static_cast<double>(idle) * size / state.free;
  }

  const World& world_;
  LoadSeries series_;
  LoadSeries::Load waiting_;  ///< now; its busy GPUs are those of the newest call
  std::uint64_t waiting_ids_ = 0;  ///< GPUs, or slices, of the jobs that wait
};

}  // namespace orrery::sim

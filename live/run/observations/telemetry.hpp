// Telemetry of the agents, converted to samples for policies.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "live/control.pb.h"
#include "live/run/observations/noise_scale.hpp"
#include "policies/seam/policy.hpp"
#include "traces/workload/declared_noise.hpp"

namespace orrery::live {

/// Converter from the agents' reports to samples: only values that are new since the last
/// collection, each with its age. Single-threaded. Instants are times of the policy clock.
class Telemetry {
 public:
  /// Starts without samples. Rank r runs on GPU r. `nominal_bytes_per_second`: memory traffic of a
  /// rank of speed 1 that computes all the time, above 0. `declared`: shown as the noise scale
  /// instead of the measured one, if the job declares one.
  Telemetry(std::uint32_t ranks, double nominal_bytes_per_second, DeclaredNoise declared = {});

  /// Records the progress of a heartbeat at `now`, and its driver measurements if it has any.
  /// `rank` must be below the number of ranks.
  void record_progress(std::uint32_t rank, const ProgressSample& sample, Nanos now);
  /// Records the reports of a committed step, by rank, at most one for each rank. `samples`:
  /// sequences of the step, all ranks together. `bytes`: size of the gradients in fp32. Adds a
  /// sample of a collective only if at least two reports contain operations.
  void record_step(Step step, std::uint64_t samples, double bytes,
                   std::span<const StepReport> reports, Nanos now);

  /// Replaces the samples below by the values that arrived since the last call. A rank without a
  /// heartbeat since then has no sample of its rank, GPU or link; a GPU has a sample only if the
  /// rank's measured time has grown, a link only after a changed round trip or a committed
  /// exchange. Spans returned earlier become invalid.
  void refresh_samples(Nanos now);
  /// Returns the collected samples of GPUs; empty before refresh_samples(). Valid until the next
  /// call of it, as the spans below.
  std::span<const DeviceSample> devices() const { return devices_; }
  /// Returns the collected samples of links.
  std::span<const LinkSample> links() const { return links_; }
  /// Returns the collected samples of ranks.
  std::span<const RankSample> ranks() const { return ranks_out_; }
  /// Returns the collected samples of collectives.
  std::span<const CollectiveSample> collectives() const { return collectives_; }

  /// Returns the newest driver measurements of the rank's GPU that record_progress() has received,
  /// apart from the collected samples; all fields unset if none arrived. `rank` must be below the
  /// number of ranks.
  const DeviceReading& device(std::uint32_t rank) const { return sources_[rank].device; }

 private:
  /// Newest reports of one rank.
  struct Source {
    ProgressSample newest, taken;  ///< Newest report, and the report at the last collection.
    Nanos at = 0;
    bool fresh = false;
    double wait_s = 0;  ///< Waiting time in the last committed step, in seconds.
    Nanos waited_at = -1;
    /// Bandwidth of the last committed step's exchange in bytes per second; 0: unknown.
    double bandwidth = 0;
    /// Variance of the gradients; absent: unknown.
    std::optional<double> variance;
    bool exchanged = false;  ///< True if an exchange was reported since the last collection.
    DeviceReading device;    ///< Newest driver measurements.
  };
  /// Collects the samples of one rank.
  void take_rank(std::uint32_t rank, Source& source, Nanos now);
  /// Collects the device sample of one rank, of age `age`.
  void take_device(std::uint32_t rank, const Source& source, Nanos age);
  /// Collects the link sample of one rank.
  void take_link(std::uint32_t rank, const Source& source, Nanos now);

  /// Returns the noise scale at `now`: declared, or measured; missing before the first step.
  Sample<double> noise_scale(Nanos now) const;

  double nominal_bytes_per_second_;
  DeclaredNoise declared_;
  NoiseScale noise_;
  /// Newest committed step and its instant; absent before the first.
  std::optional<std::pair<Step, Nanos>> stepped_;
  std::vector<Source> sources_;
  std::vector<CollectiveSample> arriving_;
  std::vector<DeviceSample> devices_;
  std::vector<LinkSample> links_;
  std::vector<RankSample> ranks_out_;
  std::vector<CollectiveSample> collectives_;
};

/// Returns the duration of the gradient exchange without waiting, in nanoseconds: the shortest
/// exchange, on the rank that came last; 0 if no report contains an exchange.
Nanos exchange_time(std::span<const StepReport> reports);

}  // namespace orrery::live

// Turns what agents report into the samples that policies read: only fresh ones, each with its
// age. One thread. Instants are the policy clock's.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "live/control.pb.h"
#include "policies/seam/policy.hpp"

namespace orrery::live {

class Telemetry {
 public:
  /// Rank r runs on GPU r. `nominal_bytes_per_second`: memory traffic of a rank of speed 1 that
  /// computes all the time.
  Telemetry(std::uint32_t ranks, double nominal_bytes_per_second);

  void progress(std::uint32_t rank, const ProgressSample& sample, Nanos now);
  /// All ranks' reports of a committed step, by rank.
  /// `bytes`: of the gradients in fp32.
  void step_done(Step step, double bytes, std::span<const StepReport> reports, Nanos now);

  /// Makes the spans below hold what has come since the last call.
  void take(Nanos now);
  std::span<const DeviceSample> devices() const { return devices_; }
  std::span<const LinkSample> links() const { return links_; }
  std::span<const RankSample> ranks() const { return ranks_out_; }
  std::span<const CollectiveSample> collectives() const { return collectives_; }

  /// What the driver of that rank's GPU said last; empty: nothing ever.
  const DeviceReading& device(std::uint32_t rank) const { return sources_[rank].device; }

 private:
  struct Source {
    ProgressSample newest, taken;  ///< taken: as of the last take()
    Nanos at = 0;
    bool fresh = false;
    double wait_s = 0;  ///< in the last committed step
    Nanos waited_at = -1;
    /// Of the last committed step's exchange; 0 and absent: unknown.
    double bandwidth = 0;
    std::optional<double> variance;
    bool exchanged = false;  ///< since the last take()
    DeviceReading device;    ///< the newest
  };
  void take_rank(std::uint32_t rank, Source& source, Nanos now);
  void take_device(std::uint32_t rank, const Source& source, Nanos age);
  void take_link(std::uint32_t rank, const Source& source, Nanos now);

  double nominal_bytes_per_second_;
  std::vector<Source> sources_;
  std::vector<CollectiveSample> arriving_;
  std::vector<DeviceSample> devices_;
  std::vector<LinkSample> links_;
  std::vector<RankSample> ranks_out_;
  std::vector<CollectiveSample> collectives_;
};

/// Longest compute phase of a step: what every other rank waits for. Nanoseconds.
Nanos slowest_compute(std::span<const StepReport> reports);
/// Duration of the gradient exchange without the waiting: on the rank that came last.
Nanos exchange_time(std::span<const StepReport> reports);

}  // namespace orrery::live

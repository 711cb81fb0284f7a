// Telemetry of a run that does not wait for its policies. One thread.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "policies/seam/policy.hpp"

namespace orrery {

/// Copy of the telemetry of all running jobs at one observation.
struct SamplesCopy {
  /// Telemetry of one job.
  struct OfJob {
    std::vector<RankSample> ranks;
    std::vector<DeviceSample> devices;
    std::vector<LinkSample> links;
    std::vector<CollectiveSample> collectives;
  };
  Nanos at = 0;  ///< instant of the observation
  std::map<JobId, OfJob> jobs;
};

/// Reads all telemetry of the observation.
SamplesCopy copy_samples(const Observation& seen);

/// Telemetry of several observations that a policy sees as one: the newest value of each rank, GPU
/// and link, and all collectives, as a run collects them that waits for its policies. Each
/// summary() overwrites the `latest` of the summary before; the spans of the other methods are
/// valid until the next add_observation().
class DetachedSamples : public Samples {
 public:
  /// Adds the telemetry of a later observation. Values that a policy could have read at an earlier
  /// observation are forgotten first if the policy read any telemetry there.
  void add_observation(SamplesCopy copy);

  RankSummary summary(JobId job, std::uint32_t latest) override;
  std::span<const RankSample> ranks(JobId job) override { return read(job).ranks; }
  std::span<const DeviceSample> devices(JobId job) override { return read(job).devices; }
  std::span<const LinkSample> links(JobId job) override { return read(job).links; }
  std::span<const CollectiveSample> collectives(JobId job) override {
    return read(job).collectives;
  }

 private:
  const SamplesCopy::OfJob& read(JobId job) {
    was_read_ = true;
    return pool_.jobs[job];
  }

  SamplesCopy pool_;
  std::vector<RankSample> slowest_;
  bool was_read_ = false;
};

}  // namespace orrery

// Telemetry on request: values that no policy reads are neither computed nor recorded. A recorder
// records the reads; a replay reports a read that the recorded run did not make. Called from
// observe(); one thread. Times in seconds, sizes in bytes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/ids.hpp"
#include "traces/training/collective.hpp"

namespace orrery {

enum class Origin : std::uint8_t { measured, modelled, missing };

/// One sampled value. `age`: nanoseconds between the measurement and now. Never use a missing
/// value.
template <class T>
struct Sample {
  T value{};
  Nanos age = 0;
  Origin origin = Origin::missing;
  /// Returns true if a value exists.
  bool known() const { return origin != Origin::missing; }
};

/// Utilization of one GPU.
struct DeviceSample {
  GpuId gpu;
  Sample<double> utilization;       ///< fraction of the time with a running kernel, 0..1
  Sample<double> memory_bandwidth;  ///< fraction of the peak, 0..1
  Sample<double> memory_used;       ///< bytes
  Sample<double> power;             ///< watts
};
/// Path between two communicating GPUs (a ring edge, a pipeline boundary).
struct LinkSample {
  GpuId from, to;
  Sample<double> latency;    ///< seconds, small message
  Sample<double> bandwidth;  ///< bytes per second, newest transfer
};
/// Progress and times of one rank.
struct RankSample {
  JobId job;
  RankId rank;
  Step step = 0;                      ///< step in progress
  /// micro-batches of this step, with the fraction of the current one
  Sample<double> micro_batches_done;
  Sample<double> micro_batch_time;    ///< seconds of compute per micro-batch, newest
  Sample<double> wait_time;           ///< seconds of waiting for other ranks in the previous step
  Sample<double> gradient_variance;
};
/// Gradient sum of the newest committed step, as one call.
struct CollectiveSample {
  JobId job;
  Step step = 0;  ///< step of the call, which determines its table and codes
  CollectiveKind kind{};
  CollectiveAlgorithm algorithm{};  ///< algorithm that was used
  double bytes = 0;                 ///< size of the gradients in fp32, independent of compression
  std::uint32_t ranks = 0;
  double exposed = 0;  ///< seconds not hidden by computation
};

/// Ranks of a job in a few numbers, at any size, and the slowest ranks.
struct RankSummary {
  std::uint32_t ranks = 0;       ///< number of present ranks
  double micro_batch_time = 0;   ///< seconds, median of the ranks; 0: unknown
  /// deviation of a rank from the median, as a fraction: 1.4826 x the median absolute deviation
  double deviation = 0;
  Nanos age = 0;
  std::span<const RankSample> latest;  ///< the slowest by micro_batch_time, slowest first
};

/// Returns the summary of these samples; `slowest` stores the samples to which the summary refers.
RankSummary summarize(std::span<const RankSample> ranks, std::uint32_t latest,
                      std::vector<RankSample>& slowest);

/// Source of telemetry. Spans are valid until observe() returns. An unknown value is an empty span.
class Samples {
 public:
  virtual ~Samples() = default;
  /// Returns the summary of a job's ranks with its `latest` slowest ranks.
  virtual RankSummary summary(JobId job, std::uint32_t latest) = 0;
  /// Returns the samples of all ranks of a job, by rank.
  virtual std::span<const RankSample> ranks(JobId job) = 0;
  /// Returns the samples of the job's GPUs.
  virtual std::span<const DeviceSample> devices(JobId job) = 0;
  /// Returns the samples of the job's links.
  virtual std::span<const LinkSample> links(JobId job) = 0;
  /// Returns the samples of the job's collectives.
  virtual std::span<const CollectiveSample> collectives(JobId job) = 0;
};

/// Samples of a run that measures nothing.
class NoSamples : public Samples {
 public:
  RankSummary summary(JobId, std::uint32_t) override { return {}; }
  std::span<const RankSample> ranks(JobId) override { return {}; }
  std::span<const DeviceSample> devices(JobId) override { return {}; }
  std::span<const LinkSample> links(JobId) override { return {}; }
  std::span<const CollectiveSample> collectives(JobId) override { return {}; }
};

}  // namespace orrery

// Telemetry, asked for and not sent: what no policy reads is neither computed nor recorded. A
// recorder notes what was read; a replay that is asked for more says so. Called from observe(); one
// thread. Times in seconds, sizes in bytes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/ids.hpp"
#include "traces/training/collective.hpp"

namespace orrery {

enum class Origin : std::uint8_t { measured, modelled, missing };

/// One sampled value. `age` is how long before `now` it was true. Never use a missing one.
template <class T>
struct Sample {
  T value{};
  Nanos age = 0;
  Origin origin = Origin::missing;
  bool known() const { return origin != Origin::missing; }
};

struct DeviceSample {
  GpuId gpu;
  Sample<double> utilization;       ///< share of the time with a kernel running, 0..1
  Sample<double> memory_bandwidth;  ///< share of the peak, 0..1
  Sample<double> memory_used;       ///< bytes
  Sample<double> power;             ///< watts
};
/// The path between two GPUs that talk to each other (a ring edge, a pipeline boundary).
struct LinkSample {
  GpuId from, to;
  Sample<double> latency;    ///< seconds, small message
  Sample<double> bandwidth;  ///< bytes per second, last transfer
};
struct RankSample {
  JobId job;
  RankId rank;
  Step step = 0;                      ///< the step it is working on
  Sample<double> micro_batches_done;  ///< of this step, with the fraction of the current one
  Sample<double> micro_batch_time;    ///< seconds of compute per micro-batch, most recent
  Sample<double> wait_time;           ///< seconds it waited for others in the last step
  Sample<double> gradient_variance;
};
/// Summing the gradients in the newest committed step, as one call.
struct CollectiveSample {
  JobId job;
  Step step = 0;  ///< the step that it was part of: its table and its codes held
  CollectiveKind kind{};
  CollectiveAlgorithm algorithm{};  ///< that was carried out
  double bytes = 0;                 ///< of the gradients in fp32, whatever they travel in
  std::uint32_t ranks = 0;
  double exposed = 0;  ///< seconds that computation did not hide
};

/// A job's ranks in a few numbers at any size, and those that stand out.
struct RankSummary {
  std::uint32_t ranks = 0;       ///< that are there
  double micro_batch_time = 0;   ///< seconds, median of the ranks; 0: unknown
  double deviation = 0;          ///< of one rank from it, as a share: 1.4826 x the median deviation
  Nanos age = 0;
  std::span<const RankSample> latest;  ///< the slowest by micro_batch_time, slowest first
};

/// Of these samples; `slowest` keeps what the summary points to.
RankSummary summarize(std::span<const RankSample> ranks, std::uint32_t latest,
                      std::vector<RankSample>& slowest);

/// Spans hold until observe() returns. Whatever is not known is an empty span.
class Samples {
 public:
  virtual ~Samples() = default;
  virtual RankSummary summary(JobId job, std::uint32_t latest) = 0;
  virtual std::span<const RankSample> ranks(JobId job) = 0;
  virtual std::span<const DeviceSample> devices(JobId job) = 0;
  virtual std::span<const LinkSample> links(JobId job) = 0;
  virtual std::span<const CollectiveSample> collectives(JobId job) = 0;
};

/// Of a run that measures nothing.
class NoSamples : public Samples {
 public:
  RankSummary summary(JobId, std::uint32_t) override { return {}; }
  std::span<const RankSample> ranks(JobId) override { return {}; }
  std::span<const DeviceSample> devices(JobId) override { return {}; }
  std::span<const LinkSample> links(JobId) override { return {}; }
  std::span<const CollectiveSample> collectives(JobId) override { return {}; }
};

}  // namespace orrery

// Telemetry on request: values that no policy reads are not recorded, nor computed except ahead of
// a probable read (Samples::unrecorded()). The unit of a read is a column (sample_columns.hpp),
// such as the micro_batch_time of all ranks of a job; rows such as RankSample are put together from
// columns. The log of a run contains every column that a policy has read; a replay reports a read
// that the recorded run did not make. Called from observe(); one thread. Times in seconds, sizes in
// bytes, ages in nanoseconds.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/ids.hpp"
#include "traces/workload/collective.hpp"

namespace orrery {

/// Source of a sampled value: measured by the run, computed by a model, or not available.
enum class Origin : std::uint8_t { measured, modelled, missing };

/// One sampled value. Check is_known() before a use of `value`. For example, a rank that has not
/// finished a micro-batch yet has a missing micro_batch_time.
template <class T>
struct Sample {
  T value{};                        ///< undefined meaning if the sample is missing
  Nanos age = 0;                    ///< nanoseconds between the measurement and now
  Origin origin = Origin::missing;  ///< source of the value
  /// Returns true if the sample has a value.
  bool is_known() const { return origin != Origin::missing; }
};

/// Utilization of one GPU.
struct DeviceSample {
  GpuId gpu;
  Sample<double> utilization;       ///< fraction of the time with a running kernel, 0..1
  Sample<double> memory_bandwidth;  ///< fraction of the peak, 0..1
  Sample<double> memory_used;       ///< bytes
  Sample<double> power;             ///< watts
};
/// Path between two GPUs that communicate, such as an edge of a ring or a pipeline boundary.
struct LinkSample {
  GpuId from, to;
  Sample<double> latency;    ///< seconds of a small message
  Sample<double> bandwidth;  ///< bytes per second of the newest transfer
};
/// Progress and times of one rank.
struct RankSample {
  JobId job;
  RankId rank;
  Step step = 0;                      ///< step in progress
  /// completed micro-batches of this step, with the completed fraction of the current micro-batch
  Sample<double> micro_batches_done;
  Sample<double> micro_batch_time;    ///< seconds of compute of the newest micro-batch
  Sample<double> wait_time;           ///< seconds of waiting for other ranks in the previous step
  /// square of the norm of the rank's mean gradient over that of the mean of all ranks, minus 1, in
  /// the newest step: the variance that remains in the rank's gradient
  Sample<double> gradient_variance;
  /// gradient noise scale of the job in sequences, the same on all ranks (arXiv:1812.06162)
  Sample<double> noise_scale = {};
  /// seconds of waiting for training data in the previous step, under the present Prefetch of the
  /// job; missing in the steps of a program that have an earlier one or begin a pass over the data
  Sample<double> input_wait = {};
};
/// Collective that sums the gradients of the newest committed step, all buckets as one call.
struct CollectiveSample {
  JobId job;
  Step step = 0;  ///< step of the call, which determines its table and codes
  CollectiveKind kind{};
  CollectiveAlgorithm algorithm{};  ///< algorithm that was used
  double bytes = 0;                 ///< size of the gradients in fp32, independent of compression
  std::uint32_t ranks = 0;
  double exposed = 0;  ///< seconds not hidden by computation
};

/// Summary of the ranks of a job in a few numbers, with the samples of the slowest ranks. Its size
/// does not grow with the number of ranks.
struct RankSummary {
  std::uint32_t ranks = 0;       ///< number of RankSamples, also without a micro_batch_time
  double micro_batch_time = 0;   ///< seconds, lower median of the ranks; 0: unknown
  /// robust standard deviation of the ranks, as a fraction of the median: 1.4826 x the median of
  /// |time / micro_batch_time - 1|
  double deviation = 0;
  Nanos age = 0;  ///< age of the oldest of these times, in nanoseconds
  std::span<const RankSample> latest;  ///< the slowest ranks by micro_batch_time, slowest first
};

struct SampleRows;
struct SampleColumn;

/// Kind of samples with one row for each rank, GPU or path of a job, and a fixed set of columns.
enum class SampleTable : std::uint8_t { ranks, devices, links };
/// Columns of values of all kinds, in the order of the members of RankSample, DeviceSample and
/// LinkSample.
enum class SampleField : std::uint8_t {
  micro_batches_done,
  micro_batch_time,
  wait_time,
  gradient_variance,
  noise_scale,
  input_wait,
  utilization,
  memory_bandwidth,
  memory_used,
  power,
  latency,
  bandwidth
};

/// Source of the telemetry of jobs. Spans are valid until observe() returns. A span is empty if the
/// telemetry is unknown, for example for a job that does not run. A simulation returns a sample of
/// every rank; a live run returns only the samples that arrived since the newest observation at
/// which a policy read samples.
class Samples {
 public:
  virtual ~Samples() = default;
  /// Returns the summary of a job's ranks with at most `latest` slowest ranks; all fields 0 and
  /// empty if the telemetry is unknown. Its `latest` is valid until the next call of summary().
  virtual RankSummary summary(JobId job, std::uint32_t latest) = 0;
  /// Returns the samples of the ranks of a job, by rank.
  virtual std::span<const RankSample> ranks(JobId job) = 0;
  /// Returns the samples of the GPUs of a job.
  virtual std::span<const DeviceSample> devices(JobId job) = 0;
  /// Returns the samples of the paths on which a job communicates.
  virtual std::span<const LinkSample> links(JobId job) = 0;
  /// Returns the samples of the collectives of a job's newest committed step.
  virtual std::span<const CollectiveSample> collectives(JobId job) = 0;
  /// Returns the rows of a table of a job without their values, never null: no row if the telemetry
  /// is unknown. The result may outlive the observation. The default converts the samples of
  /// ranks(), devices() or links().
  virtual std::shared_ptr<const SampleRows> rows(SampleTable table, JobId job);
  /// Returns one column of a job with a value for each row of rows(), never null. Cheaper than the
  /// spans above for many ranks: the other columns are neither computed nor recorded. The result
  /// may outlive the observation. The default converts as rows() does.
  virtual std::shared_ptr<const SampleColumn> column(SampleField field, JobId job);
  /// Returns the source of the same telemetry without the recording of reads, for columns that a
  /// policy may read later; null, the default, if a read has an effect beside its result.
  virtual Samples* unrecorded() { return nullptr; }
};

/// Telemetry of a run that measures nothing: all samples are unknown.
class NoSamples : public Samples {
 public:
  RankSummary summary(JobId, std::uint32_t) override { return {}; }
  std::span<const RankSample> ranks(JobId) override { return {}; }
  std::span<const DeviceSample> devices(JobId) override { return {}; }
  std::span<const LinkSample> links(JobId) override { return {}; }
  std::span<const CollectiveSample> collectives(JobId) override { return {}; }
};

/// Returns the summary of a job's ranks, with at most `latest` slowest ranks, from the rows and the
/// column micro_batch_time; all other columns are requested for the slowest ranks only if there
/// are any. Overwrites `slowest`, to which the summary refers and which must outlive it unchanged.
/// Ranks without a known micro_batch_time count in `ranks` only; if no rank has one, all other
/// fields are 0 and empty. Equally slow ranks are ordered by rank.
RankSummary summarize(Samples& samples, JobId job, std::uint32_t latest,
                      std::vector<RankSample>& slowest);

}  // namespace orrery

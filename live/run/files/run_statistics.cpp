#include "live/run/files/run_statistics.hpp"

#include <cmath>
#include <numeric>
#include <vector>

#include "traces/report/sample_count.hpp"

namespace orrery::live {
namespace {

constexpr int kMostListed = 10000;

std::uint64_t stride_of(const KeptSample& sample) {
  return std::max<std::uint64_t>(sample.stride(), 1);
}

/// Adds a value to an evenly thinned sample, or drops the value if the sample is thinned to other
/// positions: all values are stored at first, then every second, every fourth, ...
void add_value(KeptSample& sample, double value) {
  const std::uint64_t position = sample.seen();
  sample.set_seen(position + 1);
  if (position % stride_of(sample) != 0) return;
  if (sample.values_size() >= kMostSampled) {
    for (int i = 0; i < kMostSampled / 2; ++i) sample.set_values(i, sample.values(2 * i));
    sample.mutable_values()->Truncate(kMostSampled / 2);
    sample.set_stride(2 * stride_of(sample));
    if (position % stride_of(sample) != 0) return;
  }
  sample.add_values(value);
}

/// Returns the median of the stored values, the mean of the middle two if their number is even; 0
/// without values.
double median_of(const KeptSample& sample) {
  if (sample.values().empty()) return 0;
  std::vector<double> values(sample.values().begin(), sample.values().end());
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/// Returns a time of a record within limits, so that sums of numbers from a damaged file do not
/// overflow.
Nanos bounded(Nanos time) { return std::clamp<Nanos>(time, 0, kNever / 4); }

/// Adds the phases of one step's interval to the samples. An interval begins with the update of the
/// previous step and ends with its own step's commit.
void add_phases(KeptStatistics& kept, const JournalCommit& commit, double interval) {
  Nanos update = 0, whole = 0;
  for (const StepReport& report : commit.reports()) {
    whole = std::max(whole, bounded(report.duration()));
    for (const OpDone& op : report.ops()) {
      if (op.phase() == OPTIMIZER) update = std::max(update, bounded(op.duration()));
    }
  }
  const Nanos compute = bounded(slowest_compute(commit.reports()));
  add_value(*kept.mutable_computes(), to_seconds(compute));
  add_value(*kept.mutable_exchanges(), to_seconds(std::max<Nanos>(0, whole - compute)));
  add_value(*kept.mutable_updates(), to_seconds(update));
  add_value(*kept.mutable_rests(), std::max(0.0, interval - to_seconds(whole + update)));
}

/// Adds a step of `samples` sequences to the runs of equal steps.
void add_samples(KeptStatistics& kept, std::uint64_t samples) {
  const int runs = std::min(kept.runs_of_steps_size(), kept.samples_of_each_size());
  if (runs > 0 && kept.samples_of_each(runs - 1) == samples) {
    kept.set_runs_of_steps(runs - 1, kept.runs_of_steps(runs - 1) + 1);
  } else {
    kept.add_runs_of_steps(1);
    kept.add_samples_of_each(samples);
  }
}

SampleCount samples_of(const KeptStatistics& kept) {
  SampleCount samples;
  for (int i = 0; i < std::min(kept.runs_of_steps_size(), kept.samples_of_each_size()); ++i) {
    samples.add_steps(kept.runs_of_steps(i), kept.samples_of_each(i));
  }
  return samples;
}

/// Returns the mean loss of the last kFinalLossSteps steps.
double final_loss(const KeptStatistics& kept) {
  return std::accumulate(kept.last_losses().begin(), kept.last_losses().end(), 0.0) /
         static_cast<double>(kept.last_losses_size());
}

}  // namespace

void add_commit(KeptStatistics& kept, const JournalCommit& commit, std::uint32_t ranks) {
  const Nanos slowest = bounded(slowest_compute(commit.reports()));
  double loss = 0, predictions = 0;
  std::uint32_t present = 0;
  for (const StepReport& report : commit.reports()) present += report.ByteSizeLong() > 0 ? 1 : 0;
  // A lost rank waits; a slot that has no rank does not.
  std::uint32_t absent = std::max(ranks, present) - present;
  for (const StepReport& report : commit.reports()) {
    if (report.ByteSizeLong() == 0) {
      if (absent == 0) continue;
      --absent;
    }
    const Nanos compute = bounded(report.compute());
    loss += report.loss_sum();
    predictions += static_cast<double>(report.predictions());
    kept.set_compute(kept.compute() + to_seconds(compute));
    kept.set_waiting(kept.waiting() + to_seconds(slowest - compute));
    kept.set_gather_used(kept.gather_used() + report.gather_used());
    kept.set_gather_read(kept.gather_read() + report.gather_read());
  }
  const double mean = loss / predictions;
  const double interval = to_seconds(bounded(commit.at()) - bounded(kept.last_commit()));
  kept.add_last_losses(mean);
  if (kept.last_losses_size() > kFinalLossSteps) {
    kept.mutable_last_losses()->erase(kept.last_losses().begin());
  }
  if (kept.listed_losses_size() < kMostListed) {
    kept.add_listed_losses(mean);
    kept.add_listed_intervals(interval);
  }
  add_value(*kept.mutable_intervals(), interval);
  add_phases(kept, commit, interval);
  kept.set_capacity(kept.capacity() + interval * std::max(ranks, present));
  kept.set_last_commit(commit.at());
  add_samples(kept, commit.samples());
  kept.set_steps(kept.steps() + 1);
}

void roll_back_steps(KeptStatistics& kept, std::uint64_t steps) {
  steps = std::min(steps, kept.steps());
  kept.set_steps(kept.steps() - steps);
  kept.set_rolled_back(kept.rolled_back() + steps);
  SampleCount samples = samples_of(kept);
  samples.roll_back(steps);
  kept.clear_runs_of_steps();
  kept.clear_samples_of_each();
  for (const auto& [run, each] : samples.runs()) {
    kept.add_runs_of_steps(run);
    kept.add_samples_of_each(each);
  }
}

std::uint64_t sample_total(const KeptStatistics& kept) { return samples_of(kept).total(); }

double newest_loss(const KeptStatistics& kept) {
  return kept.last_losses().empty() ? 0 : kept.last_losses(kept.last_losses_size() - 1);
}

double newest_interval(const KeptStatistics& kept) {
  const bool is_listed = kept.listed_intervals_size() < kMostListed;
  const auto& intervals = is_listed ? kept.listed_intervals() : kept.intervals().values();
  return intervals.empty() ? 0 : intervals.Get(intervals.size() - 1);
}

void fill_report(const KeptStatistics& kept, const Scenario& scenario, Report& report) {
  report.set_steps_completed(kept.steps());
  if (kept.rolled_back() > 0) report.set_steps_rolled_back(kept.rolled_back());
  if (kept.steps() == 0) return;
  const Job& job = scenario.job();
  const double elapsed = to_seconds(kept.last_commit());
  report.set_elapsed_s(elapsed);
  const std::uint64_t total = sample_total(kept);
  const auto samples = static_cast<double>(total);
  report.set_samples(total);
  report.set_step_time_s(median_of(kept.intervals()));
  report.set_tokens_per_s(samples * job.sequence_length() / elapsed);
  report.set_final_loss(final_loss(kept));
  report.mutable_step_times_s()->MergeFrom(kept.listed_intervals());
  report.mutable_losses()->MergeFrom(kept.listed_losses());
  Phases& phases = *report.mutable_phases();
  phases.set_compute_s(median_of(kept.computes()));
  phases.set_exchange_s(median_of(kept.exchanges()));
  phases.set_update_s(median_of(kept.updates()));
  phases.set_rest_s(median_of(kept.rests()));
  const std::uint32_t ranks = job.layout().data();
  Breakdown& parts = *report.mutable_breakdown();
  parts.set_compute(kept.compute() / kept.capacity());
  parts.set_waiting(kept.waiting() / kept.capacity());
  parts.set_exposed_communication(std::max(0.0, 1 - parts.compute() - parts.waiting()));
  report.set_gpu_utilization(parts.compute() + parts.exposed_communication());
  const double share = static_cast<double>(job.global_batch()) / job.micro_batch() / ranks;
  const double fault_free = std::ceil(share) * to_seconds(job.pace().micro_batch());
  report.set_embedding_gather_bytes(kept.gather_read());
  report.set_embedding_gather_saved_bytes(kept.gather_used() - kept.gather_read());
  report.set_goodput(std::min(1.0, samples / job.global_batch() * fault_free / elapsed));
}

}  // namespace orrery::live

#include "live/run/account/run_statistics.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "live/run/observations/telemetry.hpp"

namespace orrery::live {
namespace {

constexpr std::size_t kMostListed = 10000;

}  // namespace

void Sampled::add(double value) {
  if (seen_++ % stride_ != 0) return;
  if (values_.size() == kMost) {
    for (std::size_t i = 0; i < kMost / 2; ++i) values_[i] = values_[2 * i];
    values_.resize(kMost / 2);
    stride_ *= 2;
    if ((seen_ - 1) % stride_ != 0) return;
  }
  values_.push_back(value);
}

double Sampled::median() const {
  if (values_.empty()) return 0;
  std::vector<double> values = values_;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

void Sampled::save_to(KeptSample& kept) const {
  kept.set_stride(stride_);
  kept.set_seen(seen_);
  kept.mutable_values()->Add(values_.begin(), values_.end());
}

void Sampled::restore_from(const KeptSample& kept) {
  stride_ = std::max<std::uint64_t>(kept.stride(), 1);
  seen_ = kept.seen();
  values_.assign(kept.values().begin(), kept.values().end());
}

/// An interval begins with the update of the previous step and ends with its own step's commit.
void RunStatistics::add_phases(std::span<const StepReport> reports, double interval) {
  Nanos update = 0, whole = 0;
  for (const StepReport& report : reports) {
    whole = std::max<Nanos>(whole, report.duration());
    for (const OpDone& op : report.ops()) {
      if (op.phase() == OPTIMIZER) update = std::max<Nanos>(update, op.duration());
    }
  }
  const Nanos compute = slowest_compute(reports);
  computes_.add(to_seconds(compute));
  exchanges_.add(to_seconds(std::max<Nanos>(0, whole - compute)));
  updates_.add(to_seconds(update));
  rests_.add(std::max(0.0, interval - to_seconds(whole + update)));
}

void RunStatistics::record_commit(std::span<const StepReport> reports, std::uint64_t samples,
                                  Nanos now) {
  const Nanos slowest = slowest_compute(reports);
  double loss = 0, predictions = 0;
  std::uint32_t ranks = 0;
  const std::uint32_t initial = scenario_.job().layout().data();
  for (const StepReport& report : reports) ranks += report.ByteSizeLong() > 0 ? 1 : 0;
  // A lost rank waits; a slot that has no rank does not.
  std::uint32_t absent = std::max(initial, ranks) - ranks;
  for (const StepReport& report : reports) {
    if (report.ByteSizeLong() == 0) {
      if (absent == 0) continue;
      --absent;
    }
    loss += report.loss_sum();
    predictions += static_cast<double>(report.predictions());
    compute_ += to_seconds(report.compute());
    waiting_ += to_seconds(slowest - report.compute());
    gather_used_ += report.gather_used();
    gather_read_ += report.gather_read();
  }
  const double mean = loss / predictions, interval = to_seconds(now - last_commit_);
  last_losses_.push_back(mean);
  if (last_losses_.size() > kFinalLossSteps) last_losses_.pop_front();
  if (listed_losses_.size() < kMostListed) {
    listed_losses_.push_back(mean);
    listed_intervals_.push_back(interval);
  }
  intervals_.add(interval);
  add_phases(reports, interval);
  capacity_ += interval * std::max(initial, ranks);
  last_commit_ = now;
  samples_.add_steps(1, samples);
  ++steps_;
}

void RunStatistics::roll_back(std::uint64_t steps) {
  steps = std::min(steps, steps_);
  steps_ -= steps;
  rolled_back_ += steps;
  samples_.roll_back(steps);
}

double RunStatistics::final_loss() const {
  return std::accumulate(last_losses_.begin(), last_losses_.end(), 0.0) /
         static_cast<double>(last_losses_.size());
}

void RunStatistics::save_to(KeptStatistics& kept) const {
  kept.set_steps(steps_);
  kept.set_last_commit(last_commit_);
  kept.mutable_listed_intervals()->Add(listed_intervals_.begin(), listed_intervals_.end());
  kept.mutable_listed_losses()->Add(listed_losses_.begin(), listed_losses_.end());
  kept.mutable_last_losses()->Add(last_losses_.begin(), last_losses_.end());
  intervals_.save_to(*kept.mutable_intervals());
  computes_.save_to(*kept.mutable_computes());
  exchanges_.save_to(*kept.mutable_exchanges());
  updates_.save_to(*kept.mutable_updates());
  rests_.save_to(*kept.mutable_rests());
  kept.set_compute(compute_);
  kept.set_waiting(waiting_);
  kept.set_gather_used(gather_used_);
  kept.set_gather_read(gather_read_);
  kept.set_capacity(capacity_);
  kept.set_rolled_back(rolled_back_);
  for (const auto& [steps, each] : samples_.runs()) {
    kept.add_runs_of_steps(steps);
    kept.add_samples_of_each(each);
  }
}

void RunStatistics::restore_from(const KeptStatistics& kept) {
  steps_ = kept.steps();
  last_commit_ = kept.last_commit();
  listed_intervals_.assign(kept.listed_intervals().begin(), kept.listed_intervals().end());
  listed_losses_.assign(kept.listed_losses().begin(), kept.listed_losses().end());
  last_losses_.assign(kept.last_losses().begin(), kept.last_losses().end());
  intervals_.restore_from(kept.intervals());
  computes_.restore_from(kept.computes());
  exchanges_.restore_from(kept.exchanges());
  updates_.restore_from(kept.updates());
  rests_.restore_from(kept.rests());
  compute_ = kept.compute();
  waiting_ = kept.waiting();
  gather_used_ = kept.gather_used();
  gather_read_ = kept.gather_read();
  capacity_ = kept.capacity();
  rolled_back_ = kept.rolled_back();
  samples_ = {};
  for (int i = 0; i < std::min(kept.runs_of_steps_size(), kept.samples_of_each_size()); ++i) {
    samples_.add_steps(kept.runs_of_steps(i), kept.samples_of_each(i));
  }
}

void RunStatistics::fill(Report& report) const {
  report.set_steps_completed(steps_);
  if (rolled_back_ > 0) report.set_steps_rolled_back(rolled_back_);
  if (steps_ == 0) return;
  const Job& job = scenario_.job();
  const double elapsed = to_seconds(last_commit_);
  report.set_elapsed_s(elapsed);
  const auto samples = static_cast<double>(samples_.total());
  report.set_samples(samples_.total());
  report.set_step_time_s(intervals_.median());
  report.set_tokens_per_s(samples * job.sequence_length() / elapsed);
  report.set_final_loss(final_loss());
  for (const double interval : listed_intervals_) report.add_step_times_s(interval);
  for (const double loss : listed_losses_) report.add_losses(loss);
  Phases& phases = *report.mutable_phases();
  phases.set_compute_s(computes_.median());
  phases.set_exchange_s(exchanges_.median());
  phases.set_update_s(updates_.median());
  phases.set_rest_s(rests_.median());
  const std::uint32_t ranks = job.layout().data();
  Breakdown& parts = *report.mutable_breakdown();
  parts.set_compute(compute_ / capacity_);
  parts.set_waiting(waiting_ / capacity_);
  parts.set_exposed_communication(std::max(0.0, 1 - parts.compute() - parts.waiting()));
  report.set_gpu_utilization(parts.compute() + parts.exposed_communication());
  const double share = static_cast<double>(job.global_batch()) / job.micro_batch() / ranks;
  const double fault_free = std::ceil(share) * to_seconds(job.pace().micro_batch());
  report.set_embedding_gather_bytes(gather_read_);
  report.set_embedding_gather_saved_bytes(gather_used_ - gather_read_);
  report.set_goodput(std::min(1.0, samples / job.global_batch() * fault_free / elapsed));
}

}  // namespace orrery::live

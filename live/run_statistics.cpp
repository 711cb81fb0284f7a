#include "live/run_statistics.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "live/telemetry.hpp"

namespace orrery::live {
namespace {

constexpr std::size_t kMostListed = 10000;

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace

/// An interval begins with the update of the step before and ends with its own step's commit.
void RunStatistics::add_phases(std::span<const StepReport> reports, double interval) {
  Nanos update = 0, whole = 0;
  for (const StepReport& report : reports) {
    whole = std::max<Nanos>(whole, report.duration());
    for (const OpDone& op : report.ops()) {
      if (op.phase() == OPTIMIZER) update = std::max<Nanos>(update, op.duration());
    }
  }
  const Nanos compute = slowest_compute(reports);
  computes_.push_back(to_seconds(compute));
  exchanges_.push_back(to_seconds(std::max<Nanos>(0, whole - compute)));
  updates_.push_back(to_seconds(update));
  rests_.push_back(std::max(0.0, interval - to_seconds(whole + update)));
}

void RunStatistics::commit(std::span<const StepReport> reports, Nanos now) {
  const Nanos slowest = slowest_compute(reports);
  double loss = 0, predictions = 0;
  for (const StepReport& report : reports) {
    loss += report.loss_sum();
    predictions += static_cast<double>(report.predictions());
    compute_ += to_seconds(report.compute());
    waiting_ += to_seconds(slowest - report.compute());
    gather_used_ += report.gather_used();
    gather_read_ += report.gather_read();
  }
  losses_.push_back(loss / predictions);
  intervals_.push_back(to_seconds(now - last_commit_));
  add_phases(reports, intervals_.back());
  last_commit_ = now;
  ++steps_;
}

double RunStatistics::final_loss() const {
  const std::size_t count = std::min(kFinalLossSteps, losses_.size());
  return std::accumulate(losses_.end() - static_cast<std::ptrdiff_t>(count), losses_.end(), 0.0) /
         static_cast<double>(count);
}

void RunStatistics::fill(Report& report) const {
  report.set_steps_completed(steps_);
  if (steps_ == 0) return;
  const Job& job = scenario_.job();
  const double elapsed = to_seconds(last_commit_);
  report.set_elapsed_s(elapsed);
  const double steps = static_cast<double>(steps_);
  report.set_step_time_s(median(intervals_));
  report.set_tokens_per_s(steps * job.global_batch() * job.sequence_length() / elapsed);
  report.set_final_loss(final_loss());
  for (std::size_t i = 0; i < std::min(kMostListed, intervals_.size()); ++i) {
    report.add_step_times_s(intervals_[i]);
    report.add_losses(losses_[i]);
  }
  Phases& phases = *report.mutable_phases();
  phases.set_compute_s(median(computes_));
  phases.set_exchange_s(median(exchanges_));
  phases.set_update_s(median(updates_));
  phases.set_rest_s(median(rests_));
  const std::uint32_t ranks = job.layout().data();
  const double capacity = elapsed * ranks;
  Breakdown& parts = *report.mutable_breakdown();
  parts.set_compute(compute_ / capacity);
  parts.set_waiting(waiting_ / capacity);
  parts.set_exposed_communication(std::max(0.0, 1 - parts.compute() - parts.waiting()));
  report.set_gpu_utilization(parts.compute() + parts.exposed_communication());
  const double share = static_cast<double>(job.global_batch()) / job.micro_batch() / ranks;
  const double fault_free = std::ceil(share) * to_seconds(job.pace().micro_batch());
  report.set_embedding_gather_bytes(gather_read_);
  report.set_embedding_gather_saved_bytes(gather_used_ - gather_read_);
  report.set_goodput(std::min(1.0, steps * fault_free / elapsed));
}

}  // namespace orrery::live

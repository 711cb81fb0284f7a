#include "live/run/metrics/live_metrics.hpp"

#include <algorithm>
#include <utility>

namespace orrery::live {

std::uint32_t micro_batches_of(const Job& job) {
  return job.global_batch() / std::max(job.micro_batch(), 1u);
}

LiveMetrics::LiveMetrics(const Scenario& scenario, const RunState& state,
                         std::function<void(const Progress&)> progress)
    : scenario_(scenario),
      state_(state),
      progress_(std::move(progress)),
      ledger_(state.work.lost, state.work.twice, state.work.recomputed),
      wire_(scenario.job().model()),
      cpu_(scenario.job().layout().data(), state.work.cpu) {}

void LiveMetrics::record_progress(std::uint32_t rank, std::uint32_t life,
                                 const ProgressSample& sample) {
  cpu_.record_cpu_time(rank, sample.cpu());
  wire_.record_sent_bytes(rank, life, sample.bytes_sent());
}

void LiveMetrics::record_executions(const StepReport& report, bool discarded) {
  for (const OpDone& op : report.ops()) {
    if (op.phase() != COMPUTE) continue;
    if (discarded) {
      ledger_.record_late_execution(report.step());
    } else {
      ledger_.record_execution(report.step(), op.micro_batch());
    }
  }
}

void LiveMetrics::record_commit(const Settings& settings, std::uint32_t ranks,
                               JournalCommit& commit) {
  const std::uint64_t batch = settings.get<orrery::Batch>().micro_batches;
  ledger_.record_commit(commit.step(), batch);
  // Reproducible (integer) gradients have no codec and take twice the bytes.
  if (!scenario_.live().reproducible()) wire_.add_step(settings.get<CodecRules>(), ranks);
  for (const Nanos used : cpu_.so_far()) commit.add_cpu(used);
  commit.set_lost(ledger_.lost_count());
  commit.set_twice(ledger_.repeated_count());
  commit.set_recomputed(ledger_.recomputed());
  commit.set_samples(batch * scenario_.job().micro_batch());
}

void LiveMetrics::send_progress() const {
  if (!progress_) return;
  Progress progress;
  progress.set_steps_done(steps());
  progress.set_steps(scenario_.run().steps());
  progress.set_elapsed_s(to_seconds(elapsed()));
  progress_(progress);
}

double LiveMetrics::busy_cores() const {
  if (elapsed() <= 0) return 0;
  return static_cast<double>(cpu_.total()) / static_cast<double>(elapsed());
}

void LiveMetrics::fill(Report& report) const {
  fill_report(state_.statistics, scenario_, report);
  wire_.fill(report);
  report.set_micro_batches_lost(ledger_.lost_count());
  report.set_micro_batches_repeated(ledger_.repeated_count());
  report.set_micro_batches_recomputed(ledger_.recomputed());
  report.set_real_cpu_cores(busy_cores());
}

}  // namespace orrery::live

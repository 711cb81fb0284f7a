#include "live/run/account/run_account.hpp"

#include <algorithm>
#include <utility>

namespace orrery::live {

std::uint32_t micro_batches_of(const Job& job) {
  return job.global_batch() / std::max(job.micro_batch(), 1u);
}

// Reproducible (integer) gradients have no codec and take twice the bytes.
RunAccount::RunAccount(const Scenario& scenario, std::function<void(const Progress&)> progress)
    : steps_(scenario.run().steps()),
      micro_batch_(scenario.job().micro_batch()),
      progress_(std::move(progress)),
      coded_(!scenario.live().reproducible()),
      statistics_(scenario),
      wire_(scenario.job().model()),
      cpu_(scenario.job().layout().data()) {}

void RunAccount::record_progress(std::uint32_t rank, std::uint32_t life,
                                 const ProgressSample& sample) {
  cpu_.record_cpu_time(rank, sample.cpu());
  wire_.record_sent_bytes(rank, life, sample.bytes_sent());
}

void RunAccount::record_executions(const StepReport& report, bool discarded) {
  for (const OpDone& op : report.ops()) {
    if (op.phase() != COMPUTE) continue;
    if (discarded) {
      ledger_.record_late_execution(report.step());
    } else {
      ledger_.record_execution(report.step(), op.micro_batch());
    }
  }
}

void RunAccount::record_commit(Step step, std::span<const StepReport> reports,
                               const Settings& settings, std::uint32_t ranks, Nanos now) {
  const std::uint64_t batch = settings.get<orrery::Batch>().micro_batches;
  newest_samples_ = batch * micro_batch_;
  statistics_.record_commit(reports, newest_samples_, now);
  ledger_.record_commit(step, batch);
  if (coded_) wire_.add_step(settings.get<CodecRules>(), ranks);
}

void RunAccount::roll_back(Step next, Step kept) {
  ledger_.record_discard(next);
  statistics_.roll_back(next - kept);
}

void RunAccount::send_progress() const {
  if (!progress_) return;
  Progress progress;
  progress.set_steps_done(steps());
  progress.set_steps(steps_);
  progress.set_elapsed_s(to_seconds(elapsed()));
  progress_(progress);
}

double RunAccount::busy_cores() const {
  if (elapsed() <= 0) return 0;
  return static_cast<double>(cpu_.total()) / static_cast<double>(elapsed());
}

void RunAccount::fill(Report& report) const {
  statistics_.fill(report);
  wire_.fill(report);
  report.set_micro_batches_lost(ledger_.lost_count());
  report.set_micro_batches_repeated(ledger_.repeated_count());
  report.set_micro_batches_recomputed(ledger_.recomputed());
  report.set_real_cpu_cores(busy_cores());
}

void RunAccount::save_to(JournalSnapshot& now) const {
  statistics_.save_to(*now.mutable_statistics());
}

void RunAccount::save_to(JournalCommit& commit) const {
  for (const Nanos used : cpu_.so_far()) commit.add_cpu(used);
  commit.set_lost(ledger_.lost_count());
  commit.set_twice(ledger_.repeated_count());
  commit.set_recomputed(ledger_.recomputed());
  commit.set_samples(newest_samples_);
}

void RunAccount::restore_from(const Past& past) {
  ledger_.restore_counters(past.work.lost, past.work.twice, past.work.recomputed);
  cpu_.restore_totals(past.work.cpu);
  if (past.snapshot) statistics_.restore_from(past.snapshot->statistics());
  Step next = past.snapshot ? past.snapshot->step() : 0;
  const auto roll_back_to = [&](Step kept) {
    if (kept < next) statistics_.roll_back(next - kept);
  };
  for (const JournalCommit& commit : past.commits) {
    roll_back_to(commit.step());
    const std::vector<StepReport> reports(commit.reports().begin(), commit.reports().end());
    statistics_.record_commit(reports, commit.samples(), commit.at());
    next = commit.step() + 1;
  }
  if (past.rolled_back) roll_back_to(past.rolled_back->step());
}

}  // namespace orrery::live

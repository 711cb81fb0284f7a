#include "live/run/account/run_account.hpp"

#include <algorithm>
#include <utility>

namespace orrery::live {

std::uint32_t micro_batches_of(const Job& job) {
  return job.global_batch() / std::max(job.micro_batch(), 1u);
}

// In whole numbers gradients travel in no code, and in twice the bytes.
RunAccount::RunAccount(const Scenario& scenario, std::function<void(const Progress&)> progress)
    : steps_(scenario.run().steps()),
      progress_(std::move(progress)),
      coded_(!scenario.live().reproducible()),
      ledger_(micro_batches_of(scenario.job())),
      statistics_(scenario),
      wire_(scenario.job().model()),
      cpu_(scenario.job().layout().data()) {}

void RunAccount::heard(std::uint32_t rank, std::uint32_t life, const ProgressSample& sample) {
  cpu_.used(rank, sample.cpu());
  wire_.sent(rank, life, sample.bytes_sent());
}

void RunAccount::executed(const StepReport& report) {
  for (const OpDone& op : report.ops()) {
    if (op.phase() == COMPUTE) ledger_.executed(report.step(), op.micro_batch());
  }
}

void RunAccount::committed(Step step, std::span<const StepReport> reports,
                           std::span<const CodecRule> rules, std::uint32_t ranks, Nanos now) {
  statistics_.commit(reports, now);
  ledger_.committed(step);
  if (coded_) wire_.exchanged(rules, ranks);
}

void RunAccount::tell_progress() const {
  if (!progress_) return;
  Progress progress;
  progress.set_steps_done(steps());
  progress.set_steps(steps_);
  progress.set_elapsed_s(to_seconds(elapsed()));
  progress_(progress);
}

double RunAccount::busy_cores() const {
  return static_cast<double>(cpu_.total()) / static_cast<double>(std::max<Nanos>(elapsed(), 1));
}

void RunAccount::fill(Report& report) const {
  statistics_.fill(report);
  wire_.fill(report);
  report.set_micro_batches_lost(ledger_.lost());
  report.set_micro_batches_repeated(ledger_.repeated());
  report.set_micro_batches_recomputed(ledger_.recomputed());
  report.set_real_cpu_cores(busy_cores());
}

void RunAccount::keep(JournalSnapshot& now) const {
  for (const Nanos used : cpu_.so_far()) now.add_cpu(used);
  now.set_lost(ledger_.lost());
  now.set_twice(ledger_.repeated());
  now.set_recomputed(ledger_.recomputed());
  statistics_.keep(*now.mutable_statistics());
}

void RunAccount::keep(JournalCommit& commit) const {
  for (const Nanos used : cpu_.so_far()) commit.add_cpu(used);
  commit.set_lost(ledger_.lost());
  commit.set_twice(ledger_.repeated());
  commit.set_recomputed(ledger_.recomputed());
}

void RunAccount::restore(const Past& past) {
  if (past.snapshot) {
    const JournalSnapshot& then = *past.snapshot;
    statistics_.restore(then.statistics());
    ledger_.restore(then.lost(), then.twice(), then.recomputed());
    cpu_.restore({then.cpu().begin(), then.cpu().end()});
  }
  for (const JournalCommit& commit : past.commits) {
    const std::vector<StepReport> reports(commit.reports().begin(), commit.reports().end());
    statistics_.commit(reports, commit.at());
  }
  if (past.commits.empty()) return;
  const JournalCommit& last = past.commits.back();
  ledger_.restore(last.lost(), last.twice(), last.recomputed());
  cpu_.restore({last.cpu().begin(), last.cpu().end()});
}

}  // namespace orrery::live

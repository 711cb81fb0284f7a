#include "live/run/losses/fault_injector.hpp"

#include <algorithm>
#include <csignal>

#include "live/run/account/run_account.hpp"
#include "policies/seam/part_changes.hpp"
#include "traces/scenario/scenario.hpp"

namespace orrery::live {

FaultInjector::FaultInjector(const Scenario& scenario, const Cluster& cluster, std::uint32_t slots,
                             Step first, RankControl& control, Journal& journal)
    : scenario_(scenario),
      control_(control),
      journal_(journal),
      schedule_(scenario, cluster, slots, first) {
  restore_from(journal.past());
}

void FaultInjector::restore_from(const Past& past) {
  strikes_ = past.strikes;
  for (const JournalStrike& strike : past.strikes) {
    const bool noticed = std::ranges::any_of(past.losses, [&](const JournalLoss& loss) {
      return loss.rank() == strike.rank() && loss.report().time_s() == to_seconds(strike.at());
    });
    schedule_.restore_injection(strike.fault(), strike.rank(), strike.at(), noticed);
  }
}

void FaultInjector::inject_due(Step step, Nanos now, std::span<const std::uint32_t> awaited) {
  for (const auto& strike : schedule_.due(step, now, control_.members(), awaited)) {
    JournalRecord record;
    record.mutable_strike()->set_fault(strike.fault);
    record.mutable_strike()->set_rank(strike.rank);
    record.mutable_strike()->set_at(now);
    journal_.append_record(record);
    strikes_.push_back(record.strike());
    control_.signal(strike.rank, strike.stop ? SIGSTOP : SIGKILL);
  }
}

void FaultInjector::repeat_injections() {
  for (const JournalStrike& strike : strikes_) {
    if (schedule_.unnoticed(strike.rank())) control_.signal(strike.rank(), SIGKILL);
  }
}

std::vector<PartChanged> FaultInjector::part_changes(const ClusterState& known, Step step,
                                                     Nanos now) const {
  return ::orrery::part_changes(
      known.parts, reported_parts(schedule_.lost_parts(step, now), schedule_.removals(step, now)));
}

void FaultInjector::save_to(JournalSnapshot& now) const {
  now.mutable_strikes()->Add(strikes_.begin(), strikes_.end());
}

void FaultInjector::fill(Report& report, Step last, Nanos elapsed) const {
  report.set_faults_injected(schedule_.injected());
  std::vector<double> speeds;
  for (std::uint32_t rank = 0; rank < scenario_.job().layout().data(); ++rank) {
    speeds.push_back(hardware(rank, last, elapsed).speed());
  }
  const Job& job = scenario_.job();
  report.set_ideal_step_time_s(
      ideal_makespan(speeds, micro_batches_of(job), to_seconds(job.pace().micro_batch())));
}

}  // namespace orrery::live

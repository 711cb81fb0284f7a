#include "live/run/losses/fault_injector.hpp"

#include <algorithm>
#include <csignal>
#include <map>

#include "live/run/metrics/live_metrics.hpp"
#include "policies/seam/part_changes.hpp"
#include "traces/scenario/scenario.hpp"

namespace orrery::live {
namespace {

// Bound of the drawn faults, whose numbers follow those of the scenario: the numbers of the
// operator's removals follow.
constexpr int kMostDrawn = 1 << 30;

/// Returns the number of the operator's first removal among the faults.
int first_removal(const Scenario& scenario) { return scenario.faults_size() + kMostDrawn; }

/// Returns true if the journal holds a loss of the rank since the injection: of several faults that
/// hit a process, only one is the cause of the loss.
bool is_noticed(const RunState& state, const JournalStrike& strike) {
  return std::ranges::any_of(state.losses, [&](const JournalLoss& loss) {
    return loss.rank() == strike.rank() && loss.report().detected_s() >= to_seconds(strike.at());
  });
}

/// Returns the progress in the schedule of the faults with the numbers from `first` to before
/// `end`.
FaultProgress progress_of(const RunState& state, int first, int end) {
  FaultProgress progress;
  for (const JournalStrike& strike : state.strikes) {
    if (strike.fault() < first || strike.fault() >= end) continue;
    progress.injections.push_back({.fault = strike.fault() - first,
                                   .rank = strike.rank(),
                                   .at = strike.at(),
                                   .is_noticed = is_noticed(state, strike)});
  }
  return progress;
}

/// Returns the progress in the schedule of the scenario's faults.
FaultProgress scenario_progress(const RunState& state, int end) {
  FaultProgress progress = progress_of(state, 0, end);
  progress.committed = state.furthest;
  return progress;
}

}  // namespace

FaultInjector::FaultInjector(const Scenario& scenario, const Cluster& cluster, std::uint32_t slots,
                             Step first, RankControl& control, Journal& journal)
    : scenario_(scenario),
      cluster_(cluster),
      slots_(slots),
      control_(control),
      journal_(journal) {
  const RunState& state = journal.state();
  int number = first_removal(scenario);
  schedules_.push_back(std::make_unique<FaultSchedule>(scenario, cluster, slots, first,
                                                       scenario_progress(state, number)));
  for (const Fault& removal : state.removals) {
    FaultProgress progress = progress_of(state, number, number + 1);
    if (state.sequence > 0) progress.until = state.now;
    add_removal(removal, progress);
    ++number;
  }
}

void FaultInjector::add_removal(const Fault& removal, const FaultProgress& progress) {
  Scenario alone;
  *alone.add_faults() = removal;
  schedules_.push_back(std::make_unique<FaultSchedule>(alone, cluster_, slots_, 0, progress));
}

void FaultInjector::announce_removal(Part part, Nanos now, Nanos notice, std::optional<Nanos> lasts,
                                     bool test) {
  Fault removal;
  removal.set_at_time(now + notice);
  removal.set_notice(notice);
  removal.set_down(true);
  removal.set_cause("removal");
  if (part.kind == PartKind::gpu) removal.set_gpu(part.index);
  if (part.kind == PartKind::node) removal.set_node(part.index);
  if (lasts) removal.set_for_(*lasts);
  if (test) removal.set_test(1);  // a live run tests for as long as a process needs to start
  JournalRecord record;
  *record.mutable_removal() = removal;
  journal_.append_record(record);
  add_removal(removal);
}

void FaultInjector::inject_due(Step step, Nanos now, std::span<const std::uint32_t> awaited) {
  int number = 0, next = first_removal(scenario_);
  for (const auto& schedule : schedules_) {
    record_due(*schedule, number, step, now, awaited);
    number = next++;
  }
  send_recorded(now);
}

void FaultInjector::record_due(FaultSchedule& schedule, int number, Step step, Nanos now,
                               std::span<const std::uint32_t> awaited) {
  const std::vector<std::uint32_t> members = control_.states().ranks_with(&RankState::is_member);
  for (const auto& strike : schedule.due(step, now, members, awaited)) {
    JournalRecord record;
    record.mutable_strike()->set_fault(number + strike.fault);
    record.mutable_strike()->set_rank(strike.rank);
    record.mutable_strike()->set_at(now);
    journal_.append_record(record);
  }
}

void FaultInjector::send_recorded(Nanos now) {
  const RunState& state = journal_.state();
  for (; handled_ < state.strikes.size(); ++handled_) {
    const JournalStrike& strike = state.strikes[handled_];
    // A removal by the operator ends its ranks.
    const bool is_scripted = strike.fault() < first_removal(scenario_);
    const bool stops = is_scripted && scripted().is_stop(strike.fault());
    if (is_noticed(state, strike)) continue;
    if (stops && scripted().is_stop_over(strike.fault(), now)) continue;
    control_.signal(strike.rank(), stops ? SIGSTOP : SIGKILL);
  }
}

void FaultInjector::continue_stopped(Nanos now) {
  for (const std::uint32_t rank : scripted().drain_resumed(now)) control_.signal(rank, SIGCONT);
}

std::optional<Nanos> FaultInjector::take_hit_time(std::uint32_t rank) {
  std::optional<Nanos> hit;
  for (const auto& schedule : schedules_) {
    if (const auto other = schedule->take_hit_time(rank); other && !hit) hit = other;
  }
  return hit;
}

bool FaultInjector::has_test(Part part) const {
  return std::ranges::any_of(schedules_,
                             [part](const auto& schedule) { return schedule->has_test(part); });
}

std::set<Part> FaultInjector::lost_parts(Step step, Nanos now) const {
  std::set<Part> lost;
  for (const auto& schedule : schedules_) lost.merge(schedule->lost_parts(step, now));
  return lost;
}

Nanos FaultInjector::next_instant(Nanos now) const {
  Nanos next = kNever;
  for (const auto& schedule : schedules_) next = std::min(next, schedule->next_instant(now));
  return next;
}

std::vector<PartChanged> FaultInjector::part_changes(const ClusterState& known, Step step,
                                                     Nanos now) const {
  std::map<Part, Removal> removals;
  for (const auto& schedule : schedules_) removals.merge(schedule->removals(step, now));
  return ::orrery::part_changes(
      known.parts,
      reported_parts(lost_parts(step, now), scripted().slower_parts(step, now), removals));
}

void FaultInjector::fill(Report& report, Step last, Nanos elapsed) const {
  std::size_t injected = 0;
  for (const auto& schedule : schedules_) injected += schedule->injected();
  report.set_faults_injected(injected);
  std::vector<double> speeds;
  for (std::uint32_t rank = 0; rank < scenario_.job().layout().data(); ++rank) {
    speeds.push_back(hardware(rank, last, elapsed).speed());
  }
  const Job& job = scenario_.job();
  report.set_ideal_step_time_s(
      ideal_makespan(speeds, micro_batches_of(job), to_seconds(job.pace().micro_batch())));
}

}  // namespace orrery::live

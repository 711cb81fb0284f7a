#include "policies/handover/shadow_score.hpp"

#include <algorithm>
#include <utility>

#include "policies/codec.hpp"

namespace orrery {
namespace {

constexpr int kMostListed = 1000;
constexpr double kWorthNaming = 0.005;

}  // namespace

void ShadowScore::propose(const Decision& decision, const Observation& seen) {
  const auto* shift = std::get_if<ShiftMicrobatches>(&decision.what);
  const bool possible = shift != nullptr && shift->job.value < seen.jobs.size() &&
                        shift->per_replica.size() == seen.jobs[shift->job.value].spec.data;
  if (!possible) {
    ++not_scored_;
    return;
  }
  // At once is: from the next step on, for the one under way is divided already.
  const Step next = seen.jobs[shift->job.value].step + (seen.jobs[shift->job.value].step > 0);
  const Step from = decision.effective_at_step > 0 ? decision.effective_at_step : next;
  auto& ahead = proposals_[shift->job];
  not_scored_ += ahead.contains(from) ? 1 : 0;
  ahead[from] = {decision.number, from, shift->per_replica, trace_line(decision)};
}

void ShadowScore::see(const Observation& seen) {
  for (const Event& event : seen.events) {
    const auto* done = std::get_if<StepDone>(&event);
    if (done != nullptr) step_done(*done, seen.jobs[done->job.value]);
  }
  for (const RankSample& sample : seen.ranks) {
    if (!sample.micro_batch_time.known() || sample.job.value >= seen.jobs.size()) continue;
    const JobSpec& spec = seen.jobs[sample.job.value].spec;
    Job& job = jobs_[sample.job];
    job.rank_time.resize(std::size_t{spec.ranks_per_replica()} * spec.data);
    if (sample.rank.value >= job.rank_time.size()) continue;
    job.rank_time[sample.rank.value] = sample.micro_batch_time.value;
  }
  for (const JobInfo& info : seen.jobs) {
    if (info.spec.micro_batches > 0) jobs_[info.spec.id].per_replica = info.per_replica;
  }
}

/// The replica that is last; nothing while a rank's speed is unknown.
std::optional<double> ShadowScore::compute(const Job& job, const JobSpec& spec,
                                           const std::vector<std::uint32_t>& per_replica) {
  double latest = 0;
  for (std::uint32_t rank = 0; rank < job.rank_time.size(); ++rank) {
    const std::uint32_t count = per_replica[spec.replica_of({rank})];
    if (count == 0) continue;
    if (job.rank_time[rank] <= 0) return std::nullopt;
    latest = std::max(latest, (count + spec.pipeline - 1) * job.rank_time[rank]);
  }
  if (latest <= 0) return std::nullopt;
  return latest;
}

void ShadowScore::step_done(const StepDone& done, const JobInfo& info) {
  const Job& job = jobs_[done.job];
  auto& ahead = proposals_[done.job];
  auto current = ahead.upper_bound(done.step);
  if (current == ahead.begin() || job.per_replica.size() != info.spec.data) return;
  const Proposal& proposal = (--current)->second;
  const auto was = compute(job, info.spec, job.per_replica);
  const auto decided = compute(job, info.spec, proposal.per_replica);
  if (!was || !decided) return;
  DecisionScore& score = scores_[proposal.decision];
  score.set_decision(proposal.decision);
  score.set_from_step(proposal.from);
  score.set_what(proposal.what);
  score.set_steps(score.steps() + 1);
  score.set_as_it_was_s(score.as_it_was_s() + *was);
  score.set_as_decided_s(score.as_decided_s() + *decided);
  score.set_measured_s(score.measured_s() + to_seconds(done.duration));
}

void ShadowScore::fill(ShadowSummary& summary) const {
  std::uint64_t proposed = 0;
  for (const auto& [job, ahead] : proposals_) proposed += ahead.size();
  summary.set_scored(scores_.size());
  summary.set_not_scored(not_scored_ + proposed - scores_.size());
  for (const auto& [number, score] : scores_) {
    const double gain = 1 - score.as_decided_s() / score.as_it_was_s();
    summary.set_better(summary.better() + (gain > kWorthNaming ? 1 : 0));
    summary.set_worse(summary.worse() + (gain < -kWorthNaming ? 1 : 0));
    summary.set_steps(summary.steps() + score.steps());
    summary.set_as_it_was_s(summary.as_it_was_s() + score.as_it_was_s());
    summary.set_as_decided_s(summary.as_decided_s() + score.as_decided_s());
    summary.set_measured_s(summary.measured_s() + score.measured_s());
    if (summary.decisions_size() < kMostListed) *summary.add_decisions() = score;
  }
}

}  // namespace orrery

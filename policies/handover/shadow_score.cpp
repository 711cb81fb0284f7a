#include "policies/handover/shadow_score.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "policies/record/encoding.hpp"

namespace orrery {
namespace {

constexpr int kMostListed = 1000;
constexpr double kWorthNaming = 0.005;

}  // namespace

void ShadowScore::add_proposal(const Decision& decision, const Observation& seen) {
  const auto* configure = std::get_if<Configure>(&decision.what);
  const auto* shares = configure == nullptr ? nullptr : std::get_if<Shares>(&configure->what);
  const JobInfo* job = seen.jobs.find(job_of(decision.what));
  const bool possible = shares != nullptr && job != nullptr && job->phase != JobPhase::done &&
                        shares->per_replica.size() == job->layout.data;
  if (!possible) {
    ++not_scored_;
    return;
  }
  // "At once" means from the next step on, because the current step is divided already.
  const Step next = job->step + (job->step > 0);
  const Step from = decision.at_step > 0 ? decision.at_step : next;
  auto& ahead = proposals_[configure->job];
  not_scored_ += ahead.contains(from) ? 1 : 0;
  ahead[from] = {decision.id, from, shares->per_replica, trace_line(decision)};
}

void ShadowScore::add_observation(const Observation& seen) {
  for (const Event& event : seen.events) {
    const auto* done = std::get_if<StepsDone>(&event);
    if (done != nullptr) steps_done(*done, seen.jobs[done->job]);
    if (const auto* ended = std::get_if<JobDone>(&event)) remove_job(ended->job);
  }
  for (const JobInfo& info : seen.jobs) {
    if (!info.spec.is_training() || !info.is_placed() || info.phase == JobPhase::done) continue;
    Job& job = jobs_[info.spec.id];
    job.rank_time.resize(info.layout.ranks());
    for (const RankSample& sample : seen.samples.ranks(info.spec.id)) {
      const Sample<double>& time = sample.micro_batch_time;
      if (!time.is_known() || sample.rank.value >= job.rank_time.size()) continue;
      job.rank_time[sample.rank.value] = time.value;
    }
    job.per_replica = info.shares();
  }
}

/// Returns the compute time of the slowest replica; nothing while the speed of a rank with work is
/// unknown. A pipeline of p stages adds p - 1 micro-batch times to fill.
std::optional<double> ShadowScore::compute_seconds(const Job& job, const ParallelLayout& layout,
                                                   const std::vector<std::uint32_t>& per_replica) {
  double latest = 0;
  for (std::uint32_t rank = 0; rank < job.rank_time.size(); ++rank) {
    const std::uint32_t count = per_replica[layout.replica_of({rank})];
    if (count == 0) continue;
    if (job.rank_time[rank] <= 0) return std::nullopt;
    latest = std::max(latest, (count + layout.pipeline - 1) * job.rank_time[rank]);
  }
  if (latest <= 0) return std::nullopt;
  return latest;
}

void ShadowScore::steps_done(const StepsDone& done, const JobInfo& info) {
  const Job& job = jobs_[done.job];
  auto& ahead = proposals_[done.job];
  auto current = ahead.upper_bound(done.last);
  if (current == ahead.begin() || job.per_replica.size() != info.layout.data) return;
  const Proposal& proposal = (--current)->second;
  if (proposal.per_replica.size() != info.layout.data) return;  // made for an earlier layout
  const auto was = compute_seconds(job, info.layout, job.per_replica);
  const auto decided = compute_seconds(job, info.layout, proposal.per_replica);
  if (!was || !decided) return;
  const auto times = static_cast<double>(done.count);
  DecisionScore& score = scores_[proposal.decision];
  score.set_decision(proposal.decision);
  score.set_from_step(proposal.from);
  score.set_what(proposal.what);
  score.set_steps(score.steps() + done.count);
  score.set_as_it_was_s(score.as_it_was_s() + times * *was);
  score.set_as_decided_s(score.as_decided_s() + times * *decided);
  score.set_measured_s(score.measured_s() + to_seconds(done.duration));
}

void ShadowScore::remove_job(JobId job) {
  jobs_.erase(job);
  const auto ahead = proposals_.find(job);
  if (ahead == proposals_.end()) return;
  removed_ += ahead->second.size();
  proposals_.erase(ahead);
}

void ShadowScore::fill(ShadowSummary& summary) const {
  std::uint64_t proposed = removed_;
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

void ShadowScore::save(ByteWriter& write) const {
  write(not_scored_, removed_);
  write(static_cast<std::uint64_t>(jobs_.size()));
  for (const auto& [id, job] : jobs_) {
    write(id.value);
    write(job.rank_time);
    write(job.per_replica);
  }
  write(static_cast<std::uint64_t>(proposals_.size()));
  for (const auto& [id, ahead] : proposals_) {
    write(id.value);
    write(static_cast<std::uint64_t>(ahead.size()));
    for (const auto& [from, proposal] : ahead) {
      write(proposal.decision);
      write(from);
      write(proposal.per_replica);
      write(proposal.what);
    }
  }
  write(static_cast<std::uint64_t>(scores_.size()));
  for (const auto& [number, score] : scores_) write(score.SerializeAsString());
}

void ShadowScore::load(ByteReader& read) {
  read(not_scored_, removed_);
  for (std::size_t count = read.size(); count > 0; --count) {
    JobId id;
    read(id.value);
    read(jobs_[id].rank_time);
    read(jobs_[id].per_replica);
  }
  for (std::size_t count = read.size(); count > 0; --count) {
    JobId id;
    read(id.value);
    for (std::size_t ahead = read.size(); ahead > 0; --ahead) {
      Proposal proposal;
      read(proposal.decision);
      read(proposal.from);
      read(proposal.per_replica);
      read(proposal.what);
      const Step from = proposal.from;
      proposals_[id][from] = std::move(proposal);
    }
  }
  for (std::size_t count = read.size(); count > 0; --count) {
    std::string bytes;
    read(bytes);
    DecisionScore score;
    ensure(score.ParseFromString(bytes), "a saved score is one");
    const std::uint64_t number = score.decision();
    scores_[number] = std::move(score);
  }
}

}  // namespace orrery

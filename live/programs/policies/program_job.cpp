#include "live/programs/policies/program_job.hpp"

#include <algorithm>

#include "policies/seam/job_lifecycle.hpp"

namespace orrery::live {

bool ProgramJob::is_alive() const {
  const JobInfo* const job = world_.jobs().find(kJob);
  return job != nullptr && job->phase != JobPhase::done;
}

std::vector<std::pair<std::size_t, bool>> ProgramJob::ranks() const {
  std::vector<std::pair<std::size_t, bool>> ranks;
  if (!is_alive()) return ranks;
  for (const GpuId gpu : job().gpus) ranks.emplace_back(gpu.value, rank_on(job(), gpu).has_value());
  return ranks;
}

void ProgramJob::emit_event(Event event) {
  world_.apply(event, now_());
  events_.push_back(std::move(event));
}

void ProgramJob::submit_job(JobSpec spec, Step from) {
  const auto gpus = GpuRuns::range({0}, spec.gpus);
  const ParallelLayout layout = spec.layout;
  emit_event(JobSubmitted{std::move(spec)});
  emit_event(start_of(job(), from, {gpus, layout}));
}

void ProgramJob::start_job(const std::vector<std::size_t>& ranks, Step from) {
  Standing where;
  for (const std::size_t rank : ranks) where.gpus.push_back({static_cast<std::uint32_t>(rank)});
  where.layout.data = static_cast<std::uint32_t>(ranks.size());
  saves_.clear();
  emit_event(start_of(job(), from, std::move(where)));
}

/// Returns the ranks of the job, those that are lost left out.
std::vector<RankId> ProgramJob::job_ranks(const std::vector<std::size_t>& ranks) const {
  std::vector<RankId> found;
  for (const std::size_t rank : ranks) {
    const auto own = rank_on(job(), {static_cast<std::uint32_t>(rank)});
    if (own) found.push_back(*own);
  }
  return found;
}

void ProgramJob::lose_ranks(const std::vector<std::size_t>& ranks) {
  std::vector<RankId> lost = job_ranks(ranks);
  if (!lost.empty()) emit_event(loss_of(job(), std::move(lost)));
}

void ProgramJob::suspect_ranks(const std::vector<std::size_t>& ranks) {
  if (auto suspected = suspicion_of(job(), job_ranks(ranks))) emit_event(std::move(*suspected));
}

bool ProgramJob::complete_steps(std::uint64_t steps, double duration_s) {
  if (!is_alive() || job().phase != JobPhase::running || steps <= job().step) return false;
  emit_event(StepsDone{kJob, steps - 1, steps - job().step, to_nanos(duration_s)});
  show_saves();
  return true;
}

void ProgramJob::record_save(Step step, double stalled_s, bool is_durable) {
  const Nanos stalled = to_nanos(stalled_s);
  saves_.emplace(step, SaveDone{.job = kJob,
                                .step = step,
                                .tier = tier_,
                                .stalled = stalled,
                                .took = stalled,
                                .durable = is_durable,
                                .holders = {}});
  show_saves();
}

void ProgramJob::show_saves() {
  while (is_alive() && !saves_.empty() && saves_.begin()->first <= job().step) {
    SaveDone done = std::move(saves_.begin()->second);
    saves_.erase(saves_.begin());
    emit_event(std::move(done));
  }
}

}  // namespace orrery::live

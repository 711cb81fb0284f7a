#include "policies/scheduling/ranked.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <utility>

#include "core/random.hpp"

namespace orrery {

// ---- where jobs stand -----------------------------------------------------------------------

void RankedPolicy::enter(const JobInfo& info, Nanos now) {
  const auto [known, fresh] = jobs_.try_emplace(info.spec.id);
  Track& job = known->second;
  if (fresh) {
    job = {.id = info.spec.id, .pool = info.spec.pool, .gpus = info.spec.gpus,
           .submit = info.spec.submit, .estimate = info.spec.estimate};
    job.served = std::llround(info.gpu_seconds / std::max(1u, job.gpus)) * kNanosPerSecond;
  } else if (!job.running) {
    return;
  } else {
    job.running = false;
    job.served += now - job.since;
    running_gpus_ -= job.gpus;
  }
  job.turn = turns_++;
}

void RankedPolicy::run(const JobInfo& info, Nanos since) {
  enter(info, since);
  Track& job = jobs_.at(info.spec.id);
  if (job.running) return;
  job.running = true;
  job.since = since;
  job.turn = turns_++;
  running_gpus_ += job.gpus;
}

void RankedPolicy::leave(const JobInfo& info) {
  const auto known = jobs_.find(info.spec.id);
  if (known == jobs_.end()) return;
  if (known->second.running) running_gpus_ -= known->second.gpus;
  jobs_.erase(known);
  ended(info.gpu_seconds);
}

void RankedPolicy::clear() {
  jobs_.clear();
  running_gpus_ = 0;
  turns_ = 0;
}

void RankedPolicy::save(Archive& archive) const {
  std::uint64_t digest = 0;
  for (const auto& [id, job] : jobs_) {
    const std::uint64_t state = id.value * 2 + (job.running ? 1u : 0u);
    digest ^= Rng(Rng(state).next() ^ static_cast<std::uint64_t>(job.served)).next();
  }
  archive += std::to_string(jobs_.size()) + " " + std::to_string(digest);
}

// ---- the pass -------------------------------------------------------------------------------

RankedPolicy::Jobs RankedPolicy::in_order() const {
  Jobs jobs;
  for (const auto& [id, job] : jobs_) jobs.push_back(&job);
  std::sort(jobs.begin(), jobs.end(), [](const Track* a, const Track* b) {
    return std::tuple(!a->running, a->turn) < std::tuple(!b->running, b->turn);
  });
  return jobs;
}

RankedPolicy::Jobs RankedPolicy::highest_first(
    std::vector<std::pair<double, const Track*>> jobs, std::uint64_t gpus) {
  std::stable_sort(jobs.begin(), jobs.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second->submit < b.second->submit;
  });
  Jobs selected;
  for (const auto& [key, job] : jobs) {
    if (job->gpus > gpus) continue;
    gpus -= job->gpus;
    selected.push_back(job);
  }
  return selected;
}

void RankedPolicy::dispatch(const Observation& seen, DecisionList& decisions) {
  if (!makes_room() && free().total() == 0) return;
  const Jobs jobs = in_order();
  if (jobs.empty() || jobs.back()->running) return;  // nobody waits
  const Jobs selected = select(jobs, free().total() + running_gpus_, seen.now);
  const std::set<const Track*> stay(selected.begin(), selected.end());
  for (const Track* const job : jobs) {
    if (job->running && !stay.contains(job)) take_off(seen, jobs_.at(job->id), decisions);
  }
  put_on(seen, selected, decisions);
}

void RankedPolicy::take_off(const Observation& seen, Track& job, DecisionList& decisions) {
  decisions.add(Assign{.job = job.id}, "makes room");
  free().give_back(seen.jobs[job.id].gpus);
  enter(seen.jobs[job.id], seen.now);
  taken_off_at_ = seen.now;
}

void RankedPolicy::put_on(const Observation& seen, const Jobs& selected, DecisionList& decisions) {
  std::set<std::uint32_t> closed;  // sizes that could not be placed: less and less is free
  for (const Track* const job : selected) {
    if (job->running || closed.contains(job->gpus)) continue;
    const JobSpec& spec = seen.jobs[job->id].spec;
    std::optional<GpuRuns> gpus = place(spec);
    if (!gpus) {
      closed.insert(job->gpus);
      continue;
    }
    decisions.add(Assign{job->id, std::move(*gpus), spec.layout}, reason());
    run(seen.jobs[job->id], seen.now);
  }
}

}  // namespace orrery

#include "policies/queues/ranked.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "core/random.hpp"

namespace orrery {

// ---- where jobs stand -----------------------------------------------------------------------

/// Behind all others that run, or wait.
void RankedPolicy::line_up(Track& job) {
  job.turn = turns_++;
  (job.running ? running_ : waiting_).push_back(&job);
}

void RankedPolicy::step_out(const Track& job) {
  Jobs& line = job.running ? running_ : waiting_;
  const auto found =
      std::lower_bound(line.begin(), line.end(), job.turn,
                       [](const Track* a, std::uint64_t turn) { return a->turn < turn; });
  line.erase(found);
}

void RankedPolicy::enter_queue(const JobInfo& info, Nanos now) {
  const auto [known, fresh] = jobs_.try_emplace(info.spec.id);
  Track& job = known->second;
  if (fresh) {
    const auto number = static_cast<std::uint32_t>(pools_.size());
    job = {.id = info.spec.id,
           .pool = pools_.try_emplace(info.spec.pool, number).first->second,
           .gpus = info.spec.gpus,
           .submit = info.spec.submit,
           .estimate = info.spec.estimate};
    job.served = std::llround(info.gpu_seconds / std::max(1u, job.gpus)) * kNanosPerSecond;
  } else if (!job.running) {
    return;
  } else {
    step_out(job);
    job.running = false;
    job.served += now - job.since;
    running_gpus_ -= job.gpus;
  }
  line_up(job);
}

void RankedPolicy::run(const JobInfo& info, Nanos since) {
  enter_queue(info, since);
  Track& job = jobs_.at(info.spec.id);
  step_out(job);
  job.running = true;
  job.since = since;
  line_up(job);
  running_gpus_ += job.gpus;
}

void RankedPolicy::remove_job(const JobInfo& info) {
  const auto known = jobs_.find(info.spec.id);
  if (known != jobs_.end()) {
    step_out(known->second);
    if (known->second.running) running_gpus_ -= known->second.gpus;
    jobs_.erase(known);
  }
  on_job_end(info);  // also if the queue is not rebuilt yet, at the first call after load
}

void RankedPolicy::clear() {
  jobs_.clear();
  running_.clear();
  waiting_.clear();
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

namespace {

/// Order of jobs; no two are equal.
constexpr auto goes_first = [](const auto& a, const auto& b) {
  if (a.key != b.key) return a.key > b.key;
  if (a.job->submit != b.job->submit) return a.job->submit < b.job->submit;
  return a.place < b.place;
};

/// Moves the jobs that go first, as many as fit together, to the front, and returns the begin of
/// the others; `gpus` becomes the rest. O(jobs): neither part is sorted.
template <class Each>
auto those_that_fit(std::vector<Each>& jobs, std::uint64_t& gpus) {
  auto begin = jobs.begin(), end = jobs.end();
  while (begin != end) {
    const Each middle = begin[(end - begin) / 2];
    auto stop = std::partition(begin, end,
                               [&middle](const Each& each) { return goes_first(each, middle); });
    std::uint64_t need = 0;
    for (auto each = begin; each != stop; ++each) need += each->job->gpus;
    if (need > gpus) {
      end = stop;
      continue;
    }
    gpus -= need;
    begin = stop;
    if (middle.job->gpus > gpus) break;  // it is the first that does not fit
    gpus -= middle.job->gpus;
    std::iter_swap(begin, std::find_if(begin, end, [&middle](const Each& each) {
                     return each.place == middle.place;
                   }));
    ++begin;
  }
  return begin;
}

}  // namespace

RankedPolicy::Jobs RankedPolicy::highest_first(std::vector<Ranked>& jobs, std::uint64_t gpus) {
  const auto behind = those_that_fit(jobs, gpus);
  // Smaller jobs among the others may still fit.
  const auto possible = std::partition(
      behind, jobs.end(), [gpus](const Ranked& each) { return each.job->gpus <= gpus; });
  std::sort(behind, possible, goes_first);
  const auto waits =
      std::partition(jobs.begin(), behind, [](const Ranked& each) { return each.job->running; });
  std::sort(waits, behind, goes_first);
  Jobs selected;
  selected.reserve(static_cast<std::size_t>(possible - jobs.begin()));
  for (auto each = jobs.begin(); each != behind; ++each) selected.push_back(each->job);
  for (auto each = behind; each != possible; ++each) {
    if (each->job->gpus > gpus) continue;
    gpus -= each->job->gpus;
    selected.push_back(each->job);
  }
  return selected;
}

void RankedPolicy::dispatch_jobs(const Observation& seen, DecisionList& decisions) {
  if (waiting_.empty() || (!can_make_room() && free_gpus().total() == 0)) return;
  Jobs jobs = running_;
  jobs.insert(jobs.end(), waiting_.begin(), waiting_.end());
  const Jobs selected = select_jobs(jobs, free_gpus().total() + running_gpus_, seen.now);
  ++passes_;
  for (Track* const job : selected) job->stays_in = passes_;
  jobs.resize(running_.size());
  for (Track* const job : jobs) {
    if (job->stays_in != passes_) preempt_job(seen, *job, decisions);
  }
  start_jobs(seen, selected, decisions);
}

void RankedPolicy::preempt_job(const Observation& seen, Track& job, DecisionList& decisions) {
  decisions.add(Assign{.job = job.id}, "makes room");
  free_gpus().return_gpus(seen.jobs[job.id].gpus);
  enter_queue(seen.jobs[job.id], seen.now);
  taken_off_at_ = seen.now;
}

void RankedPolicy::start_jobs(const Observation& seen, const Jobs& selected,
                              DecisionList& decisions) {
  std::set<std::uint32_t> closed;  // sizes that could not be placed: less and less is free
  for (Track* const job : selected) {
    if (job->running || closed.contains(job->gpus)) continue;
    const JobSpec& spec = seen.jobs[job->id].spec;
    std::optional<GpuRuns> gpus = place_job(spec);
    if (!gpus) {
      closed.insert(job->gpus);
      continue;
    }
    decisions.add(Assign{job->id, std::move(*gpus), spec.layout}, reason());
    run(seen.jobs[job->id], seen.now);
  }
}

}  // namespace orrery

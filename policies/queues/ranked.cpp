#include "policies/queues/ranked.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace orrery {
namespace {

/// Order of jobs; no two are equal.
constexpr auto goes_first = [](const auto& a, const auto& b) {
  if (a.key != b.key) return a.key > b.key;
  if (a.job->submit != b.job->submit) return a.job->submit < b.job->submit;
  if (a.job->running != b.job->running) return a.job->running;
  return a.job->id < b.job->id;
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
                     return each.job == middle.job;
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
  if (waiting().empty() || (!can_make_room() && free_gpus().total() == 0)) return;
  Jobs jobs = running();
  jobs.insert(jobs.end(), waiting().begin(), waiting().end());
  const Jobs selected = select_jobs(jobs, free_gpus().total() + running_gpus(), seen.now);
  ++passes_;
  for (Track* const job : selected) job->stays_in = passes_;
  jobs.resize(running().size());
  for (Track* const job : jobs) {
    if (job->stays_in != passes_) preempt_job(seen, *job, decisions);
  }
  start_jobs(seen, selected, decisions);
}

void RankedPolicy::start_jobs(const Observation& seen, const Jobs& selected,
                              DecisionList& decisions) {
  std::set<std::uint32_t> closed;  // sizes that could not be placed: less and less is free
  for (Track* const job : selected) {
    if (job->running || closed.contains(job->gpus)) continue;
    std::optional<GpuRuns> gpus = place_job(seen.jobs[job->id].spec);
    if (!gpus) {
      closed.insert(job->gpus);
      continue;
    }
    start_job(seen, *job, std::move(*gpus), reason(), decisions);
  }
}

}  // namespace orrery

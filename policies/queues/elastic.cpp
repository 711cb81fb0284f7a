#include "policies/queues/elastic.hpp"

#include <algorithm>
#include <utility>

#include "policies/parameters.pb.h"
#include "policies/queues/granted_gpus.hpp"
#include "policies/seam/byte_archive.hpp"

namespace orrery {
namespace {

/// Returns the first `count` GPUs of a list that has as many.
GpuRuns first_gpus(const GpuRuns& gpus, std::uint32_t count) {
  GpuRuns first;
  for (const GpuRuns::Run& run : gpus.runs()) {
    const std::uint32_t here = std::min(run.count, count);
    first.append_run({run.first, here});
    count -= here;
  }
  return first;
}

/// Returns the GPUs of a list behind the first `count`.
GpuRuns later_gpus(const GpuRuns& gpus, std::uint32_t count) {
  GpuRuns later;
  for (const GpuRuns::Run& run : gpus.runs()) {
    const std::uint32_t skipped = std::min(run.count, count);
    later.append_run({run.first + skipped, run.count - skipped});
    count -= skipped;
  }
  return later;
}

}  // namespace

Needs ElasticPolicy::needs() const {
  return {.actions = Kinds<Action>::of<Assign>(), .settings = {}};
}

void ElasticPolicy::start(Context& context, const Cluster& cluster,
                          const google::protobuf::Message* parameters) {
  QueuePolicy::start(context, cluster, parameters);
  settle_ = dynamic_cast<const ElasticParameters&>(*parameters).settle();
}

void ElasticPolicy::save(Archive& archive) const {
  ByteWriter write(archive);
  write(static_cast<std::uint64_t>(changed_.size()));
  for (const auto& [job, at] : changed_) write(job.value, at);
  write(static_cast<std::uint64_t>(waiting_.size()), static_cast<std::uint64_t>(running_.size()));
}

void ElasticPolicy::load(const Archive& archive) {
  ByteReader read(archive);
  std::uint64_t count = 0;
  read(count);
  for (changed_.clear(); count > 0; --count) {
    JobId job;
    Nanos at = 0;
    read(job.value, at);
    changed_[job] = at;
  }
  QueuePolicy::load(archive);
}

// ---- who waits and who runs -----------------------------------------------------------------

ElasticPolicy::Running ElasticPolicy::limits_of(const JobSpec& spec) {
  if (spec.is_training()) return {.least = spec.gpus, .asked = spec.gpus, .most = spec.gpus};
  return {.least = spec.least(), .asked = spec.gpus, .most = spec.most()};
}

void ElasticPolicy::enter_queue(const JobInfo& job, Nanos) {
  running_.erase(job.spec.id);
  changed_.erase(job.spec.id);
  waiting_.insert(job.spec.id);
}

void ElasticPolicy::run(const JobInfo& job, Nanos since) {
  waiting_.erase(job.spec.id);
  Running running = limits_of(job.spec);
  if (!running.is_elastic()) return;
  running.started = job.is_placed() ? job.started : since;
  running.gpus = granted_gpus(job);
  running_[job.spec.id] = std::move(running);
  Nanos& changed = changed_.try_emplace(job.spec.id, since).first->second;
  changed = std::max(changed, since);
}

void ElasticPolicy::remove_job(const JobInfo& job) {
  waiting_.erase(job.spec.id);
  running_.erase(job.spec.id);
  changed_.erase(job.spec.id);
}

void ElasticPolicy::clear() {
  waiting_.clear();
  running_.clear();
}

std::vector<ElasticPolicy::Started> ElasticPolicy::by_start() {
  std::vector<Started> jobs;
  jobs.reserve(running_.size());
  for (auto& [id, running] : running_) jobs.push_back({running.started, id, &running});
  std::stable_sort(jobs.begin(), jobs.end(),
                   [](const Started& a, const Started& b) { return a.at < b.at; });
  return jobs;
}

// ---- a pass ---------------------------------------------------------------------------------

void ElasticPolicy::dispatch_jobs(const Observation& seen, DecisionList& decisions) {
  next_growth_ = kNever;
  while (!waiting_.empty()) {
    const JobId first = *waiting_.begin();
    if (!place_waiting(seen.jobs[first].spec, seen.now)) break;
    waiting_.erase(first);
    if (running_.at(first).is_elastic()) changed_[first] = seen.now;
  }
  if (waiting_.empty()) grow_jobs(seen);
  decide_changes(seen, decisions);
  std::erase_if(running_, [](const auto& each) { return !each.second.is_elastic(); });
  for (auto& [id, running] : running_) running.has_shrunk = false;
  if (next_growth_ < kNever) decisions.wake(next_growth_);
}

std::optional<GpuRuns> ElasticPolicy::place_gpus(const JobSpec& spec, std::uint32_t gpus) {
  if (gpus == spec.gpus) return place_job(spec);
  JobSpec sized = spec;
  sized.gpus = gpus;
  return place_job(sized);
}

bool ElasticPolicy::place_on_free(const JobSpec& spec, Running& job) {
  const std::uint32_t free = free_gpus().total();
  if (free < job.least) return false;
  std::optional<GpuRuns> gpus = place_gpus(spec, std::min(job.asked, free));
  if (!gpus && job.least < std::min(job.asked, free)) gpus = place_gpus(spec, job.least);
  if (gpus) job.gpus = std::move(*gpus);
  return gpus.has_value();
}

bool ElasticPolicy::place_waiting(const JobSpec& spec, Nanos now) {
  Running job = limits_of(spec);
  job.started = now;
  bool placed = place_on_free(spec, job);
  std::vector<Started> jobs;
  if (!placed) {
    std::uint64_t enough = free_gpus().total();
    for (const auto& [id, running] : running_) enough += running.surplus();
    if (enough < job.least) return false;
    jobs = by_start();
  }
  for (; !placed && !jobs.empty(); jobs.pop_back()) {
    Running& last = *jobs.back().running;
    if (last.surplus() == 0) continue;
    const std::uint32_t free = free_gpus().total();
    const std::uint32_t missing = free < job.least ? job.least - free : last.surplus();
    shrink_job(last, std::min(missing, last.surplus()));
    placed = place_on_free(spec, job);
  }
  if (placed) running_[spec.id] = std::move(job);
  return placed;
}

void ElasticPolicy::shrink_job(Running& job, std::uint32_t gpus) {
  const std::uint32_t left = job.size() - gpus;
  free_gpus().return_gpus(later_gpus(job.gpus, left));
  job.gpus = first_gpus(job.gpus, left);
  job.has_shrunk = true;
}

void ElasticPolicy::grow_jobs(const Observation& seen) {
  const std::vector<Started> jobs = by_start();
  for (const bool beyond : {false, true}) {
    for (const auto& [started, id, running] : jobs) {
      const std::uint32_t limit = beyond ? running->most : running->asked;
      std::uint32_t more = limit - std::min(limit, running->size());
      more = std::min(more, free_gpus().total());
      if (more == 0 || running->has_shrunk || seen.now < changed_.at(id) + settle_) continue;
      std::optional<GpuRuns> gpus = place_gpus(seen.jobs[id].spec, more);
      while (!gpus && (more /= 2) > 0) gpus = place_gpus(seen.jobs[id].spec, more);
      if (!gpus) continue;
      for (const GpuRuns::Run& run : gpus->runs()) running->gpus.append_run(run);
    }
  }
  if (free_gpus().total() == 0) return;
  for (const auto& [started, id, running] : jobs) {
    if (running->size() >= running->most) continue;
    const Nanos from = changed_.at(id) + settle_;
    if (from > seen.now) next_growth_ = std::min(next_growth_, from);
  }
}

void ElasticPolicy::decide_changes(const Observation& seen, DecisionList& decisions) const {
  for (const bool shrinks : {true, false}) {
    for (const auto& [id, running] : running_) {
      const JobInfo& job = seen.jobs[id];
      const bool starts = granted_gpus(job).empty();
      if (running.gpus == granted_gpus(job) || (running.has_shrunk && !starts) != shrinks) continue;
      ParallelLayout layout = job.spec.layout;
      if (!job.spec.is_training()) layout.data = running.size();
      const char* const why = starts ? "next in line" : shrinks ? "makes room" : "uses free GPUs";
      decisions.add(Assign{id, running.gpus, layout}, why);
    }
  }
}

}  // namespace orrery

#include "live/slurm/cluster_import.hpp"

#include <algorithm>
#include <sstream>

namespace orrery::live {
namespace {

TraceJob trace_job(const SlurmJob& job) {
  TraceJob out;
  out.id = job.id;
  out.gpus = job.nodes * job.gpus_per_node;
  out.duration_s = out.requested_s = static_cast<double>(job.limit_s);
  out.pool = job.partition;
  out.user = job.user;
  return out;
}

}  // namespace

std::string topology_conf(const std::string& answer) {
  std::istringstream lines(answer);
  std::string out;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("SwitchName=") && !line.starts_with("BlockName=")) continue;
    const bool is_above = line.find(" Switches=") != std::string::npos;
    std::istringstream words(line);
    std::string kept;
    for (std::string word; words >> word;) {
      const bool repeats = is_above && word.starts_with("Nodes=");
      if (repeats || word.starts_with("Level=") || word.starts_with("BlockIndex=")) continue;
      kept += (kept.empty() ? "" : " ") + word;
    }
    out += kept + "\n";
  }
  return out;
}

QueuedJobs queued_jobs(std::vector<SlurmJob> all, const std::set<std::string>& partitions) {
  std::stable_sort(all.begin(), all.end(), [](const SlurmJob& a, const SlurmJob& b) {
    const bool a_waits = a.phase == SlurmPhase::pending, b_waits = b.phase == SlurmPhase::pending;
    return a_waits != b_waits ? b_waits : a.submit_s < b.submit_s;
  });
  QueuedJobs out;
  std::size_t without_limit = 0, without_gpus = 0, elsewhere = 0, stuck = 0;
  for (const SlurmJob& job : all) {
    if (job.phase == SlurmPhase::ended) continue;
    if (!partitions.empty() && partitions.count(job.partition) == 0) {
      ++elsewhere;
    } else if (job.gpus_per_node == 0) {
      ++without_gpus;
    } else if (job.limit_s == 0) {
      ++without_limit;
    } else if (job.is_held || job.has_unmet_dependency() || job.has_bad_constraints()) {
      ++stuck;
    } else {
      out.jobs.push_back(trace_job(job));
    }
  }
  if (!out.jobs.empty()) {
    out.assumed.emplace_back("each job lasts for its time limit from now on, also if it runs");
  }
  add_count(out.ignored, elsewhere, "jobs of other partitions");
  add_count(out.ignored, without_gpus, "jobs without GPUs");
  add_count(out.ignored, without_limit, "jobs without a time limit");
  add_count(out.ignored, stuck, "jobs that are held, wait for another job, or fit nowhere");
  return out;
}

}  // namespace orrery::live

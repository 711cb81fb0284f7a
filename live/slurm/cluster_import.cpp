#include "live/slurm/cluster_import.hpp"

#include <algorithm>
#include <iterator>
#include <sstream>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "topologies/builder.hpp"
#include "traces/workload/framework.hpp"

namespace orrery::live {
namespace {

std::set<std::string> words_of(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char each) { return each == '_' || each == '-'; }, ' ');
  std::istringstream words(lower_case(text));
  return {std::istream_iterator<std::string>(words), {}};
}

/// Returns the GPU of the catalogue that a type such as "nvidia_a100-sxm4-80gb" names, the most
/// exact one: all words of its name are in the type. Empty: none.
std::string gpu_of(const std::string& type) {
  const std::set<std::string> words = words_of(type);
  std::string found;
  std::size_t most = 0;
  for (const std::string& name : gpu_names()) {
    const std::set<std::string> own = words_of(name);
    if (own.size() <= most || !std::includes(words.begin(), words.end(), own.begin(), own.end())) {
      continue;
    }
    found = name;
    most = own.size();
  }
  return found;
}

void add_count(std::vector<std::string>& notes, std::size_t count, const char* text) {
  if (count > 0) notes.push_back(fmt::format("{} {}", count, text));
}

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

ClusterFacts node_facts(const std::vector<SlurmNode>& all, const NodeMap& nodes) {
  ClusterFacts facts;
  facts.nodes = nodes.nodes();
  facts.gpus_per_node = nodes.gpus_per_node();
  std::set<std::string> types, gpus;
  std::size_t smaller = 0, lost = 0;
  for (const SlurmNode& node : all) {
    if (!nodes.find(node.name)) continue;
    smaller += node.gpus < nodes.gpus_per_node();
    lost += !node.is_usable;
    if (node.gpu_type.empty()) continue;
    types.insert(node.gpu_type);
    const std::string gpu = gpu_of(node.gpu_type);
    if (!gpu.empty()) gpus.insert(gpu);
  }
  if (gpus.size() == 1) facts.gpu = *gpus.begin();
  facts.read.push_back(
      fmt::format("Slurm: {} nodes, at most {} GPUs each{}", facts.nodes, facts.gpus_per_node,
                  types.empty() ? "" : fmt::format(" ({})", fmt::join(types, ", "))));
  if (gpus.size() > 1) {
    facts.assumed.push_back(
        fmt::format("one kind of GPU, where nodes have {}", fmt::join(gpus, " and ")));
  }
  add_count(facts.assumed, smaller, "nodes with fewer GPUs as whole ones");
  add_count(facts.assumed, lost, "nodes that are down, drained or silent as working ones");
  return facts;
}

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
    } else if (job.is_held || job.has_unmet_dependency || job.has_bad_constraints()) {
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

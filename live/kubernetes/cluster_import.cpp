#include "live/kubernetes/cluster_import.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include <fmt/format.h>

namespace orrery::live {
namespace {

bool is_placed(const KubeGang& gang) {
  return gang.state == GangState::placing || gang.state == GangState::placed;
}

TraceJob trace_job(const KubeGang& gang) {
  TraceJob job;
  job.id = gang.id;
  job.gpus = gang.pods * gang.gpus_per_pod;
  job.duration_s = gang.limit_s;
  job.requested_s = gang.limit_s;
  job.pool = gang.queue;
  job.user = gang.id.substr(0, gang.id.find('/'));
  return job;
}

}  // namespace

ClusterFacts rack_facts(const std::vector<KubeNode>& nodes) {
  const std::vector<QueueNode> all(nodes.begin(), nodes.end());
  ClusterFacts facts = node_facts("Kubernetes", all, NodeMap(all));
  std::map<std::string, std::uint32_t> racks;
  for (const KubeNode& node : nodes) ++racks[node.rack];
  if (racks.size() < 2) return facts;
  const auto [least, most] = std::minmax_element(
      racks.begin(), racks.end(),
      [](const auto& a, const auto& b) { return a.second < b.second; });
  facts.nodes_per_leaf = most->second;
  facts.read.push_back(
      fmt::format("Kubernetes: {} racks, at most {} nodes each", racks.size(), most->second));
  if (least->second < most->second) {
    facts.assumed.push_back(fmt::format("racks of {} nodes, where the smallest has {}",
                                        most->second, least->second));
  }
  const auto unnamed = racks.find("");
  if (unnamed != racks.end()) {
    add_count(facts.assumed, unnamed->second, "nodes without the label of a rack as one rack");
  }
  return facts;
}

QueuedJobs queued_gangs(std::vector<KubeGang> gangs) {
  std::stable_sort(gangs.begin(), gangs.end(), [](const KubeGang& a, const KubeGang& b) {
    return is_placed(a) != is_placed(b) ? is_placed(a) : a.submitted_s < b.submitted_s;
  });
  QueuedJobs out;
  std::size_t unmanaged = 0, without_limit = 0, incomplete = 0, over = 0;
  for (const KubeGang& gang : gangs) {
    if (!gang.is_managed) {
      ++unmanaged;
    } else if (gang.state == GangState::incomplete) {
      ++incomplete;
    } else if (!is_placed(gang) && gang.state != GangState::waiting) {
      ++over;
    } else if (gang.limit_s == 0) {
      ++without_limit;
    } else {
      out.jobs.push_back(trace_job(gang));
    }
  }
  if (!out.jobs.empty()) {
    out.assumed.emplace_back("each gang lasts for its time limit from now on, also if it runs");
  }
  add_count(out.ignored, unmanaged,
            "gangs or pods that no scheduling gate, gang or Workload hands to orrery");
  add_count(out.ignored, incomplete, "gangs whose pods are not all there");
  add_count(out.ignored, over, "gangs that are over or leave");
  add_count(out.ignored, without_limit,
            "gangs without a time limit (annotation orrery.io/time-limit-seconds, or "
            "activeDeadlineSeconds)");
  return out;
}

}  // namespace orrery::live

// Queue by priority: a job gets all its GPUs at once, close together, or waits. A job preempts jobs
// of lower priority: these leave and the job starts in one group of decisions, which is applied as
// a whole or not at all. gang_scheduler.py makes the same decisions.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "policies/seam/policy.hpp"

namespace orrery::example {

/// Queue policy with gangs and priorities. One thread.
class GangScheduler : public Policy {
 public:
  /// `pools`: priority of each pool, which is added to the job's own. `preempts`: jobs of higher
  /// priority preempt others.
  explicit GangScheduler(std::map<std::string, int> pools = {}, bool preempts = true)
      : pools_(std::move(pools)), preempts_(preempts) {}

  Needs needs() const override { return {.actions = Kinds<Action>::of<Assign>(), .settings = {}}; }
  void start(Context&, const Cluster&, const google::protobuf::Message*) override {}

  void observe(Context&, const Observation& seen, DecisionList& decisions) override {
    const bool news = std::any_of(seen.events.begin(), seen.events.end(), [](const Event& event) {
      return !std::holds_alternative<StepsDone>(event) && !std::holds_alternative<Tick>(event);
    });
    if (news) schedule(seen, decisions);
    decisions.rest();
  }

 private:
  using Gpus = std::set<GpuId>;
  using Queue = std::deque<const JobInfo*>;

  int priority(const JobInfo& job) const {
    const auto pool = pools_.find(job.spec.pool);
    return job.spec.priority + (pool == pools_.end() ? 0 : pool->second);
  }

  void schedule(const Observation& seen, DecisionList& decisions) const {
    Gpus free = free_gpus(seen);
    Queue waiting, running;
    for (const JobInfo& job : seen.jobs) {
      if (job.phase == JobPhase::waiting) waiting.push_back(&job);
      if (job.phase == JobPhase::running && !job.next) running.push_back(&job);
    }
    std::stable_sort(running.begin(), running.end(), [this](const JobInfo* a, const JobInfo* b) {
      return std::tuple(priority(*a), -a->started) < std::tuple(priority(*b), -b->started);
    });
    std::stable_sort(waiting.begin(), waiting.end(), [this](const JobInfo* a, const JobInfo* b) {
      return priority(*a) > priority(*b);
    });
    for (const JobInfo* job : waiting) {
      const Queue leaving = room_for(*job, free.size(), running);
      std::size_t room = free.size();
      for (const JobInfo* victim : leaving) room += victim->gpus.size();
      if (room < job->spec.gpus) return;  // the head of the queue waits, no job overtakes it
      place_job(seen.cluster, *job, leaving, free, decisions);
    }
  }

  static Gpus free_gpus(const Observation& seen) {
    Gpus free;
    for (std::uint32_t gpu = 0; gpu < seen.cluster.gpus(); ++gpu) {
      const bool nobodys = seen.state.owner[gpu] == ClusterState::kNobody;
      if (nobodys && seen.state.is_healthy({gpu}, seen.cluster.node_of({gpu}))) free.insert({gpu});
    }
    return free;
  }

  /// Returns the jobs that must leave so that `job` fits, lowest priority and newest first, and
  /// removes these jobs from `running`.
  Queue room_for(const JobInfo& job, std::size_t room, Queue& running) const {
    Queue leaving;
    while (preempts_ && room < job.spec.gpus && !running.empty() &&
           priority(*running.front()) < priority(job)) {
      leaving.push_back(running.front());
      running.pop_front();
      room += leaving.back()->gpus.size();
    }
    return leaving;
  }

  static void place_job(const Cluster& cluster, const JobInfo& job, const Queue& leaving,
                        Gpus& free, DecisionList& decisions) {
    const std::uint32_t group = decisions.new_group();
    for (const JobInfo* victim : leaving) {
      free.insert(victim->gpus.begin(), victim->gpus.end());
      std::string why = fmt::format("makes room for job {}", job.spec.id.value);
      decisions.add(Assign{victim->spec.id}, std::move(why)).group = group;
    }
    const GpuRuns gpus = nearest_gpus(cluster, job.spec.gpus, free);
    for (const GpuId gpu : gpus) free.erase(gpu);
    decisions.add(Assign{job.spec.id, gpus, job.spec.layout},
                  fmt::format("{} GPUs at once", gpus.size()))
        .group = group;
  }

  /// Returns `count` of the free GPUs: from the scalable unit with the fewest sufficient free GPUs,
  /// node by node; from several units if none is sufficient.
  static GpuRuns nearest_gpus(const Cluster& cluster, std::size_t count, const Gpus& free) {
    std::map<NodeId, std::vector<GpuId>> by_node;
    std::map<std::uint32_t, std::size_t> by_unit;
    for (const GpuId gpu : free) {
      const NodeId node = cluster.node_of(gpu);
      by_node[node].push_back(gpu);
      ++by_unit[cluster.unit_of(node)];
    }
    std::erase_if(by_unit, [count](const auto& unit) { return unit.second < count; });
    if (!by_unit.empty()) {
      const auto fullest = std::min_element(
          by_unit.begin(), by_unit.end(),
          [](const auto& a, const auto& b) { return a.second < b.second; });
      std::erase_if(by_node, [&](const auto& node) {
        return cluster.unit_of(node.first) != fullest->first;
      });
    }
    std::vector<std::pair<NodeId, std::vector<GpuId>>> nodes(by_node.begin(), by_node.end());
    std::stable_sort(nodes.begin(), nodes.end(), [](const auto& a, const auto& b) {
      return a.second.size() > b.second.size();
    });
    GpuRuns gpus;
    for (const auto& [node, of_node] : nodes) {
      for (const GpuId gpu : of_node) {
        if (gpus.size() < count) gpus.push_back(gpu);
      }
    }
    return gpus;
  }

  std::map<std::string, int> pools_;
  bool preempts_;
};

}  // namespace orrery::example

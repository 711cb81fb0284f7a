// Oobleck in C++: a free GPU replaces each lost one, and the remaining ranks train on meanwhile.
// Decides as HotSpares of tests/python/outside_policies.py.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include <orrery/policy.hpp>

/// Policy that replaces lost ranks by ranks on free GPUs.
class HotSpares : public orrery::Policy {
 public:
  orrery::Needs needs() const override {
    return {.actions = orrery::Kinds<orrery::Action>::of<orrery::Assign>(), .settings = {}};
  }
  void start(orrery::Context&, const orrery::Cluster&, const google::protobuf::Message*) override {}

  void observe(orrery::Context&, const orrery::Observation& seen,
               orrery::DecisionList& decisions) override {
    for (const orrery::Event& event : seen.events) {
      const auto* lost = std::get_if<orrery::RanksLost>(&event);
      if (lost != nullptr) replace_ranks(seen, seen.jobs[lost->job], decisions);
    }
  }

 private:
  static void replace_ranks(const orrery::Observation& seen, const orrery::JobInfo& job,
                            orrery::DecisionList& decisions) {
    std::vector<orrery::GpuId> gpus;
    for (std::uint32_t rank = 0; rank < job.gpus.size(); ++rank) {
      if (!job.is_lost({rank})) gpus.push_back(job.gpus[rank]);
    }
    std::string spares;
    std::size_t missing = job.lost.size();
    for (std::uint32_t gpu = 0; gpu < seen.state.owner.size() && missing > 0; ++gpu) {
      const bool is_free = seen.state.owner[gpu] == orrery::ClusterState::kNobody &&
                           seen.state.is_healthy({gpu}, seen.cluster.node_of({gpu}));
      if (!is_free) continue;
      spares += (spares.empty() ? "" : ", ") + std::to_string(gpu);
      gpus.push_back({gpu});
      --missing;
    }
    std::sort(gpus.begin(), gpus.end());
    decisions.add(orrery::Assign{job.spec.id, gpus, job.layout, orrery::StateFrom::peer},
                  "GPUs [" + spares + "] replace " + std::to_string(job.lost.size()) + " ranks");
  }
};

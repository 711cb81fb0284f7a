// Cheapest recovery of lost ranks: a spare, the same GPU again, or a smaller job. The price of each
// way is the time in seconds by which it delays the end of the job. If a way is rejected, the
// policy tries the next way: it knows the ids of its decisions, and every decision gets an answer.
// cheapest_recovery.py makes the same decisions.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "policies/seam/policy.hpp"

namespace orrery::example {

/// Policy that recovers lost ranks in the cheapest way. One thread.
class CheapestRecovery : public Policy {
 public:
  /// `replacement_s`: seconds from the decision until a new rank has joined.
  explicit CheapestRecovery(double replacement_s) : replacement_s_(replacement_s) {}

  Needs needs() const override { return {.actions = Kinds<Action>::of<Assign>(), .settings = {}}; }
  void start(Context&, const Cluster&, const google::protobuf::Message*) override {}

  void observe(Context&, const Observation& seen, DecisionList& decisions) override {
    for (const Event& event : seen.events) {
      if (const auto* done = std::get_if<StepsDone>(&event)) {
        step_s_ = to_seconds(done->duration) / static_cast<double>(done->count);
      } else if (const auto* lost = std::get_if<RanksLost>(&event)) {
        const JobInfo& job = seen.jobs[lost->job];
        decide_recovery(job, ways(seen, job), decisions);
      } else if (const auto* told = std::get_if<Decided>(&event)) {
        const auto second = second_.extract(told->decision);
        if (second.empty() || told->status != Outcome::rejected) continue;
        if (second.mapped().empty()) continue;
        decide_recovery(seen.jobs[second.mapped().front().assign.job], second.mapped(), decisions);
      }
    }
    decisions.rest();
  }

  void save(Archive& archive) const override {
    archive = fmt::format("{}", step_s_);
    for (const auto& [decision, left] : second_) archive += fmt::format(" {}", decision);
  }

 private:
  /// Way to recover, with its price.
  struct Way {
    double loss_s = 0;
    std::string name;
    Assign assign;
  };
  using Ways = std::vector<Way>;

  /// Returns the possible ways, the cheapest first.
  Ways ways(const Observation& seen, const JobInfo& job) const {
    Ways found;
    const double redo = step_s_ / 2;
    const auto ranks = static_cast<double>(job.gpus.size());
    const auto lost = static_cast<double>(job.lost.size());
    const auto add = [&](double loss_s, const char* name, Standing where) {
      found.push_back({loss_s, name,
                       {job.spec.id, std::move(where.gpus), where.layout, StateFrom::peer}});
    };
    if (const GpuRuns gpus = with_spares(seen, job); !gpus.empty()) {
      add(redo + replacement_s_, "spare", {gpus, job.layout});
    }
    const bool well = std::all_of(job.lost.begin(), job.lost.end(),
                                  [&](RankId rank) { return is_well(seen, job.gpus[rank.value]); });
    // The other ranks do the work of the lost ranks meanwhile.
    if (well) add(redo + replacement_s_ * lost / ranks, "same GPU", {job.gpus, job.layout});
    const Standing fewer = without_lost(job);
    if (!fewer.gpus.empty() && fewer.gpus.size() >= job.spec.least()) {
      const double left_s = static_cast<double>(job.spec.steps - job.step) * step_s_;
      const double slower = left_s * (ranks / static_cast<double>(fewer.gpus.size()) - 1);
      add(redo + slower, "fewer", fewer);
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const Way& a, const Way& b) { return a.loss_s < b.loss_s; });
    return found;
  }

  /// Returns the job's GPUs with a free GPU in place of each lost rank's; empty if too few are
  /// free.
  static GpuRuns with_spares(const Observation& seen, const JobInfo& job) {
    std::vector<GpuId> gpus = job.gpus.to_vector();
    std::uint32_t next = 0;
    for (const RankId rank : job.lost) {
      while (next < seen.cluster.gpus() && !is_free(seen, {next})) ++next;
      if (next == seen.cluster.gpus()) return {};
      gpus[rank.value] = {next++};
    }
    return gpus;
  }
  /// Returns false if the GPU is lost or its removal is announced; a slower GPU is well.
  static bool is_well(const Observation& seen, GpuId gpu) {
    const auto part = seen.state.parts.find({PartKind::gpu, gpu.value});
    if (part == seen.state.parts.end()) return true;
    return part->second.health == Health::ok && !part->second.removal;
  }
  static bool is_free(const Observation& seen, GpuId gpu) {
    return seen.state.owner[gpu.value] == ClusterState::kNobody &&
           seen.state.is_healthy(gpu, seen.cluster.node_of(gpu));
  }

  void decide_recovery(const JobInfo& job, const Ways& ways, DecisionList& decisions) {
    if (ways.empty()) return;
    std::string why = fmt::format("{}: {:.2f} s lost", ways[0].name, ways[0].loss_s);
    for (std::size_t i = 1; i < ways.size(); ++i) {
      why += fmt::format("{}{} {:.2f} s", i == 1 ? " (" : "; ", ways[i].name, ways[i].loss_s);
    }
    if (ways.size() > 1) why += ")";
    Decision& decision = decisions.add(ways[0].assign, std::move(why));
    decision.if_epoch = job.epoch;
    second_[decision.id] = {ways.begin() + 1, ways.end()};
  }

  double replacement_s_;
  double step_s_ = 0;
  std::map<DecisionId, Ways> second_;  ///< remaining ways, the cheapest first
};

}  // namespace orrery::example

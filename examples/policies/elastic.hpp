// Elastic size of a job: a job that loses ranks continues with fewer replicas, and returns to its
// old size when its GPUs are healthy again. elastic.py makes the same decisions.
#pragma once

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "policies/seam/policy.hpp"

namespace orrery::example {

/// Policy that shrinks a job after a loss and grows it again. One thread.
class Elastic : public Policy {
 public:
  /// `back_after_s`: seconds from the loss to the request for the old size.
  explicit Elastic(double back_after_s) : back_after_(to_nanos(back_after_s)) {}

  Needs needs() const override { return {.actions = Kinds<Action>::of<Assign>(), .settings = {}}; }
  void start(Context&, const Cluster&, const google::protobuf::Message*) override {}

  void observe(Context&, const Observation& seen, DecisionList& decisions) override {
    for (const Event& event : seen.events) {
      if (const auto* lost = std::get_if<RanksLost>(&event)) {
        shrink_job(seen, seen.jobs[lost->job], decisions);
      } else if (const auto* done = std::get_if<JobDone>(&event)) {
        small_.erase(done->job);
      }
    }
    for (auto each = small_.begin(); each != small_.end();) {
      const auto here = each++;
      const JobInfo* job = seen.jobs.find(here->first);
      if (job == nullptr || seen.now < here->second.at) continue;
      if (grow_job(seen, *job, here->second, decisions)) small_.erase(here);
    }
    decisions.rest();
  }

  void save(Archive& archive) const override {
    archive.clear();
    for (const auto& [job, small] : small_) {
      archive += fmt::format("{} {}", job.value, small.at);
      for (const GpuId gpu : small.gpus) archive += fmt::format(" {}", gpu.value);
      archive += '\n';
    }
  }

 private:
  /// Job that has fewer ranks than before a loss.
  struct Small {
    Nanos at = 0;  ///< instant from which the job may grow
    GpuRuns gpus;  ///< GPUs of the old size
  };

  void shrink_job(const Observation& seen, const JobInfo& job, DecisionList& decisions) {
    const Standing where = without_lost(job);
    if (where.gpus.empty()) return;
    const Nanos at = seen.now + back_after_;
    small_.try_emplace(job.spec.id, Small{at, job.gpus}).first->second.at = at;
    decisions.add(Assign{job.spec.id, where.gpus, where.layout, StateFrom::peer},
                  fmt::format("{} replicas are left", where.layout.data));
    decisions.wake(at);
  }

  /// Returns false if the GPU is lost or its removal is announced; a slower GPU is well.
  static bool is_well(const Observation& seen, GpuId gpu) {
    const auto part = seen.state.parts.find({PartKind::gpu, gpu.value});
    if (part == seen.state.parts.end()) return true;
    return part->second.health == Health::ok && !part->second.removal;
  }

  /// Requests the old size if the job runs and its GPUs are healthy; otherwise sets the next
  /// attempt. Returns true if the old size was requested.
  bool grow_job(const Observation& seen, const JobInfo& job, Small& small,
                DecisionList& decisions) {
    const bool ready = job.phase == JobPhase::running && !job.next && job.lost.empty();
    const bool well = std::all_of(small.gpus.begin(), small.gpus.end(),
                                  [&seen](GpuId gpu) { return is_well(seen, gpu); });
    if (!ready || !well) {
      small.at = seen.now + back_after_;
      decisions.wake(small.at);
      return false;
    }
    Decision& decision =
        decisions.add(Assign{job.spec.id, small.gpus, job.spec.layout, StateFrom::peer},
                      "its GPUs are well again");
    decision.at_step = job.step + 1;
    decision.if_epoch = job.epoch;
    return true;
  }

  Nanos back_after_;
  std::map<JobId, Small> small_;
};

}  // namespace orrery::example

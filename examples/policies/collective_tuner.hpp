// Fastest algorithm for the all-reduce of gradients, found by a trial of some steps with each.
// collective_tuner.py makes the same decisions.
#pragma once

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "policies/seam/policy.hpp"

namespace orrery::example {

/// Policy that tries each algorithm for some steps and keeps the fastest. One thread.
class CollectiveTuner : public Policy {
 public:
  /// `algorithms`: algorithms to try. `steps`: steps of each trial.
  explicit CollectiveTuner(std::vector<CollectiveAlgorithm> algorithms, std::size_t steps = 4)
      : algorithms_(std::move(algorithms)), steps_(steps) {}

  Needs needs() const override {
    return {.actions = Kinds<Action>::of<Configure>(),
            .settings = Kinds<Setting>::of<CollectiveTable>()};
  }
  void start(Context&, const Cluster&, const google::protobuf::Message*) override {}

  void observe(Context&, const Observation& seen, DecisionList& decisions) override {
    for (const Event& event : seen.events) {
      if (const auto* done = std::get_if<StepsDone>(&event)) {
        measure_job(seen, seen.jobs[done->job], decisions);
      } else if (const auto* started = std::get_if<JobStarted>(&event)) {
        measure_job(seen, seen.jobs[started->job], decisions);
      } else if (const auto* told = std::get_if<Decided>(&event)) {
        record_outcome(seen, *told, decisions);
      } else if (const auto* over = std::get_if<JobDone>(&event)) {
        tried_.erase(over->job);
      }
    }
  }

  void save(Archive& archive) const override {
    archive.clear();
    for (const auto& [job, tried] : tried_) {
      archive += fmt::format("{} {} {}\n", job.value, static_cast<int>(tried.asked), tried.settled);
      for (const auto& [algorithm, seconds] : tried.heard) {
        const double sum = std::accumulate(seconds.begin(), seconds.end(), 0.0);
        archive += fmt::format("{} {} {}\n", static_cast<int>(algorithm), seconds.size(), sum);
      }
    }
  }

 private:
  static constexpr double kNotHere = std::numeric_limits<double>::infinity();

  /// Trials of one job.
  struct Tried {
    /// Seconds of each step that computation did not hide; kNotHere: the algorithm was rejected.
    std::map<CollectiveAlgorithm, std::vector<double>> heard;
    /// Newest request; automatic: none yet.
    CollectiveAlgorithm asked = CollectiveAlgorithm::automatic;
    bool settled = false;
  };

  void record_outcome(const Observation& seen, const Decided& told, DecisionList& decisions) {
    const auto question = open_.extract(told.decision);
    if (question.empty() || told.status != Outcome::rejected) return;
    const JobInfo* job = seen.jobs.find(question.mapped().first);
    if (job == nullptr) return;
    tried_[job->spec.id].heard[question.mapped().second] = {kNotHere};
    measure_job(seen, *job, decisions);
  }

  void measure_job(const Observation& seen, const JobInfo& job, DecisionList& decisions) {
    Tried& tried = tried_[job.spec.id];
    for (const CollectiveSample& sample : seen.samples.collectives(job.spec.id)) {
      // The sample names the algorithm of its step, after which the table may have changed.
      if (sample.kind != CollectiveKind::all_reduce || sample.step + 1 != job.step) continue;
      tried.heard[sample.algorithm].push_back(sample.exposed);
    }
    if (tried.settled || job.phase != JobPhase::running) return;
    const bool asked = tried.asked != CollectiveAlgorithm::automatic;
    if (asked && tried.heard[tried.asked].size() < steps_ &&
        std::ranges::count(tried.heard[tried.asked], kNotHere) == 0) {
      return;
    }
    const auto next = std::ranges::find_if(algorithms_, [&tried](CollectiveAlgorithm each) {
      return !tried.heard.contains(each);
    });
    if (next != algorithms_.end()) return use_algorithm(job, *next, "not tried yet", decisions);
    tried.settled = true;
    choose_fastest(job, tried, decisions);
  }

  void choose_fastest(const JobInfo& job, const Tried& tried, DecisionList& decisions) {
    std::string why = "ms that were not hidden:";
    CollectiveAlgorithm best = algorithms_.front();
    const auto mean = [&tried](CollectiveAlgorithm each) {
      const std::vector<double>& seconds = tried.heard.at(each);
      return std::accumulate(seconds.begin(), seconds.end(), 0.0) /
             static_cast<double>(seconds.size());
    };
    for (const CollectiveAlgorithm each : algorithms_) {
      why += fmt::format(" {:.2f}", 1e3 * mean(each));
      if (mean(each) < mean(best)) best = each;
    }
    use_algorithm(job, best, std::move(why), decisions);
  }

  void use_algorithm(const JobInfo& job, CollectiveAlgorithm algorithm, std::string why,
           DecisionList& decisions) {
    tried_[job.spec.id].asked = algorithm;
    const CollectiveTable table{{.kind = CollectiveKind::all_reduce, .algorithm = algorithm}};
    Decision& decision = decisions.add(Configure{job.spec.id, table}, std::move(why));
    decision.at_step = job.step + 1;
    open_[decision.id] = {job.spec.id, algorithm};
  }

  std::vector<CollectiveAlgorithm> algorithms_;
  std::size_t steps_;
  std::map<JobId, Tried> tried_;
  std::map<DecisionId, std::pair<JobId, CollectiveAlgorithm>> open_;
};

}  // namespace orrery::example

// A policy that places jobs, and the world it does it in, one batch of events at a time.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "policies/registry.hpp"

namespace orrery {

class QueueHarness {
 public:
  QueueHarness(const std::string& policy, std::uint32_t nodes, std::uint32_t size)
      : replay_(make(policy, nodes, size)), cluster_(cluster_of(replay_)), world_(cluster_) {
    restart();
  }

  void submit(std::uint32_t gpus, Nanos duration) {
    JobSpec job;
    job.id = {static_cast<std::uint32_t>(world_.jobs().size())};
    job.gpus = job.data = gpus;
    job.duration = duration;
    happen(JobSubmitted{.job = job});
  }
  void end(std::uint32_t job) { happen(JobDone{{job}}); }

  /// Asks the policy; its decisions come true unless `reject`. The jobs it started, in order.
  std::vector<std::uint32_t> ask(bool reject = false) {
    DecisionList decisions;
    Context context{rng_, {kJobs, ~0u}};
    policy_->observe(context,
                     Observation{.now = 0, .epoch = {}, .sequence = 0, .events = events_,
                                 .devices = {}, .links = {}, .ranks = {}, .collectives = {},
                                 .cluster = cluster_, .state = world_.state(),
                                 .jobs = world_.jobs()},
                     decisions);
    events_.clear();
    std::vector<std::uint32_t> started;
    for (Decision& decision : decisions.items()) {
      decision.number = number_++;
      started.push_back(std::get<PlaceJob>(decision.what).job.value);
      world_.announce(decision);
      happen(DecisionOutcome{.decision = decision.number,
                             .status = reject ? Outcome::rejected : Outcome::applied,
                             .reason = ""});
    }
    return started;
  }

  Archive saved() const {
    Archive archive;
    policy_->save(archive);
    return archive;
  }
  /// A fresh policy, with the state of the old one if `archive` is given.
  void restart(const Archive* archive = nullptr) {
    policy_ = make_stack(replay_);
    Context context{rng_, {kJobs, ~0u}};
    policy_->start(context, cluster_, nullptr);
    if (archive != nullptr) policy_->load(*archive);
  }

 private:
  static JobReplay make(const std::string& policy, std::uint32_t nodes, std::uint32_t size) {
    JobReplay replay;
    replay.set_nodes(nodes);
    replay.set_gpus_per_node(size);
    replay.set_policy(policy);
    replay.set_placement("consolidated");
    return replay;
  }
  void happen(Event event) {
    world_.apply(event);
    events_.push_back(std::move(event));
  }

  JobReplay replay_;
  Cluster cluster_;
  World world_;
  Rng rng_{1};
  std::unique_ptr<PolicyStack> policy_;
  std::vector<Event> events_;
  std::uint64_t number_ = 0;
};

using Started = std::vector<std::uint32_t>;

}  // namespace orrery

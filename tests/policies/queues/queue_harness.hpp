// A policy that places jobs, and the world it does it in, one batch of events at a time.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "policies/run/registry.hpp"
#include "policies/seam/gate.hpp"

namespace orrery {

/// World in which a queue policy places jobs.
class QueueHarness : private Carrier {
 public:
  /// `kinds`: kind of the GPUs of each node; empty: one kind.
  QueueHarness(const std::string& policy, std::uint32_t nodes, std::uint32_t size,
               const std::vector<std::string>& changes = {},
               const std::vector<std::string>& kinds = {})
      : replay_(make_replay(policy, nodes, size, changes, kinds)),
        cluster_(cluster_of(replay_)),
        world_(cluster_) {
    restart_policy();
  }

  void submit_job(std::uint32_t gpus, Nanos duration) {
    JobSpec job;
    job.id = {world_.jobs().submitted()};
    job.gpus = job.layout.data = gpus;
    job.estimate = duration;
    emit_event(JobSubmitted{.job = job});
  }
  /// Submits a job with the names of `owner`: user, virtual cluster and QOS.
  void submit_owned(std::uint32_t gpus, Nanos duration, const JobSpec& owner) {
    JobSpec job = owner;
    job.id = {world_.jobs().submitted()};
    job.gpus = job.layout.data = gpus;
    job.estimate = duration;
    job.submit = now_;
    emit_event(JobSubmitted{.job = job});
  }
  /// Sets the instant of the next calls.
  void set_time(Nanos now) { now_ = now; }
  /// Lets starts take time from now on: the jobs of decisions have no GPUs yet.
  void delay_starts() { delays_starts_ = true; }
  void end(std::uint32_t job) { emit_event(JobDone{{job}}); }

  /// Asks the policy; its decisions come true unless `reject`. The jobs that it wants started, in
  /// order.
  std::vector<std::uint32_t> ask_policy(bool reject = false) {
    decisions_.clear();
    rejects_ = reject;
    const std::vector<Event> events = std::exchange(events_, {});
    Context context{rng_, kAll};
    policy_->observe(context,
                     Observation{.now = now_,
                                 .sequence = 0,
                                 .events = events,
                                 .cluster = cluster_,
                                 .state = world_.state(),
                                 .jobs = world_.jobs(),
                                 .samples = samples_},
                     decisions_);
    world_.begin_batch();
    gate_.accept_decisions(decisions_, now_);
    std::vector<std::uint32_t> wanted;
    for (const Decision& each : decisions_.items()) wanted.push_back(job_of(each.what).value);
    return wanted;
  }
  const World& world() const { return world_; }
  /// Instants at which the newest call wants to be called again.
  const std::vector<Nanos>& wake_times() const { return decisions_.wake_times(); }

  Archive saved() const {
    Archive archive;
    policy_->save(archive);
    return archive;
  }
  /// A fresh policy, with the state of the old one if `archive` is given.
  void restart_policy(const Archive* archive = nullptr) {
    policy_ = make_stack(replay_);
    Context context{rng_, kAll};
    policy_->start(context, cluster_, nullptr);
    if (archive != nullptr) policy_->load(*archive);
  }

 private:
  static JobReplay make_replay(const std::string& policy, std::uint32_t nodes, std::uint32_t size,
                               const std::vector<std::string>& changes,
                               const std::vector<std::string>& kinds) {
    JobReplay replay;
    for (const std::string& each : kinds) {
      NodeKind& kind = *replay.add_node_kinds();
      kind.set_kind(each);
      kind.set_nodes(1);
    }
    for (const std::string& each : changes) replay.add_set(each);
    replay.set_nodes(nodes);
    replay.set_gpus_per_node(size);
    replay.set_policy(policy);
    replay.set_placement("consolidated");
    return replay;
  }
  std::string refusal(const Decision&) const override { return rejects_ ? "not now" : ""; }
  bool is_step_open(JobId) const override { return false; }
  void emit_event(Event event) override {
    world_.apply(event, now_);
    events_.push_back(std::move(event));
  }
  void carry_out(const Decision& decision) override {
    const auto& assign = std::get<Assign>(decision.what);
    if (assign.is_release()) return emit_event(JobStopped{assign.job, 0});
    if (delays_starts_) return;
    const Epoch epoch{world_.jobs()[assign.job].epoch.value + 1};
    emit_event(
        JobStarted{.job = assign.job, .epoch = epoch, .where = {assign.gpus, assign.layout}});
  }

  static constexpr Capabilities kAll{Kinds<Action>::all(), Kinds<Setting>::all()};
  JobReplay replay_;
  Cluster cluster_;
  World world_;
  Rng rng_{1};
  std::unique_ptr<PolicyStack> policy_;
  NoSamples samples_;
  DecisionGate gate_{world_, kAll, *this};
  DecisionList decisions_;
  std::vector<Event> events_;
  bool rejects_ = false, delays_starts_ = false;
  Nanos now_ = 0;
};

using Started = std::vector<std::uint32_t>;

}  // namespace orrery

// Smallest backend with all conditions of decisions: steps, ticks, losses, starts and stops with
// durations, checkpoints, and ranks that must agree, or need not. Steps take a second. For the
// tests of the gate and of decorators.
#pragma once

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "policies/seam/backend.hpp"
#include "policies/seam/gate.hpp"
#include "policies/seam/job_lifecycle.hpp"
#include "tests/policies/toy.hpp"

namespace orrery::test {

/// Faults of one instant.
struct ModelFaults {
  std::vector<RankId> ranks;       ///< ranks that are lost, if they work
  std::vector<PartChanged> parts;  ///< parts that are lost or return; ranks on lost ones are lost
};

/// Options of the model.
struct ModelOptions {
  bool agreement = false;
  Nanos agree_after = 0;  ///< delay of the ranks' answers
  Nanos start_after = 0, stop_after = 0;
  std::map<Step, ModelFaults> losses;  ///< in the middle of that step, the first time
  /// half a millisecond after those of the step: before any assignment that follows is active
  std::map<Step, ModelFaults> second_losses;
  Step steps = 60;
  JobSpec job = toy::job();     ///< job 0: it trains and runs from the beginning
  std::vector<JobSpec> others;  ///< they wait to be assigned
  /// False: the model is wrong, and starts an assignment that World has dropped as void.
  bool drops_void_assignments = true;
};

/// Backend for tests of the gate.
class ModelBackend : public Backend, private Carrier {
 public:
  ModelBackend(const Cluster& cluster, ModelOptions options)
      : options_(std::move(options)),
        world_(cluster),
        gate_(world_, kAll, *this, options_.agreement) {}

  Capabilities capabilities() const override { return kAll; }
  const Cluster& cluster() const override { return world_.cluster(); }
  void begin(const Needs& needs) override { tick_ = needs.tick; }

  std::optional<Observation> next() override {
    if (sequence_ == 0) submit_job();
    if (!over_) begin_step();
    while (news_.empty() && !over_) advance_clock();
    if (news_.empty()) return {};
    events_ = std::exchange(news_, {});
    return toy::seen_of(world_, events_, samples_, now_, sequence_++);
  }
  void apply(const DecisionList& decisions) override {
    world_.begin_batch();
    gate_.accept_decisions(decisions, now_);
    for (Decision& each : gate_.drain_unagreed()) {
      put_.push_back({now_ + options_.agree_after, std::move(each)});
    }
    if (over_) close();
  }
  const World& world() const { return world_; }

 private:
  static constexpr Capabilities kAll{Kinds<Action>::all(), Kinds<Setting>::all()};
  struct Put {
    Nanos answered = 0;
    Decision decision;
  };
  /// Start or stop of a job that an assignment has ordered.
  struct Placing {
    Nanos at = 0;
    StateFrom state{};
    Standing where;
  };

  std::string refusal(const Decision& decision) const override {
    const auto* save = std::get_if<Save>(&decision.what);
    return save != nullptr && save->tier == Tier::local_disk ? "there are no local disks" : "";
  }
  bool is_step_open(JobId job) const override {
    return job == JobId{0} && step_ends_ != kNever && now_ < step_ends_;
  }
  void emit_event(Event event) override {
    world_.apply(event, now_);
    news_.push_back(std::move(event));
  }
  void carry_out(const Decision& decision) override {
    if (const auto* save = std::get_if<Save>(&decision.what)) saves_.push_back(save->tier);
    const auto* assign = std::get_if<Assign>(&decision.what);
    if (assign == nullptr) return;
    const Nanos after = assign->is_release() ? options_.stop_after : options_.start_after;
    if (assign->is_release() && assign->job == JobId{0}) saves_.clear();
    placings_[assign->job] = {now_ + after, assign->state, {assign->gpus, assign->layout}};
    if (assign->job != JobId{0} || !job().is_restarting) return;
    step_ends_ = loses_ = kNever;
    if (job().phase == JobPhase::running) emit_event(JobHeld{{0}});
  }

  const JobInfo& job() const { return world_.jobs()[{0}]; }

  void submit_job() {
    emit_event(JobSubmitted{options_.job});
    for (const JobSpec& other : options_.others) emit_event(JobSubmitted{other});
    emit_event(toy::started(world_, 0, {toy::gpus(0, options_.job.gpus), options_.job.layout}));
  }
  void begin_step() {
    if (step_ends_ != kNever || !can_go_on(job())) return;
    step_ends_ = now_ + kNanosPerSecond;
    loses_ = options_.losses.contains(job().step) ? now_ + kNanosPerSecond / 2 : kNever;
  }

  void advance_clock() {
    const Nanos tick = tick_ > 0 ? (now_ / tick_ + 1) * tick_ : kNever;
    Nanos next = std::min({step_ends_, loses_, loses_again_, gate_.next_wake(), tick});
    for (const Put& put : put_) next = std::min(next, put.answered);
    for (const auto& [job, placing] : placings_) next = std::min(next, placing.at);
    if (next == kNever) return end("nothing is left to come");
    now_ = next;
    if (now_ >= loses_again_) {
      loses_again_ = kNever;
      return apply_faults(options_.second_losses.extract(struck_).mapped());
    }
    if (now_ >= loses_) return lose_ranks();
    if (now_ >= step_ends_) return end_step();
    answer_decisions();
    place_jobs();
    const bool woken = gate_.pop_due_wakes(now_);
    if (woken || now_ == tick) emit_event(Tick{});
    begin_step();
  }

  void end_step() {
    emit_event(StepsDone{{0}, job().step, 1, kNanosPerSecond});
    step_ends_ = loses_ = kNever;
    for (const Tier tier : std::exchange(saves_, {}))
      emit_event(SaveDone{{0}, job().step, tier, 0, 0});
    gate_.settle_deferred({0}, now_);
    if (job().step >= options_.steps) end("the run is over");
  }
  void lose_ranks() {
    loses_ = kNever;
    struck_ = job().step;
    if (options_.second_losses.contains(struck_)) loses_again_ = now_ + 500'000;
    apply_faults(options_.losses.extract(struck_).mapped());
  }
  /// A job that restarts or waits has no working ranks.
  void apply_faults(const ModelFaults& faults) {
    std::set<RankId> lost(faults.ranks.begin(), faults.ranks.end());
    for (const PartChanged& change : faults.parts) {
      emit_event(change);
      forget_void_assignments();
      if (change.to.health != Health::lost) continue;
      for (const GpuId gpu : job().gpus) {
        const bool hit = change.part.kind == PartKind::node
                             ? cluster().node_of(gpu).value == change.part.index
                             : gpu.value == change.part.index;
        if (const auto rank = rank_on(job(), gpu); hit && rank) lost.insert(*rank);
      }
    }
    std::erase_if(lost, [this](RankId rank) {
      return rank.value >= job().gpus.size() || job().is_lost(rank);
    });
    if (lost.empty() || job().is_restarting || !job().is_placed()) return;
    emit_event(loss_of(job(), {lost.begin(), lost.end()}));
    forget_void_assignments();
    membership_changed();
    const AfterLoss after = after_loss(job(), true);
    if (after.is_assigned && !placings_.contains({0})) {
      placings_[{0}] = {now_ + options_.start_after, StateFrom::peer, *job().next};
    }
    if (after.held) emit_event(JobHeld{{0}});
  }
  /// Forgets the assignments that World has dropped (is_assignment_void()).
  void forget_void_assignments() {
    if (!options_.drops_void_assignments) return;
    std::erase_if(placings_,
                  [this](const auto& each) { return !world_.jobs()[each.first].next; });
  }
  /// The step under way is given up.
  void membership_changed() {
    step_ends_ = loses_ = kNever;
    gate_.expire_settings({0});
    for (const Put& put : std::exchange(put_, {})) gate_.expire_decision(put.decision);
  }
  void answer_decisions() {
    for (const Put& put : std::exchange(put_, {})) {
      if (put.answered > now_) {
        put_.push_back(put);
      } else {
        gate_.apply_agreed(put.decision, now_);
      }
    }
  }
  /// Assignments come true.
  void place_jobs() {
    for (auto each = placings_.begin(); each != placings_.end();) {
      const auto [id, placing] = *each;
      if (placing.at > now_) {
        ++each;
        continue;
      }
      each = placings_.erase(each);
      const JobInfo& of = world_.jobs()[id];
      ensure(of.next.has_value() || !options_.drops_void_assignments,
             "only a pending assignment is started");
      if (placing.where.gpus.empty()) {
        emit_event(JobStopped{id, of.step});
        release_job(id);
      } else {
        const Step from = placing.state == StateFrom::checkpoint ? of.saved : of.step;
        const JobStarted start = toy::started(world_, id.value, placing.where, from);
        // The GPUs of a dropped assignment may belong to another job by now.
        if (!of.next && !world_.objection(Event(start)).empty()) continue;
        emit_event(start);
        if (id == JobId{0}) membership_changed();
      }
    }
  }
  void release_job(JobId id) {
    if (id == JobId{0}) step_ends_ = loses_ = kNever, saves_.clear();
    gate_.reject_decisions(id, now_);
    for (const Put& put : std::exchange(put_, {})) gate_.apply_agreed(put.decision, now_);
  }
  void end(const std::string& why) {
    over_ = true;
    why_ = why;
    if (job().phase != JobPhase::done) emit_event(JobDone{{0}});
    release_job({0});
    close();
  }
  void close() { gate_.close(why_); }

  ModelOptions options_;
  World world_;
  DecisionGate gate_;
  NoSamples samples_;
  Nanos now_ = 0, tick_ = 0, step_ends_ = kNever, loses_ = kNever, loses_again_ = kNever;
  Step struck_ = 0;  ///< newest step with losses
  std::uint64_t sequence_ = 0;
  std::vector<Event> events_, news_;
  std::vector<Put> put_;
  std::map<JobId, Placing> placings_;  ///< those of the pending assignments
  std::vector<Tier> saves_;
  bool over_ = false;
  std::string why_;
};

}  // namespace orrery::test

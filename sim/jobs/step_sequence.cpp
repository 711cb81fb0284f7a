#include "sim/jobs/step_sequence.hpp"

#include <cmath>
#include <utility>

namespace orrery::sim {

StepSequence::StepSequence(const Parts& parts, Owner& owner, bool full_detail)
    : parts_(parts), owner_(owner), full_detail_(full_detail) {}

void StepSequence::roll_back_to(Step step) {
  parts_.books.roll_back(step_, step);
  step_ = step;
}

Nanos StepSequence::end() const {
  if (open_) return open_->end();
  return stretch_ ? stretch_->end() : kNever;
}

/// A promise to rest covers only known steps: it is valid after the policy has seen a whole step
/// under the present conditions. A policy that reads nothing may rest at any time.
bool StepSequence::is_resting(const Watch& watch) const {
  const bool unequal = watch.step_times && parts_.here.scenario().noise().compute_cv() > 0;
  return watch.resting && !full_detail_ && !unequal && is_unchanged(watch);
}

Nanos StepSequence::next_interruption(const Watch& watch) const {
  const Nanos next = owner_.next_interruption(watch);
  const auto fault = std::as_const(parts_.faults).plan().next_instant(now_ - 1);
  return fault ? std::min(next, *fault) : next;
}

void StepSequence::enter_step() {
  const bool differs = parts_.next.enter_step(step_, now_);
  if (differs) watched_ = false;
  // A part that no rank uses changes nothing for the step, but policies must know of it.
  const estimates::FaultPlan& plan = std::as_const(parts_.faults).plan();
  const bool begins = step_ == 0 || plan.next_change(step_ - 1) == step_;
  if (differs || begins) parts_.faults.note_parts(step_, now_);
}

void StepSequence::begin_steps(const Watch& watch) {
  if (parts_.next.update_contention()) watched_ = false;
  tells_all_ = watch.step_times;
  if (is_resting(watch) && skip_ahead(watch)) return;
  open_next();
}

void StepSequence::commit_steps(const estimates::SimulatedStep& each, Nanos duration,
                                std::uint64_t count, const std::vector<double>& stretch) {
  parts_.books.commit_steps(each, duration, count, *parts_.next.circumstances(), stretch);
}

/// Advances at once by as many of the next steps as no event interrupts.
bool StepSequence::skip_ahead(const Watch& watch) {
  parts_.books.time().interrupt_at(now_);
  if (!parts_.losses.has_resumed() || parts_.saving.is_requested()) return false;
  if (!parts_.faults.next_losses(step_, now_, now_ + 1).empty()) return false;
  const std::uint64_t simulated = fit().stepper().simulated();
  auto each = parts_.next.undisturbed_step(now_);
  if (parts_.timeline != nullptr && fit().stepper().simulated() > simulated) {
    parts_.timeline->add(*each, step_, now_);
  }
  if (each->run.cut_short) return false;
  // How long noisy steps take together is known once they have been drawn, so they cannot be cut.
  if (parts_.here.scenario().noise().compute_cv() > 0) {
    return watch.alone && skip_noisy(each, watch);
  }
  const Nanos length = length_of(*each, step_, now_, {});
  const Nanos limit = next_interruption(watch);
  const auto room = static_cast<std::uint64_t>((limit - now_) / std::max<Nanos>(length, 1));
  const std::uint64_t count = std::min<std::uint64_t>(owner_.next_boundary(step_) - step_, room);
  if (count == 0) return false;
  stretch_ = Stretch{.each = std::move(each), .began = now_, .length = length, .count = count};
  return true;
}

/// They are told at the instant that has come.
bool StepSequence::skip_noisy(const std::shared_ptr<const estimates::SimulatedStep>& each,
                              const Watch& watch) {
  const Step boundary = owner_.next_boundary(step_);
  Nanos limit = next_interruption(watch);
  const Nanos began = now_;
  Nanos last = 0;
  std::uint64_t count = 0;
  for (; step_ + count < boundary; ++count) {
    const std::vector<double> stretch =
        fit().telemetry().stretch(step_ + count, now_, fit().graph().data());
    const Nanos duration = length_of(*each, step_, now_, stretch);
    if (milestones_ != nullptr && milestones_->reach_milestones(now_ + duration)) {
      limit = next_interruption(watch);
    }
    if (duration > limit - now_) break;
    commit_steps(*each, duration, 1, stretch);
    now_ += duration;
    last = duration;
  }
  if (count == 0) return false;
  record_gone_steps(each, count, now_ - began, last, true);
  return true;
}

/// `count` steps have ended at `now_`, the last one after `last`; they are committed.
void StepSequence::record_gone_steps(const std::shared_ptr<const estimates::SimulatedStep>& each,
                                     std::uint64_t count, Nanos took, Nanos last, bool tell) {
  const Step newest = step_ + count - 1;
  const StepGraph& graph = fit().graph();
  const std::vector<double> stretch = fit().telemetry().stretch(newest, now_ - last, graph.data());
  exchange_.record_step(parts_.here.id(), newest, *each, last, stretch, graph);
  fit().telemetry().begin_step(estimates::PlayedStep(newest, now_ - last, each, stretch));
  done(count, took, tell);
}

void StepSequence::settle_steps(Nanos now) {
  if (!stretch_) return;
  const Stretch stretch = *std::exchange(stretch_, {});
  const std::uint64_t count = stretch.ended_by(now);
  const Nanos took = stretch.length * static_cast<Nanos>(count);
  now_ = stretch.began + took;
  if (count > 0) {
    commit_steps(*stretch.each, stretch.length, count, {});
    record_gone_steps(stretch.each, count, took, stretch.length, now_ == now);
  }
  if (now_ == now) return;
  if (tells_all_) tell_committed();
  open_current(stretch.each, {});
  now_ = now;
}

void StepSequence::open_next() {
  parts_.books.time().interrupt_at(now_);
  const std::uint64_t simulated = fit().stepper().simulated();
  std::vector<double> stretch = fit().telemetry().stretch(step_, now_, fit().graph().data());
  auto what = parts_.next.with_changes(step_, now_, stretch);
  if (what->run.cut_short) stretch.clear();
  if (parts_.timeline != nullptr && fit().stepper().simulated() > simulated) {
    parts_.timeline->add(*what, step_, now_);
  }
  parts_.saving.step_begins();
  open_current(std::move(what), std::move(stretch));
  estimates::FaultPlan& plan = parts_.faults.plan();
  plan.mark_felt(step_, now_);
  for (const Nanos instant : plan.instants(now_, open_->end())) {
    parts_.faults.note_parts(step_, instant);
    plan.mark_felt(step_, instant);
    // No policy has seen a step that changes while it runs.
    if (fit().local(plan.state(step_, instant)) != parts_.next.circumstances()->state) {
      watched_ = false;
    }
    stalled_ += parts_.faults.stalled_by(instant);
  }
}

void StepSequence::open_current(std::shared_ptr<const estimates::SimulatedStep> what,
                                std::vector<double> stretch) {
  open_.emplace(step_, now_, std::move(what), std::move(stretch));
  parts_.next.begins_at(open_->end());
  fit().telemetry().begin_step(*open_);
}

void StepSequence::restart_current_step(Nanos began) {
  const Nanos now = std::exchange(now_, began);
  enter_step();
  open_next();
  if (open_->end() <= now) open_.reset();  // it was longer than it would be here
  now_ = now;
  std::vector<Event> told;  // already
  parts_.faults.drain_events(now, told);
}

void StepSequence::close_step(const Watch& watch) {
  const estimates::PlayedStep played = std::move(*open_);
  open_.reset();
  const StepGraph& graph = fit().graph();
  if (played.what().run.cut_short) {
    stalled_ = 0;
    parts_.books.time().lose_step(played.start(), now_, graph.ranks());
    return owner_.on_cut(played);
  }
  commit_steps(played.what(), played.duration(), 1, played.stretch());
  exchange_.record_step(parts_.here.id(), step_, played.what(), played.duration(), played.stretch(),
                        graph);
  // A resting policy is told of the last step before something may differ.
  const bool tell = !is_resting(watch) || tells_all_ || step_ + 1 >= owner_.next_boundary(step_) ||
                    parts_.here.gate().has_waiting(parts_.here.id()) ||
                    parts_.saving.is_after_this_step();
  watched_ = watched_ || tell;
  if (const Nanos stalled = std::exchange(stalled_, 0); stalled > 0) owner_.on_stalled(stalled);
  done(1, played.duration(), tell);
}

void StepSequence::abandon_step() {
  if (!open_) return;
  std::uint64_t done = 0;
  const StepGraph& graph = fit().graph();
  for (std::uint32_t replica = 0; replica < graph.data(); ++replica) {
    double least = open_->done(replica, 0, now_);
    for (std::uint32_t stage = 1; stage < graph.pipeline(); ++stage) {
      least = std::min(least, open_->done(replica, stage, now_));
    }
    done += static_cast<std::uint64_t>(std::floor(least));
  }
  parts_.books.discard_work(done);
  parts_.books.time().lose_step(open_->start(), now_, graph.ranks());
  open_.reset();
  stalled_ = 0;
}

/// `count` steps in `duration` are committed at `now_`.
void StepSequence::done(std::uint64_t count, Nanos duration, bool tell) {
  parts_.books.committed_by(now_);
  step_ += count;
  untold_.count += count;
  untold_.duration += duration;
  owner_.on_committed(tell);
}

void StepSequence::tell_committed() {
  if (untold_.count == 0) return;
  const Untold told = std::exchange(untold_, {});
  parts_.here.emit_event(StepsDone{
      .job = parts_.here.id(), .last = step_ - 1, .count = told.count, .duration = told.duration});
}

void StepSequence::collectives(std::vector<CollectiveSample>& out) const {
  if (fit().graph().data() > 1) exchange_.read(out);
}

}  // namespace orrery::sim

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

/// A promise to rest holds for what the policy has seen: not before it was shown a whole step
/// under the present circumstances. One that looks at nothing may rest at any time.
bool StepSequence::rests(const Watch& watch) const {
  return watch.resting && !full_detail_ && as_they_were(watch);
}

Nanos StepSequence::next_interruption(const Watch& watch) const {
  const Nanos next = owner_.next_interruption(watch);
  const auto fault = std::as_const(parts_.faults).plan().next_instant(now_ - 1);
  return fault ? std::min(next, *fault) : next;
}

void StepSequence::enter() {
  if (!parts_.next.enter(step_, now_)) return;
  watched_ = false;
  parts_.faults.note_parts(step_, now_);
}

void StepSequence::begin(const Watch& watch) {
  if (parts_.next.meet()) watched_ = false;
  if (rests(watch) && skip_ahead(watch)) return;
  open_next();
}

void StepSequence::commit(const estimates::SimulatedStep& each, Nanos duration, std::uint64_t count,
                          const std::vector<double>& stretch) {
  parts_.books.commit(each, duration, count, *parts_.next.circumstances(), stretch);
}

/// Of the next steps as many as nothing interrupts go by at once, if they can.
bool StepSequence::skip_ahead(const Watch& watch) {
  parts_.books.time().interrupt(now_);
  if (!parts_.losses.has_resumed() || parts_.saving.asked()) return false;
  if (!parts_.faults.next_losses(step_, now_, now_ + 1).empty()) return false;
  const std::uint64_t simulated = fit().stepper().simulated();
  auto each = parts_.next.undisturbed(now_);
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
    if (milestones_ != nullptr && milestones_->reach(now_ + duration)) {
      limit = next_interruption(watch);
    }
    if (duration > limit - now_) break;
    commit(*each, duration, 1, stretch);
    now_ += duration;
    last = duration;
  }
  if (count == 0) return false;
  gone(each, count, now_ - began, last, true);
  return true;
}

/// `count` steps have ended at `now_`, the last one after `last`; they are committed.
void StepSequence::gone(const std::shared_ptr<const estimates::SimulatedStep>& each,
                        std::uint64_t count, Nanos took, Nanos last, bool tell) {
  const Step newest = step_ + count - 1;
  const StepGraph& graph = fit().graph();
  const std::vector<double> stretch = fit().telemetry().stretch(newest, now_ - last, graph.data());
  exchange_.note(parts_.here.id(), newest, *each, last, stretch, graph);
  fit().telemetry().begin_step(estimates::PlayedStep(newest, now_ - last, each, stretch));
  done(count, took, tell);
}

void StepSequence::settle(Nanos now) {
  if (!stretch_) return;
  const Stretch stretch = *std::exchange(stretch_, {});
  const std::uint64_t count = stretch.ended_by(now);
  const Nanos took = stretch.length * static_cast<Nanos>(count);
  now_ = stretch.began + took;
  if (count > 0) {
    commit(*stretch.each, stretch.length, count, {});
    gone(stretch.each, count, took, stretch.length, now_ == now);
  }
  if (now_ == now) return;
  open(stretch.each, {});
  now_ = now;
}

void StepSequence::open_next() {
  parts_.books.time().interrupt(now_);
  const std::uint64_t simulated = fit().stepper().simulated();
  std::vector<double> stretch = fit().telemetry().stretch(step_, now_, fit().graph().data());
  auto what = parts_.next.with_changes(step_, now_, stretch);
  if (what->run.cut_short) stretch.clear();
  if (parts_.timeline != nullptr && fit().stepper().simulated() > simulated) {
    parts_.timeline->add(*what, step_, now_);
  }
  parts_.saving.step_begins();
  open(std::move(what), std::move(stretch));
  estimates::FaultPlan& plan = parts_.faults.plan();
  plan.feel(step_, now_);
  for (const Nanos instant : plan.instants(now_, open_->end())) {
    parts_.faults.note_parts(step_, instant);
    plan.feel(step_, instant);
    stalled_ += parts_.faults.stalled_by(instant);
  }
}

void StepSequence::open(std::shared_ptr<const estimates::SimulatedStep> what,
                        std::vector<double> stretch) {
  open_.emplace(step_, now_, std::move(what), std::move(stretch));
  parts_.next.begins_at(open_->end());
  fit().telemetry().begin_step(*open_);
}

void StepSequence::reopen(Nanos began) {
  const Nanos now = std::exchange(now_, began);
  enter();
  open_next();
  if (open_->end() <= now) open_.reset();  // it was longer than it would be here
  now_ = now;
  std::vector<Event> told;  // already
  parts_.faults.take_news(now, told);
}

void StepSequence::close(const Watch& watch) {
  const estimates::PlayedStep played = std::move(*open_);
  open_.reset();
  const StepGraph& graph = fit().graph();
  if (played.what().run.cut_short) {
    stalled_ = 0;
    parts_.books.time().lose_step(played.start(), now_, graph.ranks());
    return owner_.cut(played);
  }
  commit(played.what(), played.duration(), 1, played.stretch());
  exchange_.note(parts_.here.id(), step_, played.what(), played.duration(), played.stretch(),
                 graph);
  // A resting policy is told of the last step before something may differ.
  const bool tell = !rests(watch) || step_ + 1 >= owner_.next_boundary(step_) ||
                    parts_.here.gate().waits(parts_.here.id()) || parts_.saving.after_this_step();
  watched_ = watched_ || tell;
  if (const Nanos stalled = std::exchange(stalled_, 0); stalled > 0) owner_.stalled(stalled);
  done(1, played.duration(), tell);
}

void StepSequence::give_up() {
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
  parts_.books.discard(done);
  parts_.books.time().lose_step(open_->start(), now_, graph.ranks());
  open_.reset();
}

/// `count` steps in `duration` are committed at `now_`.
void StepSequence::done(std::uint64_t count, Nanos duration, bool tell) {
  parts_.books.committed_by(now_);
  step_ += count;
  untold_.count += count;
  untold_.duration += duration;
  owner_.committed(tell);
}

void StepSequence::tell() {
  if (untold_.count == 0) return;
  const Untold told = std::exchange(untold_, {});
  parts_.here.happen(StepsDone{
      .job = parts_.here.id(), .last = step_ - 1, .count = told.count, .duration = told.duration});
}

void StepSequence::collectives(std::vector<CollectiveSample>& out) const {
  if (fit().graph().data() > 1) exchange_.read(out);
}

}  // namespace orrery::sim

#include "sim/planning/long_run.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <vector>

namespace orrery::sim {
namespace {

constexpr Nanos kDay = 86'400 * kNanosPerSecond;
/// Patience with a job that commits no new step, as in the simulator.
constexpr Nanos kPatience = 30 * kDay, kEarliestEnd = 60 * kDay;

/// Nodes of the cluster: which of them the job uses, in the order of its ranks, and until when a
/// node is down.
class Nodes {
 public:
  Nodes(std::uint32_t used, std::uint32_t all)
      : job_(std::min(used, all)), used_(all, false), down_until_(all, 0) {
    std::iota(job_.begin(), job_.end(), 0);
    std::fill_n(used_.begin(), job_.size(), true);
  }

  /// Returns the job's nodes in the order of their ranks.
  const std::vector<std::uint32_t>& of_job() const { return job_; }
  /// Returns how often nodes of the job were replaced.
  std::uint64_t moves() const { return moves_; }
  bool is_used(std::uint32_t node) const { return used_[node]; }
  void take_down(std::uint32_t node, Nanos until) {
    down_until_[node] = std::max(down_until_[node], until);
  }
  bool are_used_healthy(Nanos at) const {
    for (std::size_t i = 0; i < used_.size(); ++i) {
      if (used_[i] && down_until_[i] > at) return false;
    }
    return true;
  }
  /// Replaces the job's nodes that are down at `at` by healthy spares. Returns false, without a
  /// change, if there are too few.
  bool replace_broken(Nanos at) {
    std::vector<std::uint32_t*> broken;
    for (std::uint32_t& node : job_) {
      if (down_until_[node] > at) broken.push_back(&node);
    }
    std::vector<std::uint32_t> spare;
    for (std::uint32_t i = 0; i < used_.size(); ++i) {
      if (!used_[i] && down_until_[i] <= at) spare.push_back(i);
    }
    if (broken.size() > spare.size()) return false;
    if (!broken.empty()) ++moves_;
    for (std::size_t i = 0; i < broken.size(); ++i) {
      used_[*broken[i]] = false;
      used_[spare[i]] = true;
      *broken[i] = spare[i];
    }
    return true;
  }
  /// Returns the first end of an outage after `at`; kNever if none follows.
  Nanos next_return(Nanos at) const {
    Nanos next = kNever;
    for (const Nanos until : down_until_) {
      if (until > at) next = std::min(next, until);
    }
    return next;
  }

 private:
  std::vector<std::uint32_t> job_;
  std::vector<bool> used_;
  std::vector<Nanos> down_until_;
  std::uint64_t moves_ = 0;
};

/// Returns true if lost ranks can have the state of another replica, after losses that may have hit
/// `lost` replicas.
bool has_peers(const LongRun& run, std::uint64_t lost) {
  return run.recovery == Recovery::replace && lost < run.replicas;
}

class Player {
 public:
  Player(const LongRun& run, Interruptions& failures, std::vector<CoursePoint>* points)
      : run_(run),
        failures_(failures),
        points_(points),
        nodes_(run.nodes, run.cluster_nodes),
        pace_(run.step) {}
  RunCourse play();

 private:
  void work_until(Nanos end);
  void save();
  void settle_save(Nanos at);
  const Interruption& next() { return failures_.at(index_); }
  /// Takes the hardware of the next failure down and returns true if the job loses ranks.
  bool strike();
  void recover(const Interruption& loss);
  Nanos decide(Nanos known);
  Nanos restart(Nanos from, Nanos own);
  Nanos join(Nanos from, bool on_others);
  void set_pace();
  void finish_course();
  void record_point() {
    if (points_ != nullptr && now_ != kNever) points_->push_back({now_, step_});
  }
  /// Records a loss, which may cut the end of a recovery that is recorded already.
  void record_loss() {
    if (points_ == nullptr) return;
    while (!points_->empty() && points_->back().at > now_) points_->pop_back();
    record_point();
  }
  bool is_given_up() const { return now_ > kEarliestEnd && now_ - progress_at_ > kPatience; }
  bool is_done() const { return step_ == run_.steps; }

  const LongRun& run_;
  Interruptions& failures_;
  std::vector<CoursePoint>* const points_;
  Nodes nodes_;
  Nanos pace_;                      ///< duration of a step on the present nodes
  std::uint64_t priced_moves_ = 0;  ///< moves of the job when its step was priced
  std::size_t index_ = 0;            ///< next failure
  std::uint64_t lost_replicas_ = 0;  ///< replicas that the losses of this standstill may have hit
  Nanos noticed_ = 0;                ///< instant at which the newest loss is known
  Nanos now_ = 0;
  std::uint64_t step_ = 0, saved_ = 0, furthest_ = 0;
  std::optional<std::uint64_t> writing_;  ///< step of the checkpoint in flight
  Nanos durable_at_ = 0;
  Nanos progress_at_ = 0;  ///< last instant at which the furthest step grew
  Nanos RunCourse::*stalled_by_ = &RunCourse::checkpoints;  ///< use of the time before now_
  RunCourse course_;
};

void Player::settle_save(Nanos at) {
  if (!writing_ || durable_at_ > at) return;
  saved_ = *writing_;
  writing_.reset();
}

/// Begins the checkpoint of the current step, unless an earlier one is still being written.
void Player::save() {
  settle_save(now_);
  if (writing_) return;
  writing_ = step_;
  durable_at_ = now_ + run_.stall + run_.write;
  course_.checkpoints += run_.stall;
  stalled_by_ = &RunCourse::checkpoints;
  now_ += run_.stall;
}

/// Advances steps and checkpoints up to `end` or the last step. A step or stall that `end` cuts
/// has begun: now_ is then its begin.
void Player::work_until(Nanos end) {
  while (!is_done() && now_ < end) {
    const std::uint64_t boundary = std::min(run_.steps, (step_ / run_.every + 1) * run_.every);
    const auto room = static_cast<std::uint64_t>((end - now_) / pace_);
    const std::uint64_t count = std::min(boundary - step_, room);
    now_ += static_cast<Nanos>(count) * pace_;
    step_ += count;
    if (step_ > furthest_ && count > 0) {
      furthest_ = step_;
      progress_at_ = now_;
    }
    if (is_done() || step_ < boundary) return;
    if (now_ >= end) return;
    save();
  }
}

bool Player::strike() {
  const Interruption& failure = next();
  ++index_;
  if (!failure.node) {
    ++lost_replicas_;
    return true;
  }
  const bool used = nodes_.is_used(*failure.node);
  nodes_.take_down(*failure.node, failure.repaired);
  if (used) lost_replicas_ += run_.replicas_of_node;
  return used;
}

/// Returns the instant at which the job gets healthy nodes: `known`, or once hardware returns.
/// Returns kNever if it never does.
Nanos Player::decide(Nanos known) {
  for (;;) {
    while (next().at <= known) {
      const Interruption failure = next();
      if (!strike()) continue;
      const Nanos noticed = failure.at + failure.detection.value_or(run_.detection);
      noticed_ = std::max(noticed_, noticed);
      course_.detection += std::max<Nanos>(0, noticed - known);
      known = std::max(known, noticed);
    }
    if (nodes_.replace_broken(known)) return known;
    const Nanos returned = nodes_.next_return(known);
    if (returned == kNever) return kNever;
    course_.waiting += returned - known;
    known = returned;
  }
}

/// Returns the instant at which the processes that are started at `from` have loaded the
/// checkpoint. A process that is killed meanwhile starts anew. Returns kNever if that lasts too
/// long.
Nanos Player::restart(Nanos from, Nanos own) {
  Nanos ready = from + own;
  while (next().at <= ready) {
    if (ready - from > kPatience + own) return kNever;
    const Interruption failure = next();
    const bool struck = strike();
    if (!struck || failure.node) continue;  // lost hardware is found at the end of the restart
    ready = std::max(ready, failure.at + failure.detection.value_or(run_.detection) +
                                failure.restart.value_or(run_.restart));
  }
  return ready;
}

/// Returns the instant at which the ranks can form their groups with the replacements that are sent
/// for at `from`; on the same nodes these are there at once. Returns kNever if that lasts too long.
Nanos Player::join(Nanos from, bool on_others) {
  const Nanos start = on_others ? std::max<Nanos>(0, run_.replacement - run_.detection) : 0;
  Nanos ready = std::max(from + start, noticed_ + run_.regroup);
  while (next().at <= ready) {
    if (ready - from > kPatience + start) return kNever;
    const Interruption failure = next();
    if (!strike()) continue;
    noticed_ = std::max(noticed_, failure.at + failure.detection.value_or(run_.detection));
    ready = std::max(ready, noticed_ + run_.regroup);
  }
  return ready;
}

void Player::recover(const Interruption& loss) {
  ++course_.failures;
  settle_save(loss.at);
  writing_.reset();  // a checkpoint that is not durable at the loss fails
  const Nanos own = loss.restart.value_or(run_.restart);
  Nanos known = loss.at + loss.detection.value_or(run_.detection);
  noticed_ = known;
  course_.detection += known - loss.at;
  for (;;) {
    const std::uint64_t moves = nodes_.moves();
    known = decide(known);
    if (known == kNever) break;
    const bool peers = has_peers(run_, lost_replicas_);
    const Nanos ready = peers ? join(known, nodes_.moves() != moves) : restart(known, own);
    if (ready != kNever) course_.recovery += ready - known;
    known = ready;
    if (known == kNever) break;
    if (nodes_.are_used_healthy(known) && peers == has_peers(run_, lost_replicas_)) break;
  }
  if (!has_peers(run_, lost_replicas_)) {
    course_.lost_work += static_cast<Nanos>(step_ - saved_) * pace_;
    step_ = saved_;
  }
  lost_replicas_ = 0;
  if (known == kNever) {
    now_ = kNever;
    return;
  }
  course_.recovery += run_.regroup;
  stalled_by_ = &RunCourse::recovery;
  now_ = known + run_.regroup;
  set_pace();
}

/// Prices the step on the job's present nodes, if they are others than before.
void Player::set_pace() {
  if (!run_.slowdown || nodes_.moves() == priced_moves_) return;
  priced_moves_ = nodes_.moves();
  const double step = static_cast<double>(run_.step) * run_.slowdown(nodes_.of_job());
  pace_ = std::max<Nanos>(1, std::llround(step));
}

void Player::finish_course() {
  course_.finished = true;
  course_.elapsed = now_;
  course_.displaced = now_ - static_cast<Nanos>(run_.steps) * run_.step - course_.checkpoints -
                      course_.lost_work - course_.detection - course_.recovery - course_.waiting;
}

RunCourse Player::play() {
  record_point();
  while (!is_done()) {
    work_until(next().at);
    if (is_done()) break;
    const Interruption failure = next();
    if (!strike()) continue;
    if (failure.at > now_) course_.lost_work += failure.at - now_;
    // A failure while the ranks regroup, or during the stall of a checkpoint, cuts that time.
    if (failure.at < now_) course_.*stalled_by_ -= now_ - failure.at;
    now_ = failure.at;
    record_loss();
    recover(failure);
    if (points_ != nullptr) points_->push_back({failure.at, step_});  // the rollback
    record_point();
    if (now_ == kNever || is_given_up()) return course_;
  }
  record_point();
  finish_course();
  return course_;
}

}  // namespace

RunCourse play_run(const LongRun& run, Interruptions& failures, std::vector<CoursePoint>* points) {
  return Player(run, failures, points).play();
}

}  // namespace orrery::sim

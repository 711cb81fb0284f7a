#include "policies/recovery/planned_moves.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "policies/recovery/ways.hpp"

namespace orrery {
namespace {

/// Least time before a removal at which a job goes on with fewer ranks: the others regroup.
constexpr Nanos kShrinkLead = 120'000'000'000;

std::string ranks_leave(const std::vector<RankId>& ranks) {
  if (ranks.size() == 1) return fmt::format("the GPU of rank {} is to be removed", ranks[0].value);
  return fmt::format("the GPUs of {} ranks are to be removed", ranks.size());
}

/// Returns true if the job is at work as a whole: no loss and no assignment is pending.
bool is_steady(const JobInfo& job) {
  return job.spec.is_training() && job.phase == JobPhase::running && job.lost.empty() && !job.next;
}

}  // namespace

bool convert_planned_moves(Archive& state, std::uint32_t version) {
  if (version >= kPlannedMovesVersion) return false;
  Archive converted;
  ByteWriter write(converted);
  if (version == 0) AwayParts().save_to(write);
  state.insert(0, converted);
  ByteReader read(state);
  PlannedMoves moves;
  moves.load_from(read, 1);
  converted.clear();
  moves.save_to(write);
  state = converted.append(read.rest());
  return true;
}

void PlannedMoves::observe(const Observation& seen, bool parts_changed, DecisionList& decisions) {
  bool changed = parts_changed;
  for (const Event& event : seen.events) {
    changed = read_event(event, seen, decisions) || changed;
  }
  for (const auto& [id, course] : jobs_) {
    changed = changed || (course.acts_at != 0 && course.acts_at <= seen.now);
  }
  if (!changed) return;
  for (const JobInfo& job : seen.jobs) decide_job(seen, job, decisions);
}

bool PlannedMoves::read_event(const Event& event, const Observation& seen,
                              DecisionList& decisions) {
  if (const auto* outcome = std::get_if<Decided>(&event)) {
    return record_outcome(*outcome);
  }
  if (const auto* done = std::get_if<StepsDone>(&event)) {
    Course& course = jobs_[done->job];
    course.steps += done->count;
    course.stepped += done->duration;
    return false;
  }
  if (const auto* done = std::get_if<JobDone>(&event)) jobs_.erase(done->job);
  if (const auto* saved = std::get_if<SaveDone>(&event)) {
    release_saved_job(*saved, seen, decisions);
    return !saved->durable;
  }
  return std::holds_alternative<JobStarted>(event) || std::holds_alternative<JobStopped>(event) ||
         std::holds_alternative<JobDone>(event);
}

/// A rejected way is exhausted. Returns true if the next one is to be tried.
bool PlannedMoves::record_outcome(const Decided& event) {
  for (auto& [id, course] : jobs_) {
    if (course.open != event.decision) continue;
    course.open = kNoDecision;
    if (event.status == Outcome::applied) return false;
    course.save_after = kNever;
    const bool climbs = std::exchange(course.climbs, 0) != 0 && course.way != Way::none;
    if (climbs) course.way = static_cast<Way>(static_cast<int>(course.way) + 1);
    return climbs;
  }
  return false;
}

void PlannedMoves::release_saved_job(const SaveDone& done, const Observation& seen,
                                     DecisionList& decisions) {
  const auto found = jobs_.find(done.job);
  const JobInfo* job = seen.jobs.find(done.job);
  if (found == jobs_.end() || job == nullptr) return;
  Course& course = found->second;
  if (done.step <= course.save_after) return;
  course.save_after = kNever;
  if (!done.durable || !is_steady(*job) || leaving_ranks(seen, *job).empty()) return;
  // The last checkpoint before the removal waits for the end of a step; a quarter of the time that
  // this one took, and a second step, are its reserve.
  const Nanos lead = done.took + done.took / 4 + 2 * course.step_time();
  const std::optional<Nanos> removal = next_removal(seen, *job);
  const bool far = removal && *removal - lead > seen.now + lead;
  if (far && awaits_removal(course, *job, lead, seen, decisions)) return;
  course.home = static_cast<std::uint32_t>(job->gpus.size());
  course.is_released = 1;
  course.climbs = 0;
  course.open = decisions
                    .add(Assign{done.job},
                         "a checkpoint is durable: the GPUs are left before "
                         "one is removed")
                    .id;
}

bool PlannedMoves::awaits_removal(Course& course, const JobInfo& job, Nanos lead,
                                  const Observation& seen, DecisionList& decisions) {
  const std::optional<Nanos> removal = next_removal(seen, job);
  course.acts_at = removal ? std::max<Nanos>(0, *removal - lead) : 0;
  if (course.acts_at <= seen.now) return false;
  decisions.wake(course.acts_at);
  return true;
}

void PlannedMoves::decide_job(const Observation& seen, const JobInfo& job,
                              DecisionList& decisions) {
  const auto known = jobs_.find(job.spec.id);
  if (known != jobs_.end() && known->second.open != kNoDecision) return;
  const bool waits =
      job.phase == JobPhase::waiting && known != jobs_.end() && known->second.is_released != 0;
  if (waits) return take_back(job, seen, decisions);
  if (!is_steady(job)) return;
  if (!leaving_ranks(seen, job).empty()) return leave_parts(job, seen, decisions);
  if (known == jobs_.end()) return;
  known->second.way = Way::move;
  known->second.is_released = 0;
  known->second.acts_at = 0;
  take_back(job, seen, decisions);
}

void PlannedMoves::leave_parts(const JobInfo& job, const Observation& seen,
                               DecisionList& decisions) {
  Course& course = jobs_[job.spec.id];
  course.climbs = 1;
  const std::string why = ranks_leave(leaving_ranks(seen, job));
  const auto assign = [&](const Standing& where, const char* what) -> Decision& {
    return decisions.add(Assign{job.spec.id, where.gpus, where.layout, StateFrom::peer},
                         fmt::format("{}: {}", why, what));
  };
  if (course.way == Way::move) {
    const auto where = rules_.moves ? moved_away(seen, job) : std::nullopt;
    if (where) {
      course.open = assign(*where, "they move to free GPUs").id;
      return;
    }
  }
  if (course.way <= Way::shrink) {
    if (const auto where = smaller_away(seen, job)) {
      const Nanos lead = std::max(kShrinkLead, 2 * course.step_time());
      if (awaits_removal(course, job, lead, seen, decisions)) return;
      course.way = Way::shrink;
      course.home = std::max(course.home, static_cast<std::uint32_t>(job.gpus.size()));
      Decision& shrinks = assign(*where, "the other replicas continue");
      shrinks.at_step = job.step + 1;  // the current step is completed
      course.open = shrinks.id;
      return;
    }
  }
  if (course.way == Way::none || !rules_.saves || course.save_after != kNever) return;
  if (course.acts_at > seen.now) return decisions.wake(course.acts_at);
  course.way = Way::save;
  course.save_after = job.step;
  course.acts_at = 0;
  course.open = decisions.add(Save{job.spec.id, Tier::local_disk}, why + ": the job is saved").id;
}

/// A job that has lost its size to a removal takes free GPUs. A released job takes all or none.
void PlannedMoves::take_back(const JobInfo& job, const Observation& seen, DecisionList& decisions) {
  Course& course = jobs_[job.spec.id];
  const bool waits = job.gpus.empty();
  if (job.gpus.size() >= course.home) course.home = 0;
  if (course.home == 0 || (!waits && !rules_.grows)) return;
  const Standing where = grown(seen, job, course.home);
  if (where.gpus.size() == job.gpus.size()) return;
  if (waits && where.gpus.size() < course.home) return;
  course.climbs = 0;
  course.open = decisions
                    .add(Assign{job.spec.id, where.gpus, where.layout,
                                waits ? kept_state(job) : StateFrom::peer},
                         "GPUs are back")
                    .id;
}

void PlannedMoves::save_to(ByteWriter& write) const {
  away_.save_to(write);
  write(static_cast<std::uint64_t>(jobs_.size()));
  for (const auto& [id, course] : jobs_) {
    write(id.value, course.way, course.is_released, course.climbs, course.home, course.open,
          course.save_after, course.steps, course.stepped, course.acts_at);
  }
}

void PlannedMoves::load_from(ByteReader& read, std::uint32_t version) {
  away_.load_from(read);
  jobs_.clear();
  std::uint64_t count = 0;
  read(count);
  for (; count > 0; --count) {
    JobId id{};
    Course course;
    read(id.value, course.way, course.is_released, course.climbs, course.home, course.open,
         course.save_after);
    if (version >= 2) read(course.steps, course.stepped, course.acts_at);
    jobs_[id] = course;
  }
}

}  // namespace orrery

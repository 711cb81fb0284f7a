#include "live/slurm/job_follower.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.hpp"
#include "live/slurm/job_request.hpp"

namespace orrery::live {
namespace {

constexpr std::uint32_t kMostFailures = 3;
constexpr std::uint32_t kMostRepeats = 3;
// slurmctld shows the state of its last save after a kill, and learns the ends of jobs later.
constexpr std::int64_t kRestart_s = 10;

/// Returns true if a row shows the job. A requeue counts at once and changes the submission a
/// moment later; an id that another job got has no requeues.
bool is_same_job(const std::string& id, std::int64_t submit_s, std::uint32_t restarts,
                 const SlurmJob& row) {
  if (row.id != id) return false;
  return row.submit_s == submit_s ||
         (row.restarts >= std::max(restarts, 1u) && row.submit_s > submit_s);
}

/// Returns true if slurmctld has just been restarted, so that a job which waits may still run on a
/// node: a second copy beside it would drain the node and hold the job.
bool is_settling(std::int64_t now_s, std::int64_t restart_s) {
  return now_s - restart_s < kRestart_s;
}

/// Returns true if two ascending lists have a name in common.
bool has_common_name(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  return std::any_of(a.begin(), a.end(), [&b](const std::string& name) {
    return std::binary_search(b.begin(), b.end(), name);
  });
}

std::vector<std::string> sorted(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

JobFollower::JobFollower(const World& world, const NodeMap& nodes, SlurmRules rules,
                         SlurmOutlet& outlet)
    : world_(world),
      nodes_(nodes),
      rules_(std::move(rules)),
      outlet_(outlet),
      leases_(rules_, outlet_) {}

// ---- managed jobs ---------------------------------------------------------------------------

bool JobFollower::Tracked::is_ready(const SlurmJob& row, const NodeMap& nodes,
                                    std::int64_t now_s) const {
  return is_managed && is_startable(row, nodes) && !row.has_unmet_dependency() &&
         now_s >= not_before_s && (row.required_nodes.empty() || has_our_nodes);
}

// ---- one reading ----------------------------------------------------------------------------

void JobFollower::follow_jobs(Rows jobs, std::int64_t now_s, std::int64_t boot_s) {
  now_s_ = now_s;
  if (has_read_ && boot_s != boot_s_) restart_s_ = boot_s;
  boot_s_ = boot_s;
  sort_by_submission(jobs);
  const KnownRows known = match_rows(jobs);
  leases_.read_rows(jobs);
  const auto each = [&known](const auto& act) {
    for (const auto& [job, row] : known) act(*job, *row);
  };
  std::vector<std::string> ended;
  each([&ended](const Tracked& job, const SlurmJob& row) {
    const bool can_have_run = job.stage == Stage::placed || job.stage == Stage::ordered;
    if (row.phase == SlurmPhase::ended && can_have_run) ended.push_back(row.id);
  });
  run_times_.clear();
  if (!ended.empty()) run_times_ = outlet_.find_run_times(ended);
  adopt_nodes(known);
  each([this](Tracked& job, const SlurmJob& row) { end_or_stop(job, row); });
  each([this](Tracked& job, const SlurmJob& row) { follow_request(job, row); });
  each([this](Tracked& job, const SlurmJob& row) { submit_job(job, row); });
  each([this](Tracked& job, const SlurmJob& row) { place_job(job, row); });
  each([this](Tracked& job, const SlurmJob& row) { check_order(job, row); });
  each([this](Tracked& job, const SlurmJob& row) { release_refused(job, row); });
  std::vector<WaitingJob> waiting;
  each([&](const Tracked& job, const SlurmJob& row) {
    if (!job.is_managed || job.stage == Stage::ordered || !is_startable(row, nodes_)) return;
    waiting.push_back({&row, job.not_before_s, job.has_our_nodes});
  });
  if (rules_.acts) leases_.renew_leases(waiting, jobs, now_s);
  std::erase_if(jobs_, [this](const auto& entry) {
    return over_.contains({entry.first, entry.second.submit_s});
  });
  has_read_ = true;
}

/// Begins to follow new jobs, and ends those that are missing or whose id belongs to another job.
/// Returns all followed jobs of the reading.
JobFollower::KnownRows JobFollower::match_rows(const Rows& rows) {
  ++readings_;
  KnownRows known;
  known.reserve(rows.size());
  for (const SlurmJob& row : rows) {
    const auto found = jobs_.find(row.id);
    Tracked* job = found == jobs_.end() ? nullptr : &found->second;
    if (job != nullptr && !is_same_job(job->id, job->submit_s, job->restarts, row)) job = nullptr;
    if (job != nullptr) job->reading = readings_;
    known.emplace_back(job, &row);
  }
  end_missing();
  for (auto& [job, row] : known) {
    if (job == nullptr) job = begin_job(*row);
  }
  std::erase_if(known, [](const auto& each) { return each.first == nullptr; });
  std::erase_if(over_, [this](const auto& entry) { return now_s_ - entry.second > 86400; });
  return known;
}

/// Begins to follow the job of a row. Returns null for a job that has ended or is followed already.
JobFollower::Tracked* JobFollower::begin_job(const SlurmJob& row) {
  if (row.phase == SlurmPhase::ended) return nullptr;
  // A requeue moves the submission, and slurmctld may have lost the requeue as well.
  const auto over = over_.lower_bound({row.id, row.submit_s});
  if (over != over_.end() && over->first.first == row.id) {
    // A job that waits has lost its start as well, and will run again.
    const bool may_learn_end = row.phase != SlurmPhase::pending;
    if (may_learn_end && now_s_ - over->second < kRestart_s) return nullptr;
    outlet_.report(fmt::format("job {} is {} again after its end: slurmctld has lost the end",
                               row.id, row.state));
    over_.erase(over);
  }
  Tracked job{.id = row.id, .submit_s = row.submit_s, .restarts = row.restarts, .user = row.user};
  job.is_managed = job.is_chosen = is_chosen(rules_, row);
  job.reading = readings_;
  // A begin time beyond any lease is the user's.
  const bool is_own = row.eligible_s > row.submit_s + rules_.lease_s + 2 &&
                      (has_read_ || row.eligible_s > now_s_ + rules_.lease_s + 2);
  if (is_own) job.not_before_s = row.eligible_s;
  const auto [begun, is_new] = jobs_.emplace(row.id, std::move(job));
  return is_new ? &begun->second : nullptr;
}

void JobFollower::end_missing() {
  std::vector<std::string> missing;
  bool is_shown = false;
  for (const auto& [id, job] : jobs_) {
    if (job.reading == readings_) continue;
    missing.push_back(id);
    is_shown = is_shown || job.stage != Stage::unseen;
  }
  const std::vector<SlurmEnd> ends =
      is_shown ? outlet_.find_ends(missing) : std::vector<SlurmEnd>();
  for (const std::string& id : missing) {
    Tracked& job = jobs_.at(id);
    const auto end = std::find_if(ends.begin(), ends.end(), [&](const SlurmEnd& each) {
      return each.id == id && each.submit_s == job.submit_s;
    });
    if (end == ends.end() && job.stage != Stage::unseen) {
      outlet_.report(fmt::format(
          "job {} of {} is gone: expected its end in squeue or sacct, found none; slurmctld has "
          "lost the job or forgot it",
          id, job.submit_s));
    }
    if (end == ends.end()) {
      leave_world(job, Ending::cancelled);
    } else {
      leave_world(job, end->how, end->ran_s);
    }
    jobs_.erase(id);
  }
}

/// Decides whose choice the required nodes of a waiting job are: an order of this controller, of an
/// earlier one that has stopped, or the user's. A job that has run since an earlier controller
/// ordered it, and was requeued, still has the nodes of that order. The mark of an order is read
/// once: controllers that read at the same instants order alike, and the newest mark is left.
void JobFollower::adopt_nodes(const KnownRows& rows) {
  if (!rules_.acts) return;
  std::vector<std::pair<Tracked*, const SlurmJob*>> open, ordered;
  std::vector<std::string> ids;
  for (const auto& [job, row] : rows) {
    const bool has_order = job->stage == Stage::ordered;
    const bool is_unmarked = has_order && !job->order.is_marked &&
                             sorted(row->required_nodes) == job->order.nodes &&
                             !is_settling(now_s_, restart_s_);
    const bool is_open = row->phase == SlurmPhase::pending && job->is_managed && !has_order &&
                         !job->has_our_nodes && !row->required_nodes.empty();
    if (!is_unmarked && !is_open) continue;
    (is_open ? open : ordered).emplace_back(job, row);
    ids.push_back(row->id);
  }
  if (ids.empty()) return;
  const std::map<std::string, std::string> owners = outlet_.find_owners(ids);
  for (const auto& [job, row] : open) {
    const auto owner = owners.find(job->id);
    adopt_order(*job, *row, owner == owners.end() ? "" : owner->second);
  }
  for (const auto& [job, row] : ordered) {
    const auto owner = owners.find(job->id);
    if (owner == owners.end()) continue;
    job->order.is_marked = true;
    if (owner->second != rules_.owner) leave_foreign(*job, owner->second);
  }
}

void JobFollower::adopt_order(Tracked& job, const SlurmJob& row, const std::string& owner) {
  if (owner.empty()) {
    job.is_managed = false;
    outlet_.report(fmt::format("job {} stays with Slurm: its user chose the nodes {}", job.id,
                               fmt::join(row.required_nodes, ",")));
    return;
  }
  const bool is_known = job.stage == Stage::placed || job.stage == Stage::leaving;
  const bool has_run = job.stage == Stage::unseen && row.restarts > 0;
  if (has_read_ && owner != rules_.owner && !has_run && !is_known) {
    return leave_foreign(job, owner);
  }
  job.has_our_nodes = true;
  if (is_known) return;
  outlet_.send_line(withdraw_line(job.id, rules_.lease_s));
  if (row.is_refused()) outlet_.send_line({release_line(job.id)});
  outlet_.report(
      fmt::format("job {}: took over from {} before Slurm had started the job", job.id, owner));
}

/// Ends the run if another controller orders jobs. A user can copy a mark to own jobs alone: with
/// jobs of several users, one user's marks leave these jobs to Slurm.
void JobFollower::leave_foreign(Tracked& job, const std::string& owner) {
  foreign_users_.insert(job.user);
  const bool has_others = std::any_of(jobs_.begin(), jobs_.end(), [&](const auto& entry) {
    return entry.second.is_managed && entry.second.user != job.user;
  });
  if (foreign_users_.size() > 1 || !has_others) {
    throw Error(ErrorKind::environment,
                fmt::format("job {}: expected this controller alone ({}), found an order of {}: "
                            "stop one of the two",
                            job.id, rules_.owner, owner));
  }
  outlet_.report(
      fmt::format("job {} stays with Slurm: its Comment has the mark of {}, written by "
                  "another controller or by its user",
                  job.id, owner));
  leave_world(job, Ending::cancelled);
  job.is_managed = false;
}

void JobFollower::leave_world(Tracked& job, Ending how, std::int64_t ran_s) {
  if (job.stage == Stage::unseen) return;
  // Programs that Orrery requeues may continue: their earlier runs count as well.
  if (rules_.acts && job.restarts > 0) ran_s = 0;
  outlet_.emit_event(JobDone{job.job, how, ran_s * kNanosPerSecond});
  ids_.erase(job.job);
  job.stage = Stage::unseen;
}

void JobFollower::end_or_stop(Tracked& job, const SlurmJob& row) {
  const bool was_placed = job.stage == Stage::placed;
  const bool has_restarted = row.restarts > job.restarts;
  if (row.phase == SlurmPhase::ended) {
    if (job.stage == Stage::ordered && !row.placed_on.empty()) place_job(job, row);
    const auto ran = run_times_.find(row.id);
    leave_world(job, ending_of(row.state), ran == run_times_.end() ? 0 : ran->second);
    over_[{row.id, row.submit_s}] = now_s_;
    job.submit_s = row.submit_s;
    return;
  }
  if (row.phase == SlurmPhase::pending) {
    if (was_placed && !has_restarted) {
      outlet_.report(
          fmt::format("job {} went back into the queue without a requeue: slurmctld has "
                      "lost its start",
                      job.id));
    } else if (was_placed && job.is_managed && rules_.acts) {
      outlet_.report(
          fmt::format("job {} was requeued by Slurm or a user, without a decision", job.id));
    }
    if (was_placed && job.is_managed) {
      outlet_.emit_event(JobStopped{job.job, 0});
      job.stage = Stage::waiting;
    } else if (was_placed) {
      leave_world(job, Ending::cancelled);
    }
    if (job.stage == Stage::leaving) job.stage = Stage::waiting;
    const bool is_ready = job.is_ready(row, nodes_, now_s_);
    if (job.stage == Stage::waiting && !is_ready) leave_world(job, Ending::cancelled);
    const bool can_wait = row.is_refused() || (job.is_managed && is_startable(row, nodes_));
    if (job.stage == Stage::ordered && !can_wait) {
      outlet_.report(fmt::format("job {} was held or changed after its order ({}): the order ends",
                                 job.id, row.reason));
      leave_world(job, Ending::cancelled);
    }
  } else if (was_placed && (has_restarted || sorted(row.placed_on) != job.placed_on)) {
    outlet_.emit_event(JobStopped{job.job, 0});
    job.stage = Stage::waiting;
  } else if (job.stage == Stage::leaving && now_s_ - job.leaving_since_s > rules_.patience_s) {
    outlet_.report(fmt::format("job {} still runs {} s after its requeue", job.id,
                               now_s_ - job.leaving_since_s));
    job.stage = Stage::waiting;
  }
  job.restarts = row.restarts;
  job.submit_s = row.submit_s;
}

/// Shows the changes that a user made to the request of a job that waits: the job leaves the world
/// and is submitted once more. A job that keeps its size keeps its order.
void JobFollower::follow_request(Tracked& job, const SlurmJob& row) {
  if (row.phase != SlurmPhase::pending) return;
  const bool is_moved = is_chosen(rules_, row) != job.is_chosen;
  if (is_moved) job.is_managed = job.is_chosen = !job.is_chosen;
  const bool is_ordered = job.stage == Stage::ordered;
  if (!is_ordered && job.stage != Stage::waiting) return;
  const JobSpec& known = world_.jobs()[job.job].spec;
  const ParallelLayout asked{.tensor = row.gpus_per_node, .pipeline = row.nodes};
  const bool is_resized = known.layout != asked;
  const bool is_other =
      known.estimate != row.limit_s * kNanosPerSecond || known.pool != pool_of(row);
  if (!is_moved && !is_resized && (is_ordered || !is_other)) return;
  outlet_.report(fmt::format("job {} was changed in Slurm: {} nodes of {} GPUs in {}, {} s", row.id,
                             row.nodes, row.gpus_per_node, row.partition, row.limit_s));
  const bool has_nodes = job.has_our_nodes && !row.required_nodes.empty();
  if (is_ordered || has_nodes) outlet_.send_line(withdraw_line(job.id, rules_.lease_s));
  leave_world(job, Ending::cancelled);
}

void JobFollower::submit_job(Tracked& job, const SlurmJob& row) {
  if (job.stage != Stage::unseen) return;
  const bool occupies = row.phase == SlurmPhase::placed && row.gpus_per_node > 0 &&
                        !nodes_.find_all(row.placed_on).empty();
  const bool waits = row.phase == SlurmPhase::pending && job.is_ready(row, nodes_, now_s_);
  if (!occupies && !waits) return;
  JobSpec spec = request_of(row, nodes_);
  spec.id = job.job = {world_.jobs().submitted()};
  ids_[job.job] = row.id;
  job.stage = Stage::waiting;
  outlet_.emit_event(JobSubmitted{std::move(spec)});
}

/// Shows that Slurm has started the job.
void JobFollower::place_job(Tracked& job, const SlurmJob& row) {
  const bool is_expected = job.stage == Stage::waiting || job.stage == Stage::ordered;
  if (row.placed_on.empty() || !is_expected || row.phase == SlurmPhase::pending) return;
  std::optional<GpuRuns> gpus;
  const bool is_ordered = job.stage == Stage::ordered;
  job.placed_on = sorted(row.placed_on);
  if (is_ordered && job.placed_on == job.order.nodes) {
    gpus = job.order.assign.gpus;
  } else {
    const std::vector<NodeId> nodes = nodes_.find_all(row.placed_on);
    gpus = unowned_gpus(world_.state(), nodes, row.gpus_per_node, nodes_.gpus_per_node());
    for (auto& [id, other] : jobs_) {  // orders for GPUs that the job has taken
      if (gpus) break;
      if (other.stage != Stage::ordered || other.id == job.id) continue;
      if (!has_common_name(other.order.nodes, job.placed_on)) continue;
      outlet_.report(fmt::format(
          "job {}: the order to start on {} is withdrawn: expected its GPUs "
          "free, found job {} on {}",
          id, fmt::join(other.order.nodes, ","), job.id, fmt::join(job.placed_on, ",")));
      withdraw_order(other);
      gpus = unowned_gpus(world_.state(), nodes, row.gpus_per_node, nodes_.gpus_per_node());
    }
  }
  if (!gpus || gpus->empty()) {
    outlet_.report(
        fmt::format("job {}: expected {} free GPUs on each of {}, found fewer; the job is "
                    "not shown to the policy",
                    row.id, row.gpus_per_node, fmt::join(row.placed_on, ",")));
    return leave_world(job, Ending::cancelled);
  }
  if (!is_ordered && job.is_managed && rules_.acts && has_read_) {
    outlet_.report(fmt::format("job {} was started on {} by Slurm or a user, without a decision",
                               row.id, fmt::join(row.placed_on, ",")));
  }
  job.stage = Stage::placed;
  job.failures = 0;
  const JobInfo& info = world_.jobs()[job.job];
  outlet_.emit_event(JobStarted{.job = job.job,
                                .epoch = {info.epoch.value + 1},
                                .from = 0,
                                .where = {std::move(*gpus), info.spec.layout}});
}

// ---- orders ---------------------------------------------------------------------------------

void JobFollower::withdraw_order(Tracked& job) {
  outlet_.send_line(withdraw_line(job.id, rules_.lease_s));
  outlet_.emit_event(JobStopped{job.job, 0});
  job.stage = Stage::waiting;
}

void JobFollower::give_back(Tracked& job, const std::string& why) {
  outlet_.report(
      fmt::format("job {} goes back to Slurm after {} orders: {}", job.id, job.failures, why));
  leave_world(job, Ending::cancelled);
  job.is_managed = false;
}

void JobFollower::check_order(Tracked& job, const SlurmJob& row) {
  if (job.stage != Stage::ordered || row.phase != SlurmPhase::pending) return;
  OrderState state = state_of(job.order, row, now_s_, rules_.patience_s);
  // The update that ordered the job has also ended its dependency on the keeper.
  if (state == OrderState::waits && leases_.is_kept(job.id)) state = OrderState::lost;
  const std::string nodes = fmt::format("{}", fmt::join(job.order.nodes, ","));
  if (state == OrderState::waits) return;
  if (state == OrderState::lost && is_settling(now_s_, restart_s_)) return;
  if (state == OrderState::lost && job.order.repeats < kMostRepeats) {
    ++job.order.repeats;
    job.order.is_marked = false;
    outlet_.report(fmt::format("job {}: expected the order to start on {}, found it lost; repeated",
                               job.id, nodes));
    return outlet_.send_line(leases_.start_line(job.id, job.order.nodes));
  }
  ++job.failures;
  const std::string why =
      state == OrderState::refused && row.has_bad_constraints()
          ? fmt::format("Slurm holds it: {} do not fit it", nodes)
      : state == OrderState::refused
          ? fmt::format("Slurm holds it: {} refused the launch (see slurmctld's log)", nodes)
      : state == OrderState::lost ? "Slurm does not keep the order"
                                  : fmt::format("not started on {} for {} s: {}", nodes,
                                                now_s_ - job.order.since_s, row.reason);
  outlet_.report(fmt::format("job {}: {}; the order is withdrawn", job.id, why));
  withdraw_order(job);
  if (state == OrderState::refused) outlet_.send_line({release_line(job.id)});
  if (job.failures >= kMostFailures) give_back(job, why);
}

/// Releases a job that Slurm holds because it has taken back the start of an earlier order.
void JobFollower::release_refused(Tracked& job, const SlurmJob& row) {
  const bool is_ours = job.is_managed && job.has_our_nodes && job.stage == Stage::unseen;
  if (!rules_.acts || !is_ours || !row.is_refused()) return;
  outlet_.report(fmt::format("job {}: Slurm holds it ({}); it is released", row.id, row.reason));
  outlet_.send_line(withdraw_line(row.id, rules_.lease_s));
  outlet_.send_line({release_line(row.id)});
  if (++job.failures >= kMostFailures) give_back(job, row.reason);
}

// ---- decisions ------------------------------------------------------------------------------

std::string JobFollower::id_of(JobId job) const {
  const auto id = ids_.find(job);
  return id == ids_.end() ? "" : id->second;
}

std::string JobFollower::objection(const Assign& assign) const {
  const auto id = ids_.find(assign.job);
  if (id == ids_.end()) return "the job has left the queue";
  const Tracked& job = jobs_.at(id->second);
  if (!job.is_managed) {
    return fmt::format(
        "job {} is observed only: it is of another partition or account, or was "
        "given back to Slurm",
        job.id);
  }
  if (job.stage == Stage::leaving) return fmt::format("job {} still leaves its nodes", job.id);
  if (assign.is_release()) return {};
  if (job.stage != Stage::waiting) return "a job stays where it was started until it leaves";
  if (is_settling(now_s_, restart_s_)) {
    return fmt::format("slurmctld started {} s ago, and its nodes report their jobs first",
                       now_s_ - restart_s_);
  }
  const ParallelLayout& request = world_.jobs()[assign.job].spec.layout;
  if (nodes_.has_shape(assign.gpus, request.pipeline, request.tensor)) return {};
  return fmt::format("job {} requests {} GPUs on each of {} nodes; use the placement 'per-node'",
                     job.id, request.tensor, request.pipeline);
}

void JobFollower::order(const Assign& assign, std::int64_t now_s) {
  Tracked& job = jobs_.at(ids_.at(assign.job));
  if (!assign.is_release()) {
    job.stage = Stage::ordered;
    job.has_our_nodes = true;
    job.order = {.assign = assign, .nodes = nodes_.names_of(assign.gpus), .since_s = now_s};
    return outlet_.send_line(leases_.start_line(job.id, job.order.nodes));
  }
  if (job.stage == Stage::ordered) return withdraw_order(job);
  outlet_.send_line({requeue_line(job.id)});
  outlet_.emit_event(JobStopped{job.job, 0});
  job.stage = Stage::leaving;
  job.leaving_since_s = now_s;
}

void JobFollower::set_acting(bool acts) {
  has_read_ = has_read_ && (rules_.acts || !acts);
  rules_.acts = acts;
}

std::size_t JobFollower::open_orders() const {
  return static_cast<std::size_t>(std::count_if(jobs_.begin(), jobs_.end(), [](const auto& entry) {
    return entry.second.stage == Stage::ordered;
  }));
}

}  // namespace orrery::live

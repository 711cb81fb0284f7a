#include "live/slurm/waiting_leases.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "live/slurm/keeper_job.hpp"

namespace orrery::live {
namespace {

constexpr std::uint32_t kMostTries = 3;   // moves of one job, probes, renewals of a keeper
constexpr std::size_t kProbes = 5;        // jobs that show whether jobs can depend on the keeper
constexpr std::int64_t kAppears_s = 10;   // time in which a submitted keeper is shown
constexpr std::int64_t kPause_s = 600;    // time between a refusal and the next attempt
constexpr std::int64_t kLongLease_s = 5;  // a begin later than a lease and this is shortened

/// Returns the row of a keeper that still waits; null without one.
const SlurmJob* find_row(const std::vector<SlurmJob>& rows, const SlurmKeeper& keeper) {
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const SlurmJob& job) {
    return job.id == keeper.id && job.submit_s == keeper.submit_s &&
           job.phase == SlurmPhase::pending;
  });
  return row == rows.end() ? nullptr : &*row;
}

}  // namespace

void WaitingLeases::read_rows(const std::vector<SlurmJob>& rows) {
  kept_.clear();
  for (const SlurmJob& row : rows) {
    if (row.keeper.empty() || row.phase != SlurmPhase::pending) continue;
    kept_[row.id] = plain_dependency(row.dependency);
  }
}

SlurmLine WaitingLeases::start_line(const std::string& id,
                                    const std::vector<std::string>& nodes) const {
  const auto kept = kept_.find(id);
  return live::start_line(id, nodes, rules_.owner,
                          kept == kept_.end() ? std::nullopt : std::optional(kept->second));
}

// ---- jobs -----------------------------------------------------------------------------------

void WaitingLeases::renew_leases(const std::vector<WaitingJob>& waiting,
                                 const std::vector<SlurmJob>& rows, std::int64_t now_s) {
  if (!outlet_.can_send()) return;
  const std::size_t most = rules_.keeper_from - (is_keeping_ ? rules_.keeper_from / 10 : 0);
  is_keeping_ = waiting.size() > most && now_s >= paused_until_s_;
  const bool has_dependents = std::any_of(waiting.begin(), waiting.end(),
                                          [](const auto& job) { return !job.row->keeper.empty(); });
  follow_keeper(rows, has_dependents, now_s);
  prove_keeper(waiting, now_s);
  std::vector<std::string> leases;
  std::map<std::string, std::vector<std::string>> moves;  // keys are the fields of the lines
  const std::map<std::string, std::uint32_t> before = std::exchange(tries_, {});
  for (const auto& [row, not_before_s, has_our_nodes] : waiting) {
    // Nodes of an earlier order would bind the job if the lease ended.
    if (!row->required_nodes.empty() && has_our_nodes) {
      outlet_.send_line(withdraw_line(row->id, rules_.lease_s));
      continue;
    }
    const std::int64_t left = row->eligible_s - now_s;
    const auto tried = before.find(row->id);
    const std::uint32_t tries = tried == before.end() ? 0 : tried->second;
    const std::optional<std::string> dependency = new_dependency(*row);
    if (dependency) tries_[row->id] = std::min(tries + 1, kMostTries);
    const bool moves_now = dependency && tries < kMostTries;
    const bool gets_lease = moves_now && !is_keeping_ && left < rules_.lease_s;
    if (moves_now) {
      moves[fmt::format("Dependency={}{}", *dependency,
                        gets_lease ? fmt::format(" StartTime=now+{}", rules_.lease_s) : "")]
          .push_back(row->id);
      if (is_keeping_) kept_[row->id] = plain_dependency(row->dependency);
    }
    const bool is_moved = moves_now && tries == 0 && is_proven_;
    const bool is_short = left < rules_.lease_s / 2 && !is_safe(*row) && !is_moved;
    const bool is_long = left > rules_.lease_s + kLongLease_s && now_s >= not_before_s;
    if (!gets_lease && (is_short || is_long)) leases.push_back(row->id);
  }
  for (const auto& [fields, ids] : moves) {
    for (std::string& line : update_lines(ids, fields)) outlet_.send_line({std::move(line)});
  }
  for (std::string& line : lease_lines(leases, rules_.lease_s)) {
    outlet_.send_line({std::move(line)});
  }
}

/// Returns the dependency that the job gets now, because it must wait for the keeper or must not
/// any more; nothing if the present one stays.
std::optional<std::string> WaitingLeases::new_dependency(const SlurmJob& row) {
  std::string own = plain_dependency(row.dependency);
  if (!is_keeping_) {
    if (row.keeper.empty()) return {};
    return own;
  }
  if (!keeper_ || is_safe(row) || !can_wait_for_keeper(row.dependency)) return {};
  if (!is_proven_) {
    if (probes_left_ == 0 || !own.empty()) return {};
    if (probes_left_ == kProbes) ++probes_;
    --probes_left_;
  }
  return own + (own.empty() ? "" : ",") + "afterany:" + keeper_->id;
}

// ---- the keeper -----------------------------------------------------------------------------

void WaitingLeases::follow_keeper(const std::vector<SlurmJob>& rows, bool has_dependents,
                                  std::int64_t now_s) {
  const bool is_needed = is_keeping_ || has_dependents;
  if (keeper_ && find_row(rows, *keeper_) == nullptr) {
    if (is_needed) {
      outlet_.report(
          fmt::format("keeper job {} has ended, so that Slurm may start the jobs that "
                      "waited for it; they get leases or a new keeper",
                      keeper_->id));
    }
    keeper_.reset();
  }
  if (!is_needed) return;
  if (!keeper_ && adopt_keeper(rows) && !keeper_ && is_keeping_) submit_keeper(now_s);
  if (keeper_) renew_keeper(*find_row(rows, *keeper_), now_s);
}

/// Finds the newest keeper that a controller of this user with the same rules has submitted.
/// Returns false if Slurm does not answer.
bool WaitingLeases::adopt_keeper(const std::vector<SlurmJob>& rows) {
  const std::optional<std::vector<SlurmKeeper>> found = outlet_.find_keepers();
  if (!found) return false;
  for (const SlurmKeeper& each : *found) {
    const bool is_own = each.user == rules_.user && each.comment == keeper_comment(rules_);
    const bool is_newer = !keeper_ || each.submit_s >= keeper_->submit_s;
    if (is_own && is_newer && find_row(rows, each) != nullptr) keeper_ = each;
  }
  if (!keeper_) return true;
  if (keeper_->id != submitted_) {
    outlet_.report(fmt::format("took over the keeper job {}", keeper_->id));
  }
  submitted_.clear();
  is_proven_ = false;
  probes_ = lost_renewals_ = 0;
  renewed_from_s_ = 0;
  tries_.clear();
  return true;
}

void WaitingLeases::submit_keeper(std::int64_t now_s) {
  if (now_s < submit_after_s_) return;
  if (!std::exchange(submitted_, {}).empty()) {
    return refuse_keeper(fmt::format("expected the submitted job {} with its Comment in squeue, "
                                     "found none",
                                     kKeeperName),
                         now_s);
  }
  try {
    submitted_ = outlet_.submit_job(keeper_words(rules_));
  } catch (const Error& error) {
    return refuse_keeper(error.message(), now_s);
  }
  submit_after_s_ = now_s + kAppears_s;
  outlet_.report(
      fmt::format("more than {} managed jobs wait: they get the keeper job {} instead "
                  "of leases",
                  rules_.keeper_from, submitted_));
}

void WaitingLeases::renew_keeper(const SlurmJob& row, std::int64_t now_s) {
  const std::int64_t left = row.eligible_s - now_s;
  if (row.is_held) {  // a held keeper would never end
    outlet_.send_line({release_line(row.id)});
    ++lost_renewals_;
  } else if (left < rules_.lease_s / 2 || left > rules_.lease_s + kLongLease_s) {
    lost_renewals_ = row.eligible_s == renewed_from_s_ ? lost_renewals_ + 1 : 0;
    renewed_from_s_ = row.eligible_s;
    outlet_.send_line({keeper_line(row.id, rules_.lease_s)});
  } else {
    lost_renewals_ = 0;
  }
  if (lost_renewals_ < kMostTries || !is_keeping_) return;
  refuse_keeper(fmt::format("expected a later begin of the keeper job {} after {} updates, found "
                            "{}{}",
                            row.id, lost_renewals_, row.eligible_s, row.is_held ? ", held" : ""),
                now_s);
}

/// Decides how many jobs are sent to the keeper: the first five until a reading shows one of them.
void WaitingLeases::prove_keeper(const std::vector<WaitingJob>& waiting, std::int64_t now_s) {
  probes_left_ = 0;
  if (!keeper_ || !is_keeping_) return;
  is_proven_ = is_proven_ || std::any_of(waiting.begin(), waiting.end(),
                                         [&](const auto& job) { return is_safe(*job.row); });
  if (is_proven_) return;
  probes_left_ = kProbes;
  if (probes_ >= kMostTries) {
    refuse_keeper("expected jobs that depend on it after three updates, found none", now_s);
  }
}

void WaitingLeases::refuse_keeper(const std::string& why, std::int64_t now_s) {
  if (why != refusal_) {
    outlet_.report(
        fmt::format("no keeper job: {}; waiting jobs have leases of their own, and a "
                    "keeper is tried again in {} s",
                    why, kPause_s));
  }
  refusal_ = why;
  is_keeping_ = false;
  paused_until_s_ = now_s + kPause_s;
}

}  // namespace orrery::live

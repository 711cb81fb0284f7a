#include "sim/contention/contention.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "core/units.hpp"
#include "sim/estimates/step/side_by_side.hpp"

namespace orrery::sim {
namespace {

/// Returns true if two ascending lists of links have a common link.
bool meet(const std::vector<LinkId>& a, const std::vector<LinkId>& b) {
  auto i = a.begin();
  auto j = b.begin();
  while (i != a.end() && j != b.end()) {
    if (*i == *j) return true;
    *i < *j ? ++i : ++j;
  }
  return false;
}

}  // namespace

void Contention::enter_job(JobId job, Work work) {
  remove_job(job);
  entries_[job].work = std::move(work);
  if (entries_.size() == 1) return;
  find_links();
  mark_changed(group_of(job));
}

void Contention::find_links() {
  for (auto& [job, entry] : entries_) {
    const Work& work = entry.work;
    if (!entry.links) entry.links = work.links;
    if (!entry.links) entry.links = work.stepper->links_crossed_by(work.state, work.micro_batches);
  }
}

void Contention::remove_job(JobId job) {
  const auto found = entries_.find(job);
  if (found == entries_.end()) return;
  if (entries_.size() > 1) {
    const std::vector<JobId> group = group_of(job);
    entries_.erase(found);
    return mark_changed(group);
  }
  entries_.erase(found);
}

void Contention::next_step(JobId job, Nanos at) {
  const auto found = entries_.find(job);
  if (found != entries_.end()) found->second.next = at;
}

std::uint64_t Contention::company(JobId job) const {
  const auto found = entries_.find(job);
  return found == entries_.end() ? 0 : found->second.company;
}

/// A removed job may have been the only connection between the others, so the group of each
/// remaining job is computed again. A job that shares no links keeps version 0.
void Contention::mark_changed(const std::vector<JobId>& group) {
  ++changes_;
  for (const JobId job : group) {
    const auto found = entries_.find(job);
    if (found == entries_.end()) continue;
    found->second.beside = nullptr;
    found->second.company = entries_.size() > 1 && group_of(job).size() > 1 ? changes_ : 0;
  }
}

std::vector<JobId> Contention::group_of(JobId job) const {
  std::set<JobId> group{job};
  std::vector<JobId> to_look_at{job};
  while (!to_look_at.empty()) {
    const Entry& at = entries_.at(to_look_at.back());
    to_look_at.pop_back();
    for (const auto& [other, entry] : entries_) {
      if (group.contains(other) || !meet(*at.links, *entry.links)) continue;
      group.insert(other);
      to_look_at.push_back(other);
    }
  }
  return {group.begin(), group.end()};
}

std::shared_ptr<const estimates::SimulatedStep> Contention::step(JobId job, Nanos now) {
  const auto found = entries_.find(job);
  if (found == entries_.end() || found->second.company == 0) return nullptr;
  if (!found->second.beside) replace_steps(group_of(job), now);
  return found->second.beside;
}

void Contention::replace_steps(const std::vector<JobId>& group, Nanos now) {
  Known known;
  std::vector<const estimates::Stepper*> key;
  bool steady = true;
  for (const JobId job : group) {
    const Work& work = entries_.at(job).work;
    known.steppers.push_back(work.stepper);
    key.push_back(work.stepper.get());
    steady = steady && work.steady;
  }
  const auto before = steady ? known_.find(key) : known_.end();
  known.steps = before != known_.end() ? before->second.steps : simulate_group(group, now);
  for (std::size_t i = 0; i < group.size(); ++i) {
    entries_.at(group[i]).beside = known.steps[i];
  }
  if (!steady || before != known_.end()) return;
  if (known_.size() >= kMostKnown) known_.clear();
  known_.emplace(std::move(key), std::move(known));
}

Contention::Steps Contention::simulate_group(const std::vector<JobId>& group, Nanos now) const {
  std::map<LinkId, std::size_t> users;
  for (const JobId job : group) {
    for (const LinkId link : *entries_.at(job).links) ++users[link];
  }
  std::vector<std::unique_ptr<estimates::SimulatedStep>> steps;
  std::vector<estimates::JobBeside> jobs;
  for (const JobId job : group) {
    const Entry& entry = entries_.at(job);
    estimates::Stepper& stepper = *entry.work.stepper;
    std::vector<LinkId> shared;
    for (const LinkId link : *entry.links) {
      if (users.at(link) > 1) shared.push_back(link);
    }
    steps.push_back(stepper.planned(entry.work.state, entry.work.micro_batches, std::move(shared)));
    jobs.push_back({.graph = stepper.graph(),
                    .plan = steps.back()->plan,
                    .prices = stepper.prices(),
                    .state = entry.work.state,
                    .begins = to_seconds(std::max<Nanos>(0, entry.next - now))});
  }
  estimates::Engine& engine = entries_.at(group.front()).work.stepper->engine();
  std::vector<estimates::SteadyStep> steady = estimates::steady_steps(engine, jobs);
  Steps out;
  for (std::size_t i = 0; i < group.size(); ++i) {
    steps[i]->run = std::move(steady[i].run);
    steps[i]->run.duration = steady[i].mean;
    out.push_back(std::move(steps[i]));
  }
  return out;
}

}  // namespace orrery::sim

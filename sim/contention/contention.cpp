#include "sim/contention/contention.hpp"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "core/units.hpp"
#include "sim/estimates/engine/max_min_shares.hpp"
#include "sim/estimates/step/joint_run.hpp"

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

/// Returns the typical steps of jobs, simulated on an engine without SimGrid that has the room of
/// `engine` and goes on from its clock: the same jobs take the same bits of time on either. Then
/// advances the clock of `engine` as far.
std::vector<estimates::SteadyStep> joint_runs(estimates::Engine& engine,
                                              const std::vector<estimates::JobBeside>& jobs) {
  const std::unique_ptr<estimates::Engine> own =
      estimates::max_min_engine(engine.hosts(), engine.links(), engine.now());
  std::vector<estimates::SteadyStep> steps = estimates::steady_steps(*own, jobs);
  while (engine.now() < own->now()) {
    engine.after(own->now() - engine.now(), [] {});
    engine.run();
  }
  return steps;
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

/// A removed job may have been the only connection between the others, so the groups of the
/// remaining jobs are computed again. A job that shares no links keeps version 0.
void Contention::mark_changed(const std::vector<JobId>& group) {
  ++changes_;
  std::set<JobId> left(group.begin(), group.end());
  std::erase_if(left, [this](JobId job) { return !entries_.contains(job); });
  while (!left.empty()) {
    const std::vector<JobId> together = group_of(*left.begin());
    for (const JobId job : together) {
      entries_.at(job).beside = nullptr;
      entries_.at(job).company = together.size() > 1 ? changes_ : 0;
      left.erase(job);
    }
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
  const bool are_steady = std::all_of(group.begin(), group.end(),
                                      [this](JobId job) { return entries_.at(job).work.steady; });
  if (are_steady) return replace_steady_steps(group);
  Steps steps = plan_steps(group);
  const std::vector<estimates::JobBeside> jobs = jobs_beside(group, steps, now);
  estimates::Engine& engine = entries_.at(group.front()).work.stepper->engine();
  std::vector<estimates::SteadyStep> runs = joint_runs(engine, jobs);
  for (std::size_t i = 0; i < group.size(); ++i) {
    steps[i]->run = std::move(runs[i].run);
    steps[i]->run.duration = runs[i].mean;
    entries_.at(group[i]).beside = std::move(steps[i]);
  }
}

void Contention::replace_steady_steps(const std::vector<JobId>& group) {
  const estimates::HardwareState nominal;
  const std::vector<std::vector<LinkId>> shared = shared_links(group);
  std::vector<std::shared_ptr<const Steady>> steadies;
  std::vector<estimates::JobBeside> jobs;
  std::vector<const estimates::FlowGraph*> graphs;
  for (std::size_t i = 0; i < group.size(); ++i) {
    const Work& work = entries_.at(group[i]).work;
    steadies.push_back(steady(work, shared[i]));
    jobs.push_back({.graph = work.stepper->graph(),
                    .plan = steadies.back()->step->plan,
                    .prices = work.stepper->prices(),
                    .state = nominal});
    graphs.push_back(&steadies.back()->flows);
  }
  for (const estimates::FlowGroup& flows : estimates::flow_groups(jobs, graphs)) {
    const std::vector<double>& means = known_means(flows);
    for (std::size_t lane = 0; lane < flows.lanes.size(); ++lane) {
      auto step = std::make_shared<estimates::SimulatedStep>();
      step->run.duration = means[lane];
      entries_.at(group[flows.lanes[lane].job]).beside = std::move(step);
    }
  }
}

std::shared_ptr<const Contention::Steady> Contention::steady(const Work& work,
                                                             const std::vector<LinkId>& shared) {
  if (steady_points_ >= kMostPoints) {
    steadies_.clear();
    steady_points_ = 0;
  }
  std::shared_ptr<const Steady>& known =
      steadies_[{work.stepper.get(), work.micro_batches, shared}];
  if (!known) {
    estimates::Stepper& stepper = *work.stepper;
    std::shared_ptr<const estimates::SimulatedStep> step =
        stepper.planned({}, work.micro_batches, shared);
    estimates::FlowGraph flows =
        estimates::flow_graph(stepper.graph(), step->plan, stepper.prices());
    steady_points_ += flows.points.size();
    known = std::make_shared<Steady>(Steady{work.stepper, std::move(step), std::move(flows)});
  }
  return known;
}

const std::vector<double>& Contention::known_means(const estimates::FlowGroup& group) {
  if (known_.size() >= kMostKnown || known_bytes_ >= kMostBytes) {
    known_.clear();
    known_bytes_ = 0;
  }
  std::vector<double>& means = known_[group.text];
  if (!means.empty()) return means;
  known_bytes_ += group.text.size();
  return means = estimates::mean_steps(group);
}

std::vector<std::vector<LinkId>> Contention::shared_links(const std::vector<JobId>& group) const {
  std::vector<LinkId> all;
  for (const JobId job : group) {
    const std::vector<LinkId>& links = *entries_.at(job).links;
    all.insert(all.end(), links.begin(), links.end());
  }
  std::sort(all.begin(), all.end());
  std::vector<std::vector<LinkId>> shared(group.size());
  for (std::size_t i = 0; i < group.size(); ++i) {
    for (const LinkId link : *entries_.at(group[i]).links) {
      const auto [first, last] = std::equal_range(all.begin(), all.end(), link);
      if (last - first > 1) shared[i].push_back(link);
    }
  }
  return shared;
}

Contention::Steps Contention::plan_steps(const std::vector<JobId>& group) const {
  std::vector<std::vector<LinkId>> shared = shared_links(group);
  Steps steps;
  for (std::size_t i = 0; i < group.size(); ++i) {
    const Work& work = entries_.at(group[i]).work;
    steps.push_back(work.stepper->planned(work.state, work.micro_batches, std::move(shared[i])));
  }
  return steps;
}

std::vector<estimates::JobBeside> Contention::jobs_beside(const std::vector<JobId>& group,
                                                          const Steps& steps, Nanos now) const {
  std::vector<estimates::JobBeside> jobs;
  for (std::size_t i = 0; i < group.size(); ++i) {
    const Entry& entry = entries_.at(group[i]);
    jobs.push_back({.graph = entry.work.stepper->graph(),
                    .plan = steps[i]->plan,
                    .prices = entry.work.stepper->prices(),
                    .state = entry.work.state,
                    .begins = to_seconds(std::max<Nanos>(0, entry.next - now)),
                    .duration_only = entry.work.steady});
  }
  return jobs;
}

}  // namespace orrery::sim

#include "sim/estimates/step/joint_links.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace orrery::estimates {
namespace {

/// Flows of a job on one of its slots: (flow, flows on the link).
using Crossings = std::vector<std::pair<std::uint32_t, std::uint32_t>>;
/// Job and one of its slots.
using JobSlot = std::pair<std::size_t, std::uint32_t>;
/// Flows of jobs on one link.
struct LinkUse {
  double bandwidth = 0;
  std::vector<std::pair<std::size_t, Crossings>> users;  ///< jobs with their flows, by job
  friend auto operator<=>(const LinkUse&, const LinkUse&) = default;
};

std::vector<Crossings> crossings_of(const Plan& plan) {
  std::vector<Crossings> all(plan.slots.size());
  std::uint32_t flow = 0;
  for (const CommPlan& comm : plan.comms) {
    for (const CommPhase& phase : comm.phases) {
      for (const WideFlow& part : phase.parts) {
        for (const std::uint32_t slot : part.links) {
          Crossings& at = all[slot];
          if (at.empty() || at.back().first != flow) at.emplace_back(flow, 0);
          ++at.back().second;
        }
        ++flow;
      }
    }
  }
  return all;
}

std::vector<std::vector<Crossings>> crossings_of(const std::vector<JobBeside>& jobs) {
  std::vector<std::vector<Crossings>> all;
  for (const JobBeside& job : jobs) all.push_back(crossings_of(job.plan));
  return all;
}

/// Returns the jobs and slots of each pinned link, by LinkId.
std::map<std::uint32_t, std::vector<JobSlot>> users_of_pinned(const std::vector<JobBeside>& jobs) {
  std::map<std::uint32_t, std::vector<JobSlot>> users;
  for (std::size_t job = 0; job < jobs.size(); ++job) {
    for (const auto& [link, slot] : jobs[job].plan.pinned) users[link].emplace_back(job, slot);
  }
  return users;
}

LinkUse use_of(const std::vector<JobBeside>& jobs,
               const std::vector<std::vector<Crossings>>& crossings,
               const std::vector<JobSlot>& users) {
  LinkUse use;
  for (const auto& [job, slot] : users) {
    use.bandwidth = jobs[job].plan.slots[slot].bandwidth;
    use.users.emplace_back(job, crossings[job][slot]);
  }
  return use;
}

/// Returns true if `wide` limits the flows of `narrow` at least as much as `narrow` does: each of
/// them crosses `wide` as often or more, and `wide` has no more bandwidth.
bool covers(const LinkUse& wide, const LinkUse& narrow) {
  if (&wide == &narrow || wide.bandwidth > narrow.bandwidth) return false;
  return std::all_of(narrow.users.begin(), narrow.users.end(), [&wide](const auto& user) {
    const auto same = std::find_if(wide.users.begin(), wide.users.end(),
                                   [&user](const auto& each) { return each.first == user.first; });
    if (same == wide.users.end()) return false;
    const Crossings& flows = same->second;
    return std::all_of(user.second.begin(), user.second.end(), [&flows](const auto& crossing) {
      const auto found = std::lower_bound(flows.begin(), flows.end(), crossing);
      return found != flows.end() && found->first == crossing.first;
    });
  });
}

/// Uses of links, by the flows that cross them. The uses must outlive this object.
class UsesByFlow {
 public:
  void add(const LinkUse& use) {
    for (const auto& [job, crossings] : use.users) {
      for (const auto& [flow, times] : crossings) uses_[{job, flow}].push_back(&use);
    }
  }
  /// Returns true if one of the uses covers `narrow`; false if no flow crosses `narrow`.
  bool has_cover(const LinkUse& narrow) const {
    const auto& [job, crossings] = narrow.users.front();
    if (crossings.empty()) return false;
    const auto found = uses_.find({job, crossings.front().first});
    return found != uses_.end() &&
           std::any_of(found->second.begin(), found->second.end(),
                       [&narrow](const LinkUse* use) { return covers(*use, narrow); });
  }

 private:
  std::map<JobSlot, std::vector<const LinkUse*>> uses_;  ///< uses by job and flow
};

}  // namespace

JointLinks joint_links(const std::vector<JobBeside>& jobs) {
  const std::vector<std::vector<Crossings>> crossings = crossings_of(jobs);
  JointLinks links;
  for (const JobBeside& job : jobs) {
    links.numbers.emplace_back(job.plan.slots.size(), JointLinks::kNone);
  }
  std::set<LinkUse> known;
  UsesByFlow pinned_uses;
  std::set<JobSlot> pinned;
  std::vector<std::pair<const LinkUse*, std::vector<JobSlot>>> each;  // no use: a link is down
  for (auto& [link, users] : users_of_pinned(jobs)) {
    pinned.insert(users.begin(), users.end());
    if (jobs[users.front().first].state.down.contains(link)) {
      each.emplace_back(nullptr, users);
      continue;
    }
    const auto [use, is_new] = known.insert(use_of(jobs, crossings, users));
    if (!is_new) continue;
    pinned_uses.add(*use);
    each.emplace_back(&*use, users);
  }
  for (const auto& [use, users] : each) {
    if (use != nullptr && pinned_uses.has_cover(*use)) continue;
    for (const auto& [job, slot] : users) links.numbers[job][slot] = links.count;
    ++links.count;
  }
  for (std::size_t job = 0; job < jobs.size(); ++job) {
    for (std::uint32_t slot = 0; slot < links.numbers[job].size(); ++slot) {
      if (pinned.contains({job, slot})) continue;
      const LinkUse own = use_of(jobs, crossings, {{job, slot}});
      if (!pinned_uses.has_cover(own)) links.numbers[job][slot] = links.count++;
    }
  }
  return links;
}

}  // namespace orrery::estimates

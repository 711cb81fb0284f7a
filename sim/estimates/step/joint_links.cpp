#include "sim/estimates/step/joint_links.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <type_traits>
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

/// Writer of the bytes of values into a text. Texts are equal if the same values were written.
class PatternText {
 public:
  template <class Value>
  void add(const Value& value) {
    static_assert(std::is_arithmetic_v<Value> || std::is_enum_v<Value>);
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void add_text(const std::string& text) {
    add(text.size());
    text_ += text;
  }
  void add_numbers(const std::vector<std::uint32_t>& numbers) {
    add(numbers.size());
    for (const std::uint32_t number : numbers) add(number);
  }
  void add_use(const LinkUse& use) {
    add(use.bandwidth);
    add(use.users.size());
    for (const auto& [job, crossings] : use.users) {
      add(job);
      add(crossings.size());
      for (const auto& [flow, times] : crossings) {
        add(flow);
        add(times);
      }
    }
  }
  std::string take_text() { return std::move(text_); }

 private:
  std::string text_;
};

void add_comms(const Plan& plan, PatternText& text) {
  text.add(plan.comms.size());
  for (const CommPlan& comm : plan.comms) {
    text.add(comm.phases.size());
    for (const CommPhase& phase : comm.phases) {
      text.add(phase.latency.value);
      text.add(phase.parts.size());
      for (const WideFlow& part : phase.parts) text.add(part.share);
    }
  }
}

void add_groups(const Plan& plan, PatternText& text) {
  text.add(plan.groups.size());
  for (const GroupPlan& group : plan.groups) {
    text.add(group.stage);
    text.add(group.communicator);
    text.add_numbers(group.classes);
    text.add(group.ways.size());
    for (const GroupPlan::Way& way : group.ways) {
      text.add(way.collective);
      text.add(way.bytes);
      text.add(way.plan);
      text.add(way.carried);
      text.add(way.coding.value);
      text.add(way.algorithm);
    }
  }
  for (const std::vector<std::uint32_t>& groups : plan.groups_of) text.add_numbers(groups);
}

/// Returns the bytes of a job and of its plan, without links.
std::string job_text(const JobBeside& job) {
  PatternText text;
  text.add_text(job.graph.job().SerializeAsString());
  text.add(job.prices.size());
  for (const BlockPrice& price : job.prices) {
    for (const double value : {price.compute.value, price.tensor.value, price.moved.value,
                               price.products.value, price.memory.value}) {
      text.add(value);
    }
  }
  text.add(job.begins);
  const Plan& plan = job.plan;
  for (const std::uint32_t value : {plan.stages, plan.members, plan.member_hosts}) text.add(value);
  text.add(plan.classes.size());
  for (const ReplicaClass& each : plan.classes) {
    text.add(each.members.size());
    text.add(each.micro_batches);
  }
  add_comms(plan, text);
  text.add_numbers(plan.onward);
  text.add_numbers(plan.back);
  add_groups(plan, text);
  return text.take_text();
}

/// Returns the flows on each engine link.
std::vector<LinkUse> engine_uses(const std::vector<JobBeside>& jobs,
                                 const std::vector<std::vector<Crossings>>& crossings,
                                 const JointLinks& links) {
  std::vector<LinkUse> uses(links.count);
  for (std::size_t job = 0; job < jobs.size(); ++job) {
    for (std::uint32_t slot = 0; slot < links.numbers[job].size(); ++slot) {
      const std::uint32_t number = links.numbers[job][slot];
      if (number == JointLinks::kNone) continue;
      uses[number].bandwidth = jobs[job].plan.slots[slot].bandwidth;
      uses[number].users.emplace_back(job, crossings[job][slot]);
    }
  }
  return uses;
}

/// Returns for each job the bytes of its own view of its links: its flows on each, and the number
/// of jobs that cross the link.
std::vector<std::string> views_of_links(std::size_t jobs, const std::vector<LinkUse>& uses) {
  std::vector<std::set<std::string>> views(jobs);
  for (const LinkUse& use : uses) {
    for (const auto& [job, flows] : use.users) {
      PatternText text;
      text.add(use.users.size());
      text.add_use({use.bandwidth, {{0, flows}}});
      views[job].insert(text.take_text());
    }
  }
  std::vector<std::string> texts(jobs);
  for (std::size_t job = 0; job < jobs; ++job) {
    for (const std::string& view : views[job]) texts[job] += view;
  }
  return texts;
}

/// Returns the uses, each once, with jobs numbered by their place in `order`.
std::set<LinkUse> uses_in_order(std::vector<LinkUse> uses, const std::vector<std::size_t>& order) {
  std::vector<std::size_t> place(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  std::set<LinkUse> ordered;
  for (LinkUse& use : uses) {
    for (auto& [job, flows] : use.users) job = place[job];
    std::sort(use.users.begin(), use.users.end());
    ordered.insert(std::move(use));
  }
  return ordered;
}

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

JointPattern joint_pattern(const std::vector<JobBeside>& jobs) {
  const std::vector<std::vector<Crossings>> crossings = crossings_of(jobs);
  std::vector<LinkUse> uses = engine_uses(jobs, crossings, joint_links(jobs));
  std::vector<std::pair<std::string, std::string>> texts;
  std::vector<std::string> views = views_of_links(jobs.size(), uses);
  for (std::size_t job = 0; job < jobs.size(); ++job) {
    texts.emplace_back(job_text(jobs[job]), std::move(views[job]));
  }
  JointPattern pattern;
  pattern.order.resize(jobs.size());
  std::iota(pattern.order.begin(), pattern.order.end(), std::size_t{0});
  std::stable_sort(pattern.order.begin(), pattern.order.end(),
                   [&texts](std::size_t a, std::size_t b) { return texts[a] < texts[b]; });
  PatternText text;
  for (const std::size_t job : pattern.order) text.add_text(texts[job].first);
  for (const LinkUse& use : uses_in_order(std::move(uses), pattern.order)) {
    text.add_use(use);
  }
  pattern.text = text.take_text();
  return pattern;
}

}  // namespace orrery::estimates

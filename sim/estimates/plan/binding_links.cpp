#include "sim/estimates/plan/binding_links.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <utility>

#include "core/tables/hash_index.hpp"
#include "core/tables/radix_sort.hpp"

namespace orrery::estimates {
namespace {

/// (flow, flows on the link), ascending by flow.
using ConstraintView = std::span<const std::pair<std::uint32_t, std::uint32_t>>;

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  return (hash ^ value) * 0x100000001B3ull ^ (hash >> 29);
}

std::uint64_t hash_of(double rate, ConstraintView constraint) {
  std::uint64_t hash = static_cast<std::uint64_t>(rate);
  for (const auto& [flow, times] : constraint) hash = mix(mix(hash, flow), times);
  return hash;
}

/// Flows of each link: the entries of link l are list[first[l]] to list[first[l + 1] - 1].
struct Crossings {
  Crossings(std::span<const std::vector<LinkLoad>* const> flows, std::uint32_t link_count)
      : first(link_count + 1) {
    for (const std::vector<LinkLoad>* flow : flows) {
      for (const LinkLoad& load : *flow) ++first[load.link.value + 1];
    }
    for (std::size_t link = 1; link < first.size(); ++link) first[link] += first[link - 1];
    list.resize(first.back());
    HugeVector<std::uint32_t> next(first.begin(), first.end() - 1);
    for (std::uint32_t flow = 0; flow < flows.size(); ++flow) {
      for (const LinkLoad& load : *flows[flow]) list[next[load.link.value]++] = {flow, load.flows};
    }
  }
  ConstraintView of(std::uint32_t link) const {
    return ConstraintView(list).subspan(first[link], first[link + 1] - first[link]);
  }
  HugeVector<std::uint32_t> first;
  HugeVector<std::pair<std::uint32_t, std::uint32_t>> list;
};

class Binder {
 public:
  explicit Binder(std::size_t flows) : flows_(flows) {}

  /// Adds a link; links come in ascending order. A link with the constraint and rate of an earlier
  /// link counts as the earlier one, unless `keep`.
  void add(std::uint32_t link, double rate, bool keep, ConstraintView constraint);
  BindingLinks make() {
    drop_never_full();
    drop_dominated();
    return hand_out();
  }

 private:
  struct Candidate {
    std::uint32_t first = 0, count = 0;  ///< its constraint in entries_
    LinkId link;
    bool pinned = false;
    double bandwidth = 0;
  };
  ConstraintView constraint_of(const Candidate& candidate) const {
    return ConstraintView(entries_).subspan(candidate.first, candidate.count);
  }
  void drop_never_full();
  void drop_dominated();
  bool is_tighter_or_equal(const Candidate& a, const Candidate& b) const;
  BindingLinks hand_out();

  const std::size_t flows_;
  HugeVector<Candidate> candidates_;
  HugeVector<std::pair<std::uint32_t, std::uint32_t>> entries_;  ///< constraints, end to end
  HashIndex known_;                                              ///< candidates not pinned
};

void Binder::add(std::uint32_t link, double rate, bool keep, ConstraintView constraint) {
  if (constraint.empty()) return;
  const auto number = static_cast<std::uint32_t>(candidates_.size());
  if (!keep) {
    const std::uint64_t hash = hash_of(rate, constraint);
    const std::uint32_t same = known_.find(hash, [&](std::uint32_t other) {
      return candidates_[other].bandwidth == rate &&
             std::ranges::equal(constraint, constraint_of(candidates_[other]));
    });
    if (same != HashIndex::kNone) return;
    known_.add(hash, number);
  }
  candidates_.push_back({.first = static_cast<std::uint32_t>(entries_.size()),
                         .count = static_cast<std::uint32_t>(constraint.size()),
                         .link = {link},
                         .pinned = keep,
                         .bandwidth = rate});
  entries_.insert(entries_.end(), constraint.begin(), constraint.end());
}

/// A link with room for all that its flows can carry elsewhere is never full. Pinned links may get
/// more bandwidth later and therefore limit no flow here.
void Binder::drop_never_full() {
  std::vector<double> most(flows_, std::numeric_limits<double>::infinity());
  for (const Candidate& candidate : candidates_) {
    if (candidate.pinned) continue;
    for (const auto& [flow, times] : constraint_of(candidate)) {
      most[flow] = std::min(most[flow], candidate.bandwidth / times);
    }
  }
  std::erase_if(candidates_, [&](const Candidate& candidate) {
    double needed = 0;
    for (const auto& [flow, times] : constraint_of(candidate)) needed += times * most[flow];
    return !candidate.pinned && needed < candidate.bandwidth * (1 - 1e-12);
  });
}

/// Returns whether link `a` has no more room than `b` for any of their flows, which are the same.
bool Binder::is_tighter_or_equal(const Candidate& a, const Candidate& b) const {
  const ConstraintView of_a = constraint_of(a), of_b = constraint_of(b);
  for (std::size_t i = 0; i < of_a.size(); ++i) {
    if (of_a[i].second * b.bandwidth < of_b[i].second * a.bandwidth) return false;
  }
  return true;
}

/// A link cannot bind if another link with the same flows has no more room for any of them.
void Binder::drop_dominated() {
  std::vector<std::vector<std::uint32_t>> groups;  // candidates with the same flows, none slack
  HashIndex group_of;
  std::vector<bool> slack(candidates_.size());
  for (std::uint32_t i = 0; i < candidates_.size(); ++i) {
    const Candidate& candidate = candidates_[i];
    if (candidate.pinned) continue;
    const ConstraintView own = constraint_of(candidate);
    std::uint64_t hash = 0;
    for (const auto& [flow, times] : own) hash = mix(hash, flow);
    std::uint32_t group = group_of.find(hash, [&](std::uint32_t other) {
      const ConstraintView its = constraint_of(candidates_[groups[other].front()]);
      return std::equal(own.begin(), own.end(), its.begin(), its.end(),
                        [](const auto& a, const auto& b) { return a.first == b.first; });
    });
    if (group == HashIndex::kNone) {
      group = static_cast<std::uint32_t>(groups.size());
      group_of.add(hash, group);
      groups.emplace_back();
    }
    std::vector<std::uint32_t>& kept = groups[group];
    slack[i] = std::any_of(kept.begin(), kept.end(), [&](std::uint32_t other) {
      return is_tighter_or_equal(candidates_[other], candidate);
    });
    if (slack[i]) continue;
    std::erase_if(kept, [&](std::uint32_t other) {
      slack[other] = is_tighter_or_equal(candidate, candidates_[other]);
      return slack[other];
    });
    kept.push_back(i);
  }
  std::size_t next = 0;
  std::erase_if(candidates_, [&](const Candidate&) { return slack[next++]; });
}

BindingLinks Binder::hand_out() {
  BindingLinks out;
  out.of_flow.resize(flows_);
  for (const Candidate& candidate : candidates_) {
    const auto place = static_cast<std::uint32_t>(out.links.size());
    out.links.push_back({candidate.link, candidate.bandwidth});
    if (candidate.pinned) out.pinned[candidate.link.value] = place;
    for (const auto& [flow, times] : constraint_of(candidate)) {
      out.of_flow[flow].insert(out.of_flow[flow].end(), times, place);
    }
  }
  return out;
}

}  // namespace

BindingLinks binding_links(const std::vector<std::vector<LinkLoad>>& flows,
                           std::uint32_t link_count,
                           const std::function<double(LinkId)>& bandwidth,
                           const std::set<std::uint32_t>& pinned) {
  std::vector<const std::vector<LinkLoad>*> all;
  for (const std::vector<LinkLoad>& flow : flows) all.push_back(&flow);
  const Crossings crossings(all, link_count);
  Binder binder(flows.size());
  for (std::uint32_t link = 0; link < link_count; ++link) {
    const ConstraintView constraint = crossings.of(link);
    if (constraint.empty()) continue;
    binder.add(link, bandwidth({link}), pinned.contains(link), constraint);
  }
  return binder.make();
}

// ---- known flows ----------------------------------------------------------------------------

KnownFlows::KnownFlows(std::vector<const Loads*> flows, std::uint32_t link_count,
                       const std::function<double(LinkId)>& bandwidth)
    : flows_(std::move(flows)), link_count_(link_count) {
  Crossings crossings(flows_, link_count);
  HashIndex known;
  for (std::uint32_t link = 0; link < link_count; ++link) {
    const ConstraintView constraint = crossings.of(link);
    if (constraint.empty()) continue;
    const double rate = bandwidth({link});
    const std::uint64_t hash = hash_of(rate, constraint);
    const std::uint32_t same = known.find(hash, [&](std::uint32_t i) {
      return alike_[i].bandwidth == rate && std::ranges::equal(constraint, alike_[i].constraint);
    });
    if (same != HashIndex::kNone) {
      alike_[same].links.push_back(link);
      continue;
    }
    known.add(hash, static_cast<std::uint32_t>(alike_.size()));
    alike_.push_back({Constraint(constraint.begin(), constraint.end()), rate, {link}});
  }
  first_ = std::move(crossings.first);
  crossings_ = std::move(crossings.list);
}

std::vector<std::uint32_t> KnownFlows::touched_by(const Request& request,
                                                  std::vector<bool>& is) const {
  std::vector<std::uint32_t> touched;
  const auto touch = [&](std::uint32_t link) {
    if (is[link]) return;
    is[link] = true;
    touched.push_back(link);
  };
  for (const Part& part : request.parts) {
    for (const LinkLoad& load : *part.links) touch(load.link.value);
  }
  for (const std::vector<Change>* changes : request.now) {
    for (const Change& change : *changes) touch(change.link);
  }
  for (const std::uint32_t link : request.changed) touch(link);
  for (const std::uint32_t link : request.pinned) touch(link);
  sort_by_number(touched, [](std::uint32_t link) { return link; });
  return touched;
}

std::vector<KnownFlows::Difference> KnownFlows::differences(const Request& request) {
  std::vector<Difference> all;
  for (std::uint32_t known = 0; known < request.now.size(); ++known) {
    for (const Change& change : *request.now[known]) {
      all.push_back({change.link, known, change.flows});
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.link < b.link; });
  return all;
}

void KnownFlows::set_constraint(std::uint32_t link, const std::vector<std::uint32_t>& rest,
                                const Touched& touched, Constraint& constraint) const {
  constraint.clear();
  const auto left_of = [&](std::uint32_t known, std::int64_t times) {
    for (const auto& [load, part] : touched.parts) {
      if (part->known == known) times -= load.flows;
    }
    if (times > 0) constraint.emplace_back(rest[known], static_cast<std::uint32_t>(times));
  };
  auto now = touched.now.begin();
  for (std::uint32_t i = first_[link]; i < first_[link + 1]; ++i) {
    const auto& [known, times] = crossings_[i];
    for (; now != touched.now.end() && now->known < known; ++now) left_of(now->known, now->flows);
    const bool differs = now != touched.now.end() && now->known == known;
    left_of(known, std::int64_t{times} + (differs ? (now++)->flows : 0));
  }
  for (; now != touched.now.end(); ++now) left_of(now->known, now->flows);
  for (const auto& [load, part] : touched.parts) constraint.emplace_back(part->flow, load.flows);
  std::sort(constraint.begin(), constraint.end());
}

BindingLinks KnownFlows::bind_links(const Request& request) const {
  std::vector<bool> is_touched(link_count_);
  const std::vector<std::uint32_t> touched = touched_by(request, is_touched);
  HugeVector<std::pair<LinkLoad, const Part*>> loads;
  std::size_t count = 0;
  for (const Part& part : request.parts) count += part.links->size();
  loads.reserve(count);
  for (const Part& part : request.parts) {
    for (const LinkLoad& load : *part.links) loads.emplace_back(load, &part);
  }
  sort_by_number(loads, [](const auto& load) { return load.first.link.value; });

  // The first untouched link represents each group of equal links; touched links are added one by
  // one.
  HugeVector<std::pair<std::uint32_t, const Alike*>> links;
  links.reserve(alike_.size() + touched.size());
  for (const Alike& alike : alike_) {
    const auto first = std::find_if(alike.links.begin(), alike.links.end(),
                                    [&](std::uint32_t link) { return !is_touched[link]; });
    if (first != alike.links.end()) links.emplace_back(*first, &alike);
  }
  std::sort(links.begin(), links.end());
  const auto untouched = static_cast<std::ptrdiff_t>(links.size());
  for (const std::uint32_t link : touched) links.emplace_back(link, nullptr);
  std::inplace_merge(links.begin(), links.begin() + untouched, links.end());

  Binder binder(request.flows);
  const std::vector<Difference> now = differences(request);
  auto next = loads.begin();
  auto next_now = now.begin();
  Constraint constraint;
  for (const auto& [link, alike] : links) {
    if (alike != nullptr) {
      constraint = alike->constraint;
      for (auto& entry : constraint) entry.first = request.rest[entry.first];
      binder.add(link, alike->bandwidth, false, constraint);
      continue;
    }
    const auto end = std::find_if(next, loads.end(), [&, at = link](const auto& entry) {
      return entry.first.link.value != at;
    });
    const auto end_now = std::find_if(next_now, now.end(),
                                      [at = link](const auto& each) { return each.link != at; });
    set_constraint(link, request.rest, {{next, end}, {next_now, end_now}}, constraint);
    binder.add(link, request.bandwidth({link}), request.pinned.contains(link), constraint);
    next = end;
    next_now = end_now;
  }
  return binder.make();
}

}  // namespace orrery::estimates

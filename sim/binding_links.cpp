#include "sim/binding_links.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace orrery {
namespace {

/// Flows by number, with how often each counts on a link.
using Constraint = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

struct Candidate {
  Constraint constraint;
  LinkId link;
  double bandwidth = 0;
  bool pinned = false;
};

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  return (hash ^ value) * 0x100000001B3ull ^ (hash >> 29);
}

class Binder {
 public:
  Binder(const std::vector<std::vector<LinkLoad>>& flows, std::uint32_t link_count,
         const std::function<double(LinkId)>& bandwidth, const std::set<std::uint32_t>& pinned)
      : flows_(flows), bandwidth_(bandwidth), pinned_(pinned), first_(link_count + 1) {}

  BindingLinks make() {
    sort_by_link();
    merge();
    drop_never_full();
    drop_dominated();
    return hand_out();
  }

 private:
  void sort_by_link();
  void merge();
  void drop_never_full();
  void drop_dominated();
  BindingLinks hand_out();

  const std::vector<std::vector<LinkLoad>>& flows_;
  const std::function<double(LinkId)>& bandwidth_;
  const std::set<std::uint32_t>& pinned_;
  std::vector<std::uint32_t> first_;  ///< by link: its first entry in crossings_
  Constraint crossings_;              ///< by link, then by flow
  std::vector<Candidate> candidates_;
};

void Binder::sort_by_link() {
  for (const std::vector<LinkLoad>& flow : flows_) {
    for (const LinkLoad& load : flow) ++first_[load.link.value + 1];
  }
  for (std::size_t link = 1; link < first_.size(); ++link) first_[link] += first_[link - 1];
  crossings_.resize(first_.back());
  std::vector<std::uint32_t> next(first_.begin(), first_.end() - 1);
  for (std::uint32_t flow = 0; flow < flows_.size(); ++flow) {
    for (const LinkLoad& load : flows_[flow]) {
      crossings_[next[load.link.value]++] = {flow, load.flows};
    }
  }
}

void Binder::merge() {
  std::map<std::uint64_t, std::vector<std::size_t>> known;  // hash -> candidates
  for (std::uint32_t link = 0; link + 1 < first_.size(); ++link) {
    if (first_[link] == first_[link + 1]) continue;
    const auto begin = crossings_.begin() + first_[link];
    const auto end = crossings_.begin() + first_[link + 1];
    const double rate = bandwidth_({link});
    const bool keep = pinned_.contains(link);
    const auto same = [&](std::size_t i) {
      const Candidate& other = candidates_[i];
      return !other.pinned && other.bandwidth == rate &&
             std::equal(begin, end, other.constraint.begin(), other.constraint.end());
    };
    if (!keep) {
      std::uint64_t hash = static_cast<std::uint64_t>(rate);
      for (auto at = begin; at != end; ++at) hash = mix(mix(hash, at->first), at->second);
      std::vector<std::size_t>& alike = known[hash];
      if (std::any_of(alike.begin(), alike.end(), same)) continue;
      alike.push_back(candidates_.size());
    }
    candidates_.push_back({Constraint(begin, end), {link}, rate, keep});
  }
}

/// A link with room for all that its flows can carry elsewhere is never full. Pinned links may
/// widen and limit nobody here.
void Binder::drop_never_full() {
  std::vector<double> most(flows_.size(), std::numeric_limits<double>::infinity());
  for (const Candidate& candidate : candidates_) {
    if (candidate.pinned) continue;
    for (const auto& [flow, times] : candidate.constraint) {
      most[flow] = std::min(most[flow], candidate.bandwidth / times);
    }
  }
  std::erase_if(candidates_, [&](const Candidate& candidate) {
    double needed = 0;
    for (const auto& [flow, times] : candidate.constraint) needed += times * most[flow];
    return !candidate.pinned && needed < candidate.bandwidth * (1 - 1e-12);
  });
}

/// Among links that constrain the same flows, one can never bind if another one has no more room
/// for any of them.
void Binder::drop_dominated() {
  const auto at_least_as_tight = [](const Candidate& a, const Candidate& b) {
    for (std::size_t i = 0; i < a.constraint.size(); ++i) {
      if (a.constraint[i].second * b.bandwidth < b.constraint[i].second * a.bandwidth) {
        return false;
      }
    }
    return true;
  };
  std::map<std::vector<std::uint32_t>, std::vector<std::size_t>> groups;
  std::vector<bool> slack(candidates_.size());
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    const Candidate& candidate = candidates_[i];
    if (candidate.pinned) continue;
    std::vector<std::uint32_t> flows;
    for (const auto& [flow, times] : candidate.constraint) flows.push_back(flow);
    std::vector<std::size_t>& kept = groups[std::move(flows)];
    slack[i] = std::any_of(kept.begin(), kept.end(), [&](std::size_t other) {
      return at_least_as_tight(candidates_[other], candidate);
    });
    if (slack[i]) continue;
    std::erase_if(kept, [&](std::size_t other) {
      slack[other] = at_least_as_tight(candidate, candidates_[other]);
      return slack[other];
    });
    kept.push_back(i);
  }
  std::size_t next = 0;
  std::erase_if(candidates_, [&](const Candidate&) { return slack[next++]; });
}

BindingLinks Binder::hand_out() {
  BindingLinks out;
  out.of_flow.resize(flows_.size());
  for (const Candidate& candidate : candidates_) {
    const auto place = static_cast<std::uint32_t>(out.links.size());
    out.links.push_back({candidate.link, candidate.bandwidth});
    if (candidate.pinned) out.pinned[candidate.link.value] = place;
    for (const auto& [flow, times] : candidate.constraint) {
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
  return Binder(flows, link_count, bandwidth, pinned).make();
}

}  // namespace orrery

#include "sim/estimates/step/joint_flows.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

namespace orrery::estimates {
namespace {

/// A link is full if flows need more than its bandwidth, not if sums round up.
constexpr double kFull = 1e-9;

using Link = FlowGroup::Link;

/// Returns the engine links of all jobs; a lane is the index of a job.
std::vector<Link> all_links(const std::vector<JobBeside>& jobs,
                            const std::vector<const FlowGraph*>& graphs) {
  const JointLinks numbers = joint_links(jobs);
  std::vector<Link> links(numbers.count);
  for (std::uint32_t job = 0; job < jobs.size(); ++job) {
    for (std::uint32_t kind = 0; kind < graphs[job]->kinds.size(); ++kind) {
      for (const auto& [slot, times] : graphs[job]->kinds[kind].slots) {
        const std::uint32_t number = numbers.numbers[job][slot];
        if (number == JointLinks::kNone) continue;
        links[number].bandwidth = jobs[job].plan.slots[slot].bandwidth;
        links[number].crossings.push_back({job, kind, times});
      }
    }
  }
  return links;
}

/// Returns the largest rate of a flow of each kind, by job.
std::vector<std::vector<double>> largest_rates(const std::vector<const FlowGraph*>& graphs,
                                               const std::vector<Link>& links) {
  std::vector<std::vector<double>> rates;
  for (const FlowGraph* graph : graphs) {
    rates.emplace_back(graph->kinds.size(), std::numeric_limits<double>::infinity());
  }
  for (const Link& link : links) {
    for (const auto& [job, kind, times] : link.crossings) {
      rates[job][kind] = std::min(rates[job][kind], link.bandwidth / times);
    }
  }
  return rates;
}

/// Returns true if flows that can be in progress at once need more than the bandwidth of a link.
bool can_fill(const Link& link, const std::vector<const FlowGraph*>& graphs,
              const std::vector<std::vector<double>>& rates) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::map<std::uint32_t, double>> needs;
  for (const auto& [job, kind, times] : link.crossings) {
    const FlowGraph::Kind& of = graphs[job]->kinds[kind];
    if (of.queue == FlowGraph::kNone) return true;
    needs[{job, of.queue}][of.phase] += times * rates[job][kind];
  }
  double most = 0;
  for (const auto& [queue, phases] : needs) {
    double largest = 0;
    for (const auto& [phase, need] : phases) largest = std::max(largest, need);
    most += largest;
  }
  return most > link.bandwidth * (1 + kFull);
}

/// Returns the jobs of each group, by group.
std::vector<std::vector<std::uint32_t>> groups_of(std::size_t jobs,
                                                  const std::vector<Link>& links) {
  std::vector<std::uint32_t> group(jobs);
  std::iota(group.begin(), group.end(), 0u);
  for (const Link& link : links) {
    const std::uint32_t into = group[link.crossings.front().lane];
    for (const FlowGroup::Crossing& crossing : link.crossings) {
      const std::uint32_t from = group[crossing.lane];
      std::replace(group.begin(), group.end(), from, into);
    }
  }
  std::map<std::uint32_t, std::vector<std::uint32_t>> members;
  for (std::uint32_t job = 0; job < jobs; ++job) members[group[job]].push_back(job);
  std::vector<std::vector<std::uint32_t>> groups;
  for (auto& [number, each] : members) groups.push_back(std::move(each));
  return groups;
}

/// Returns for each job the bytes of its graph, its rates and its own view of its links.
std::vector<std::string> texts_of(const std::vector<const FlowGraph*>& graphs,
                                  const std::vector<std::vector<double>>& rates,
                                  const std::vector<Link>& links) {
  std::vector<std::vector<std::string>> views(graphs.size());
  for (const Link& link : links) {
    std::map<std::uint32_t, std::string> of_job;
    for (const auto& [job, kind, times] : link.crossings) {
      append_bytes(of_job[job], kind);
      append_bytes(of_job[job], times);
    }
    for (const auto& [job, crossings] : of_job) {
      std::string& view = views[job].emplace_back();
      append_bytes(view, link.bandwidth);
      append_bytes(view, of_job.size());
      view += crossings;
    }
  }
  std::vector<std::string> texts;
  for (std::size_t job = 0; job < graphs.size(); ++job) {
    std::string& text = texts.emplace_back(text_of(*graphs[job]));
    for (const double rate : rates[job]) append_bytes(text, rate);
    std::sort(views[job].begin(), views[job].end());
    for (const std::string& view : views[job]) text += view;
  }
  return texts;
}

/// Sorts links, with lanes in the order of the group, and leaves equal ones out.
std::vector<Link> links_in_order(const std::vector<Link>& links,
                                 const std::map<std::uint32_t, std::uint32_t>& lane_of) {
  std::vector<Link> ordered;
  for (const Link& link : links) {
    if (!lane_of.contains(link.crossings.front().lane)) continue;
    Link& made = ordered.emplace_back(link);
    for (FlowGroup::Crossing& crossing : made.crossings) crossing.lane = lane_of.at(crossing.lane);
    std::sort(made.crossings.begin(), made.crossings.end());
  }
  std::sort(ordered.begin(), ordered.end());
  ordered.erase(std::unique(ordered.begin(), ordered.end()), ordered.end());
  return ordered;
}

std::string text_of(const FlowGroup& group, const std::vector<std::string>& texts) {
  std::string text;
  for (const FlowGroup::Lane& lane : group.lanes) {
    append_bytes(text, texts[lane.job].size());
    text += texts[lane.job];
  }
  for (const Link& link : group.links) {
    append_bytes(text, link.bandwidth);
    append_bytes(text, link.crossings.size());
    for (const auto& [lane, kind, times] : link.crossings) {
      append_bytes(text, lane);
      append_bytes(text, kind);
      append_bytes(text, times);
    }
  }
  return text;
}

}  // namespace

std::vector<FlowGroup> flow_groups(const std::vector<JobBeside>& jobs,
                                   const std::vector<const FlowGraph*>& graphs) {
  std::vector<Link> links = all_links(jobs, graphs);
  std::vector<std::vector<double>> rates = largest_rates(graphs, links);
  std::erase_if(links, [&](const Link& link) { return !can_fill(link, graphs, rates); });
  const std::vector<std::string> texts = texts_of(graphs, rates, links);
  std::vector<FlowGroup> groups;
  for (std::vector<std::uint32_t>& members : groups_of(jobs.size(), links)) {
    std::stable_sort(members.begin(), members.end(),
                     [&texts](std::uint32_t a, std::uint32_t b) { return texts[a] < texts[b]; });
    FlowGroup& group = groups.emplace_back();
    std::map<std::uint32_t, std::uint32_t> lane_of;
    for (const std::uint32_t job : members) {
      lane_of[job] = static_cast<std::uint32_t>(group.lanes.size());
      group.lanes.push_back({job, graphs[job], std::move(rates[job])});
    }
    group.links = links_in_order(links, lane_of);
    group.text = text_of(group, texts);
  }
  return groups;
}

}  // namespace orrery::estimates

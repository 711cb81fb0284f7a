#include "sim/estimates/engine/max_min_shares.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/estimates/engine/sharing_engine.hpp"

namespace orrery::estimates {
namespace {

constexpr double kSharePrecision = 1e-5;  ///< relative, of a link's bandwidth; of weights
constexpr double kSameInstant = 1e-9;     ///< seconds

/// Subtracts a value, and sets a result below the precision to 0.
void subtract(double& from, double value, double precision) {
  from -= value;
  if (from < precision) from = 0;
}

}  // namespace

// ---- flows and links --------------------------------------------------------------------------

void MaxMinShares::start_flow(std::uint32_t place, std::span<const std::uint32_t> links,
                              double units) {
  if (place >= flows_.size()) flows_.resize(place + 1);
  Flow& flow = flows_[place];
  flow.units = units;
  flow.since = now_;
  flow.rate = flow.share = 0;
  flow.end = kNever;
  flow.bound = kNever;
  flow.is_plain = true;
  flow.active = static_cast<std::uint32_t>(active_.size());
  active_.push_back(place);
  for (const std::uint32_t link : links) {
    flow.bound = std::min(flow.bound, links_[link].bandwidth);
    add_use(place, link);
  }
  touched_.push_back(links.front());  // the flow leads to the others
}

void MaxMinShares::add_use(std::uint32_t place, std::uint32_t link) {
  Flow& flow = flows_[place];
  if (!flow.uses.empty() && uses_[flow.uses.back()].link == link) {
    ++uses_[flow.uses.back()].weight;
    flow.is_plain = false;
    return;
  }
  if (free_uses_.empty()) {
    free_uses_.push_back(static_cast<std::uint32_t>(uses_.size()));
    uses_.emplace_back();
  }
  const std::uint32_t use = free_uses_.back();
  free_uses_.pop_back();
  Link& at = links_[link];
  if (at.newest != kNone && uses_[at.newest].flow == place) flow.is_plain = false;
  uses_[use] = {.link = link, .flow = place, .weight = 1, .older = at.newest};
  (at.newest == kNone ? at.oldest : uses_[at.newest].newer) = use;
  at.newest = use;
  ++at.flows;
  flow.uses.push_back(use);
}

void MaxMinShares::remove_uses(Flow& flow) {
  for (const std::uint32_t number : flow.uses) {
    const Use& use = uses_[number];
    Link& link = links_[use.link];
    (use.newer == kNone ? link.newest : uses_[use.newer].older) = use.older;
    (use.older == kNone ? link.oldest : uses_[use.older].newer) = use.newer;
    if (--link.flows > 0) touched_.push_back(use.link);
    free_uses_.push_back(number);
  }
  flow.uses.clear();
}

void MaxMinShares::deactivate(Flow& flow) {
  flows_[active_.back()].active = flow.active;
  active_[flow.active] = active_.back();
  active_.pop_back();
  flow.active = kNone;
}

void MaxMinShares::cancel_flow(std::uint32_t place) {
  Flow& flow = flows_[place];
  if (flow.active != kNone) {
    deactivate(flow);
  } else if (std::erase(ended_, place) == 0) {
    return;
  }
  remove_uses(flow);
}

void MaxMinShares::set_bandwidth(std::uint32_t link, double bandwidth) {
  touched_.push_back(link);
  links_[link].bandwidth = bandwidth;
  for (std::uint32_t use = links_[link].newest; use != kNone; use = uses_[use].older) {
    flows_[uses_[use].flow].is_plain = false;
  }
}

// ---- rates ------------------------------------------------------------------------------------

/// Flows that all cross the narrowest link of each of them get equal parts of it. Mostly it is the
/// link of the last time.
void MaxMinShares::share_links() {
  std::erase_if(touched_, [this](std::uint32_t link) { return links_[link].flows == 0; });
  if (touched_.empty()) return;
  if (!is_narrowest_of(narrowest_, active_.size())) narrowest_ = narrowest_of(active_.size());
  std::uint32_t narrowest = narrowest_;
  if (narrowest == kNone) {
    for (const std::uint32_t link : touched_) collect_changed(link);
    narrowest = narrowest_of(met_);
  }
  if (narrowest == kNone) {
    fill_links();
  } else {
    const Link& link = links_[narrowest];
    for (std::uint32_t use = link.newest; use != kNone; use = uses_[use].older) {
      flows_[uses_[use].flow].share = link.bandwidth / link.flows;
      renewed_.push_back(uses_[use].flow);
    }
  }
  touched_.clear();
  changed_.clear();
  met_ = 0;
  ++round_;
}

std::uint32_t MaxMinShares::narrowest_of(std::size_t flows) const {
  for (const std::uint32_t use : flows_[uses_[links_[touched_.front()].newest].flow].uses) {
    if (is_narrowest_of(uses_[use].link, flows)) return uses_[use].link;
  }
  return kNone;
}

/// All links of a plain flow have at least the bandwidth `bound`. So a link with that bandwidth and
/// all of the flows is full first.
bool MaxMinShares::is_narrowest_of(std::uint32_t number, std::size_t flows) const {
  if (number == kNone || links_[number].flows != flows) return false;
  const Link& link = links_[number];
  for (std::uint32_t use = link.newest; use != kNone; use = uses_[use].older) {
    const Flow& flow = flows_[uses_[use].flow];
    if (!flow.is_plain || flow.bound != link.bandwidth) return false;
  }
  return true;
}

/// Goes depth first, from a link to each of its flows and to the other links of the flow. A flow
/// that is met again while its links are being collected goes on from where it is, so that each use
/// of a link counts once.
void MaxMinShares::collect_changed(std::uint32_t first) {
  const auto add_link = [this](std::uint32_t link) {
    links_[link].round = round_;
    changed_.push_back(link);
    to_collect_.push_back(links_[link].newest);
  };
  if (links_[first].round != round_) add_link(first);
  while (!to_collect_.empty()) {
    const std::uint32_t use = to_collect_.back();
    if (use == kNone) {
      to_collect_.pop_back();
      continue;
    }
    Flow& flow = flows_[uses_[use].flow];
    if (std::exchange(flow.round, round_) != round_) {
      flow.collected = 0;
      ++met_;
    }
    while (flow.collected < flow.uses.size() &&
           links_[uses_[flow.uses[flow.collected]].link].round == round_) {
      ++flow.collected;
    }
    if (flow.collected == flow.uses.size()) {
      to_collect_.back() = uses_[use].older;
    } else {
      add_link(uses_[flow.uses[flow.collected++]].link);
    }
  }
}

/// Repeats: the links that are full first fix the rates of their flows, until every flow has one.
void MaxMinShares::fill_links() {
  open_links();
  do {
    const double fill = collect_fixed();
    double least = kNever;  // least bound below the rate; flows with larger ones wait
    for (const std::uint32_t place : fixed_) {
      if (flows_[place].bound < fill) least = std::min(least, flows_[place].bound);
    }
    for (const std::uint32_t place : fixed_) {
      Flow& flow = flows_[place];
      flow.is_fixed = false;
      if (least == kNever) {
        fix_flow(place, fill);
      } else if (std::abs(least - flow.bound) < kSharePrecision) {
        fix_flow(place, flow.bound);
      }
    }
  } while (!open_.empty());
}

void MaxMinShares::open_links() {
  for (const std::uint32_t number : changed_) {
    Link& link = links_[number];
    double weight = 0;
    for (std::uint32_t use = link.newest; use != kNone; use = uses_[use].older) {
      Flow& flow = flows_[uses_[use].flow];
      flow.share = 0;
      if (!std::exchange(flow.is_renewed, true)) renewed_.push_back(uses_[use].flow);
      uses_[use].is_open = true;
      weight += uses_[use].weight;
    }
    if (weight == 0) continue;
    link.open = static_cast<std::uint32_t>(open_.size());
    open_.push_back({number, link.bandwidth / weight, link.bandwidth, weight});
  }
}

double MaxMinShares::collect_fixed() {
  double fill = kNever;
  for (const Open& each : open_) fill = std::min(fill, each.rate);
  fixed_.clear();
  for (const Open& each : open_) {
    if (each.rate != fill) continue;
    for (std::uint32_t use = links_[each.link].oldest; use != kNone; use = uses_[use].newer) {
      const std::uint32_t place = uses_[use].flow;
      if (!uses_[use].is_open || std::exchange(flows_[place].is_fixed, true)) continue;
      fixed_.push_back(place);
    }
  }
  return fill;
}

/// A link that is full, or whose flows all have their rate, is not open any more.
void MaxMinShares::fix_flow(std::uint32_t place, double rate) {
  Flow& flow = flows_[place];
  flow.share = rate;
  for (const std::uint32_t number : flow.uses) {
    Use& use = uses_[number];
    Link& link = links_[use.link];
    use.is_open = false;
    if (link.open == kNone) continue;
    Open& open = open_[link.open];
    const double precision = link.bandwidth * kSharePrecision;
    subtract(open.left, use.weight * rate, precision);
    subtract(open.weight, use.weight, kSharePrecision);
    if (open.weight > kSharePrecision && open.left > precision) {
      open.rate = open.left / open.weight;
      continue;
    }
    links_[open_.back().link].open = link.open;
    open = open_.back();
    open_.pop_back();
    link.open = kNone;
  }
}

// ---- time -------------------------------------------------------------------------------------

void MaxMinShares::renew_ends() {
  for (const std::uint32_t place : renewed_) {
    Flow& flow = flows_[place];
    flow.is_renewed = false;
    if (flow.active == kNone) continue;
    const double passed = now_ - flow.since;
    if (flow.units > 0) subtract(flow.units, flow.rate * passed, kSharePrecision * kSameInstant);
    flow.since = now_;
    flow.rate = flow.share;
    flow.end = now_ + (flow.units > 0 ? flow.units / flow.rate : 0);
  }
  renewed_.clear();
}

void MaxMinShares::stop_at(double date) {
  while (!stops_.empty() && stops_.back() <= now_) stops_.pop_back();
  if (stops_.empty() || date < stops_.back()) stops_.push_back(date);
}

void MaxMinShares::pass_stops(double precision) {
  while (!stops_.empty() && stops_.back() - now_ < precision) stops_.pop_back();
}

bool MaxMinShares::advance_clock() {
  share_links();
  renew_ends();
  double step = kNever;
  if (!stops_.empty()) step = stops_.back() - now_;
  if (wake_due_) step = 0;
  double end = kNever;
  for (const std::uint32_t place : active_) end = std::min(end, flows_[place].end);
  if (end - now_ < step && end - now_ >= 0) step = end - now_;
  if (step == kNever) return false;
  now_ += step;
  for (std::size_t i = 0; i < active_.size();) {
    const std::uint32_t place = active_[i];
    if (std::abs(flows_[place].end - now_) < kSameInstant) {
      deactivate(flows_[place]);
      ended_.push_back(place);
    } else {
      ++i;
    }
  }
  listener().on_time();
  return true;
}

bool MaxMinShares::pass_due_stops() {
  bool passed = false;
  while (true) {
    while (!stops_.empty() && stops_.back() <= now_) {
      stops_.pop_back();
      passed = true;
    }
    if (!wake_due_) return passed;
    wake_due_ = false;
    passed = true;
    listener().on_wake();
  }
}

void MaxMinShares::report_ends() {
  for (const std::uint32_t place : ended_) {
    listener().on_flow_end(place);
    remove_uses(flows_[place]);
  }
  ended_.clear();
}

void MaxMinShares::run() {
  while (advance_clock()) {
    bool passed = true;
    while (passed) {
      passed = pass_due_stops();
      report_ends();
    }
  }
}

// ---- flows set aside --------------------------------------------------------------------------

/// The links that this instant has touched are shared at the end of run(), when no flow is active.
void MaxMinShares::set_flows_aside() {
  aside_.insert(aside_.end(), active_.begin(), active_.end());
  active_.clear();
  stops_.clear();
  narrowest_ = kNone;
}

void MaxMinShares::continue_flows() {
  for (const std::uint32_t place : aside_) {
    flows_[place].active = static_cast<std::uint32_t>(active_.size());
    active_.push_back(place);
  }
  aside_.clear();
  narrowest_ = kNone;
}

std::unique_ptr<Engine> max_min_engine(std::uint32_t hosts, std::uint32_t links, double now) {
  return std::make_unique<SharingEngine>(hosts, links, std::make_unique<MaxMinShares>(links, now));
}

}  // namespace orrery::estimates

#include "sim/estimates/step/step_hardware.hpp"

#include <algorithm>
#include <cstddef>
#include <map>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery::estimates {
namespace {

/// Slowdown factors of a rank: at the beginning of the step, and after each change.
using Factors = std::vector<double>;

/// Returns the factors of the ranks that the changes of a step name, by rank.
std::map<std::uint32_t, Factors> changing_factors(const IterationRequest& request) {
  std::map<std::uint32_t, Factors> found;
  for (std::size_t i = 0; i < request.changes.size(); ++i) {
    for (const auto& [rank, factor] : request.changes[i].slow) {
      Factors& factors = found[rank.value];
      if (factors.empty()) {
        factors.assign(request.changes.size() + 1, request.state.slow_of(rank));
      }
      std::fill(factors.begin() + static_cast<std::ptrdiff_t>(i) + 1, factors.end(), factor);
    }
  }
  return found;
}

/// Returns true if a rank with the factors `slow` is never faster than one with the factors `fast`.
bool is_never_faster(const Factors& slow, const Factors& fast) {
  return std::equal(slow.begin(), slow.end(), fast.begin(),
                    [](double a, double b) { return a >= b; });
}

/// Returns the indices of the ranks that can end a block last: without those that are always at
/// least as fast as another one.
std::vector<std::size_t> slowest_at_times(const std::vector<Factors>& ranks) {
  std::vector<std::size_t> slowest;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    bool is_hidden = false;
    for (std::size_t other = 0; other < ranks.size() && !is_hidden; ++other) {
      if (other == i || !is_never_faster(ranks[other], ranks[i])) continue;
      // The first of equal ranks stays.
      is_hidden = other < i || !is_never_faster(ranks[i], ranks[other]);
    }
    if (!is_hidden) slowest.push_back(i);
  }
  return slowest;
}

}  // namespace

StepHardware::StepHardware(const IterationRequest& request, const StepPrograms& programs)
    : request_(request), programs_(programs) {
  const Plan& plan = request.plan;
  assign_hosts();
  ensure(ranks_.size() <= request.engine.hosts(), "the engine has a host for every simulated GPU");
  if (plan.slots.size() <= request.engine.links()) return;
  throw Error(ErrorKind::bad_input,
              fmt::format("faults: expected a step with at most {1} different links, found {0}: "
                          "use fewer different faults at once",
                          plan.slots.size(), request.engine.links()));
}

void StepHardware::begin() {
  const Plan& plan = request_.plan;
  for (std::uint32_t slot = 0; slot < plan.slots.size(); ++slot) {
    request_.engine.set_link_up(slot, true);
    request_.engine.set_bandwidth(slot, plan.slots[slot].bandwidth);
  }
  for (const std::uint32_t link : request_.state.down) take_down({link});
  set_speeds();
}

std::vector<RankId> StepHardware::ranks_of(std::uint32_t worker) const {
  const StepGraph& graph = request_.graph;
  const std::uint32_t replica = request_.plan.classes[programs_.class_of(worker)].members.front();
  std::vector<RankId> ranks;
  for (std::uint32_t member = 0; member < graph.members(); ++member) {
    ranks.push_back(graph.rank(replica, programs_.stage_of(worker), member));
  }
  return ranks;
}

void StepHardware::assign_hosts() {
  const StepGraph& graph = request_.graph;
  const bool all = request_.plan.member_hosts > 1;
  std::map<std::uint32_t, Factors> changing;
  // The ranks of an expert-parallel group have one speed: slowest_beside().
  if (graph.communicator_size(Communicator::expert) == 1) changing = changing_factors(request_);
  for (std::uint32_t worker = 0; worker < programs_.workers(); ++worker) {
    const std::vector<RankId> ranks = ranks_of(worker);
    first_hosts_.push_back(static_cast<std::uint32_t>(ranks_.size()));
    const auto changes = [&](RankId rank) { return changing.contains(rank.value); };
    if (all) {
      ranks_.insert(ranks_.end(), ranks.begin(), ranks.end());
    } else if (std::none_of(ranks.begin(), ranks.end(), changes)) {
      ranks_.push_back(ranks.front());
    } else {
      std::vector<Factors> factors;
      for (const RankId rank : ranks) {
        const Factors same(request_.changes.size() + 1, request_.state.slow_of(rank));
        factors.push_back(changes(rank) ? changing[rank.value] : same);
      }
      for (const std::size_t i : slowest_at_times(factors)) ranks_.push_back(ranks[i]);
    }
  }
  first_hosts_.push_back(static_cast<std::uint32_t>(ranks_.size()));
}

double StepHardware::slow_of(std::uint32_t worker, std::uint32_t host) const {
  const bool apart =
      host_count(worker) > 1 && request_.graph.communicator_size(Communicator::expert) == 1;
  return apart ? state().slow_of(ranks_[host])
               : slowest_beside(request_.graph, state(), ranks_[host]);
}

void StepHardware::set_speeds() {
  for (std::uint32_t worker = 0; worker < programs_.workers(); ++worker) {
    for (std::uint32_t i = 0; i < host_count(worker); ++i) {
      const std::uint32_t host = first_host(worker) + i;
      request_.engine.set_speed(host, 1 / slow_of(worker, host));
    }
  }
}

void StepHardware::apply_change(const TimedChange& change) {
  if (!changed_) changed_ = request_.state;
  for (const auto& [rank, factor] : change.slow) changed_->slow[rank.value] = factor;
  for (const LinkId link : change.down) changed_->down.insert(link.value);
  set_speeds();
  for (const auto& [link, rate] : change.bandwidth) {
    const auto slot = request_.plan.pinned.find(link.value);
    if (slot != request_.plan.pinned.end()) request_.engine.set_bandwidth(slot->second, rate);
  }
  for (const LinkId link : change.down) take_down(link);
}

/// A link without a slot carries no flow of the plan.
void StepHardware::take_down(LinkId link) {
  const auto slot = request_.plan.pinned.find(link.value);
  if (slot != request_.plan.pinned.end()) request_.engine.set_link_up(slot->second, false);
}

std::optional<LinkId> StepHardware::broken_link(const CommPhase& phase) const {
  std::optional<LinkId> broken;
  for (const WideFlow& part : phase.parts) {
    for (const std::uint32_t slot : part.links) {
      const LinkId link = request_.plan.slots[slot].link;
      if (state().down.contains(link.value)) broken = link;
    }
  }
  return broken;
}

}  // namespace orrery::estimates

#include "sim/training/fault_plan.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/error.hpp"
#include "traces/scenario/failure_model.hpp"

namespace orrery::sim {

FaultPlan::FaultPlan(const Scenario& scenario, const Cluster& cluster, std::vector<GpuId> placement)
    : cluster_(&cluster), script_(scenario, cluster) {
  move_ranks(std::move(placement));
  const bool uses_storage = scenario.has_checkpoints() || scenario.job().input().has_stored();
  for (const FailureKind& kind : failure_kinds(scenario.failures())) {
    if (part_kind(kind) != PartKind::storage || uses_storage) continue;
    throw Error(ErrorKind::bad_input,
                fmt::format("failures: expected a run that writes checkpoints for '{}' of the "
                            "storage, found none: give the key checkpoints or remove the kind",
                            kind.cause()));
  }
  for (int i = 0; i < scenario.faults_size() && !uses_storage; ++i) {
    if (part_kind(scenario.faults(i)) != PartKind::storage) continue;
    throw Error(ErrorKind::bad_input,
                fmt::format("faults[{}].storage: expected a run that writes checkpoints, found "
                            "none: give the key checkpoints or remove the fault",
                            i));
  }
}

void FaultPlan::move_ranks(std::vector<GpuId> placement) {
  auto moved = std::make_shared<Placement>();
  moved->gpus = std::move(placement);
  for (std::uint32_t rank = 0; rank < moved->gpus.size(); ++rank) {
    moved->ranks_at[moved->gpus[rank]].push_back({rank});
  }
  const auto known = static_cast<std::uint32_t>(placement_ ? placement_->gpus.size() : 0);
  placement_ = std::move(moved);
  spend_begun_losses(known);
}

void FaultPlan::spend_begun_losses(std::uint32_t first) {
  if (!begun_) return;
  for (std::uint32_t fault = 0; fault < script_.size(); ++fault) {
    if (!script_.is_at_step(fault) || !script_.is_ending_ranks(fault)) continue;
    if (static_cast<Step>(script_.begin(fault)) > *begun_) continue;
    for (const FaultTarget& target : script_.targets(fault)) {
      for (const RankId rank : ranks_of(target)) {
        if (rank.value >= first) spent_.insert({fault, rank.value});
      }
    }
  }
}

std::vector<LinkId> FaultPlan::links_of(const FaultTarget& target) const {
  if (const auto* part = std::get_if<Part>(&target)) {
    if (part->kind == PartKind::gpu || part->kind == PartKind::node) return {};
    return orrery::links_of(*cluster_, *part);
  }
  const GpuId gpu = placement_->gpus.at(std::get<RankId>(target).value);
  const NodeId node = cluster_->node_of(gpu);
  const std::uint32_t rail = cluster_->rail_of(gpu);
  return {cluster_->nic_out(node, rail), cluster_->nic_in(node, rail)};
}

std::vector<RankId> FaultPlan::ranks_of(const FaultTarget& target) const {
  if (const auto* rank = std::get_if<RankId>(&target)) return {*rank};
  std::vector<RankId> ranks;
  for (const GpuId gpu : gpus_of(*cluster_, std::get<Part>(target))) {
    const auto found = placement_->ranks_at.find(gpu);
    if (found == placement_->ranks_at.end()) continue;
    ranks.insert(ranks.end(), found->second.begin(), found->second.end());
  }
  return ranks;
}

void FaultPlan::add(const FaultTarget& target, const Condition& condition,
                    estimates::HardwareState& state, Shares& lost) const {
  const auto* part = std::get_if<Part>(&target);
  if (const double share = part ? share_of(*cluster_, part->kind) : 1; share < 1) {
    const double gone = condition.down ? 1 : 1 - 1 / condition.slow;
    for (const LinkId link : links_of(target)) lost[link.value] += share * gone;
    return;
  }
  const std::vector<RankId> ranks = ranks_of(target);
  if (condition.slow != 1) {
    for (const RankId rank : ranks) {
      state.slow[rank.value] *= condition.slow;
    }
  }
  const bool is_rank = std::holds_alternative<RankId>(target);
  const double link_slow = is_rank ? condition.link_slow : condition.slow;
  const bool down = is_rank ? condition.link_down : condition.down;
  if (!down && link_slow == 1) return;
  for (const LinkId link : links_of(target)) {
    if (down) state.down.insert(link.value);
    if (link_slow != 1) state.link_slow.emplace(link.value, 1.0).first->second *= link_slow;
  }
}

estimates::HardwareState FaultPlan::state(Step step, Nanos now) const {
  estimates::HardwareState state;
  Shares lost;
  for (const auto& [target, condition] : script_.conditions(moment(step, now))) {
    const auto* part = std::get_if<Part>(&target);
    if (part == nullptr || !condition.down || !is_avoided(*part, step, now)) {
      add(target, condition, state, lost);
      continue;
    }
    // Traffic of a lost link moves to a neighbour with as much traffic of its own: each has half.
    for (const LinkId link : links_of(target)) state.link_slow[link.value] = 2;
  }
  constexpr double kNothingLeft = 1e-9;
  for (const auto& [link, share] : lost) {
    if (share > 1 - kNothingLeft)
      state.down.insert(link);
    else
      state.link_slow.emplace(link, 1.0).first->second /= 1 - share;
  }
  state.slow.drop_nominal();
  std::erase_if(state.link_slow, [](const auto& entry) { return entry.second == 1; });
  return state;
}

std::optional<Nanos> FaultPlan::down_since(const FaultTarget& target,
                                           const std::set<std::uint32_t>& faults) const {
  std::optional<Nanos> since;
  if (!std::holds_alternative<Part>(target)) return {};
  for (const std::uint32_t fault : faults) {
    if (script_.kind(fault) != Fault::kDown || script_.is_at_step(fault)) continue;
    since = std::min(since.value_or(kNever), Nanos{script_.begin(fault)});
  }
  return since;
}

bool FaultPlan::is_avoided(const Part& part, Step step, Nanos now) const {
  const auto& reroute = cluster_->shape().reroute;
  const bool between =
      part.kind == PartKind::spine || part.kind == PartKind::cable || part.kind == PartKind::link;
  if (!reroute || cluster_->is_spraying() || !between) return false;
  if (part.kind == PartKind::link && cluster_->link({part.index}).kind < LinkKind::leaf_up) {
    return false;
  }
  const auto& active = script_.active(moment(step, now));
  const auto found = active.find(part);
  if (found == active.end()) return false;
  const std::optional<Nanos> since = down_since(part, found->second);
  return since && now - *since >= to_nanos(reroute->value);
}

std::optional<Nanos> FaultPlan::next_reroute(Step step, Nanos now) const {
  const auto& reroute = cluster_->shape().reroute;
  if (!reroute || cluster_->is_spraying()) return {};
  std::optional<Nanos> next;
  for (const auto& [target, faults] : script_.active(moment(step, now))) {
    const std::optional<Nanos> since = down_since(target, faults);
    if (!since || *since + to_nanos(reroute->value) <= now) continue;
    next = std::min(next.value_or(kNever), *since + to_nanos(reroute->value));
  }
  return next;
}

double FaultPlan::storage(Step step, Nanos now) const {
  const Condition found = script_.condition(Part{PartKind::storage, 0}, moment(step, now));
  return found.down ? 0 : 1 / found.slow;
}

std::vector<FaultPlan::Thinned> FaultPlan::thinned(Nanos instant) const {
  std::vector<Thinned> result;
  for (const std::uint32_t fault : script_.changing_faults(instant)) {
    if (script_.kind(fault) != Fault::kDown || script_.begin(fault) != instant) continue;
    for (const FaultTarget& target : script_.targets(fault)) {
      const auto* part = std::get_if<Part>(&target);
      if (part == nullptr || share_of(*cluster_, part->kind) == 1) continue;
      for (const LinkId link : links_of(target)) result.push_back({link, part->kind});
    }
  }
  return result;
}

std::vector<FatalFault> FaultPlan::struck_ranks(const FaultScript::Strike& strike) const {
  std::vector<FatalFault> lost;
  for (const std::uint32_t fault : strike.faults) {
    for (const FaultTarget& target : script_.targets(fault)) {
      const auto* part = std::get_if<Part>(&target);
      const bool silent =
          script_.kind(fault) == Fault::kStop || (part && part->kind == PartKind::node);
      for (const RankId rank : ranks_of(target)) {
        if (spent_.contains({fault, rank.value})) continue;
        lost.push_back({.rank = rank,
                        .cause = script_.cause(fault, target),
                        .killed = true,
                        .silent = silent,
                        .of_process = part == nullptr,
                        .at = strike.at,
                        .fault = fault,
                        .detection = script_.own_detection(fault),
                        .restart = script_.own_restart(fault),
                        .replacement = script_.own_replacement(fault),
                        .corrupted = script_.corrupted(fault),
                        .returns = script_.stop_end(fault)});
      }
    }
  }
  std::stable_sort(lost.begin(), lost.end(),
                   [](const auto& a, const auto& b) { return a.rank < b.rank; });
  return lost;
}

std::vector<FatalFault> FaultPlan::losses(std::optional<Step> step, Nanos from, Nanos until) const {
  if (step && *step < furthest_step(*step)) step.reset();  // its faults have begun before
  if (last_struck_ && *last_struck_ < from && from < until) {
    if (const auto rest = script_.next_strike({}, *last_struck_, *last_struck_ + 1)) {
      std::vector<FatalFault> lost = struck_ranks(*rest);
      for (FatalFault& each : lost) each.at = from;
      if (!lost.empty()) return lost;
    }
  }
  while (const auto strike = script_.next_strike(step, from, until)) {
    std::vector<FatalFault> lost = struck_ranks(*strike);
    if (!lost.empty()) return lost;
    from = strike->at + 1;
    step.reset();
  }
  return {};
}

std::optional<FatalFault> FaultPlan::first_loss(Step step, Nanos from, Nanos until) const {
  const std::vector<FatalFault> lost = losses(step, from, until);
  if (lost.empty()) return {};
  return lost.front();
}

std::vector<std::pair<RankId, Nanos>> FaultPlan::stopped_ranks(Nanos now) const {
  std::vector<std::pair<RankId, Nanos>> stopped;
  for (std::uint32_t fault = 0; fault < script_.size(); ++fault) {
    const std::optional<Nanos> end = script_.stop_end(fault);
    if (!end || script_.begin(fault) > now || *end <= now) continue;
    for (const FaultTarget& target : script_.targets(fault)) {
      for (const RankId rank : ranks_of(target)) stopped.emplace_back(rank, *end);
    }
  }
  return stopped;
}

void FaultPlan::mark_spent(const FatalFault& killed) {
  const auto fault = static_cast<std::uint32_t>(killed.fault);
  spent_.insert({killed.fault, killed.rank.value});
  if (!script_.named_cause(fault).empty()) felt_.insert(fault);
  last_struck_ = script_.is_at_step(fault) ? killed.at : script_.begin(fault);
  mark_if_spent(fault);
}

void FaultPlan::mark_if_spent(std::uint32_t fault) {
  for (const FaultTarget& target : script_.targets(fault)) {
    for (const RankId rank : ranks_of(target)) {
      if (!spent_.contains({fault, rank.value})) return;
    }
  }
  script_.mark_spent(fault);
}

void FaultPlan::mark_spent_faults() {
  for (auto each = spent_.begin(); each != spent_.end();) {
    const std::size_t fault = each->first;
    mark_if_spent(static_cast<std::uint32_t>(fault));
    each = spent_.lower_bound({fault + 1, 0});
  }
}

FatalFault FaultPlan::cause_of(LinkId link, Step step, Nanos now) const {
  for (const auto& [target, faults] : script_.active(moment(step, now))) {
    for (const std::uint32_t fault : faults) {
      const Fault::KindCase kind = script_.kind(fault);
      if (kind != Fault::kLinkDown && kind != Fault::kDown) continue;
      const std::vector<LinkId> taken = links_of(target);
      if (std::find(taken.begin(), taken.end(), link) == taken.end()) continue;
      const auto* rank = std::get_if<RankId>(&target);
      return {.rank = rank ? *rank : RankId{},
              .cause = script_.cause(fault, target),
              .killed = false,
              .at = now};
    }
  }
  throw Error(ErrorKind::internal, "a link is down without a fault");
}

std::optional<Nanos> FaultPlan::up_again(LinkId link, Step step, Nanos now) const {
  if (!state(step, now).down.contains(link.value)) return now;  // the link came up in this instant
  const auto next = [&](Nanos after) {
    const std::optional<Nanos> instant = script_.next_instant(after, end_of_patience(now));
    const std::optional<Nanos> reroute = next_reroute(step, after);
    return instant && reroute ? std::min(instant, reroute) : instant ? instant : reroute;
  };
  std::optional<Nanos> at = next(now);
  while (at && state(step, *at).down.contains(link.value)) at = next(*at);
  return at;
}

std::set<Part> FaultPlan::lost_parts(Step step, Nanos now) const {
  return ::orrery::lost_parts(script_, moment(step, now), *cluster_, placement_->gpus);
}

std::map<Part, double> FaultPlan::slower_parts(Step step, Nanos now) const {
  return ::orrery::slower_parts(script_, moment(step, now), *cluster_, placement_->gpus);
}

void FaultPlan::mark_felt(Step step, Nanos now) {
  begun_ = std::max(begun_.value_or(step), step);
  for (const auto& [target, faults] : script_.active(moment(step, now))) {
    for (const std::uint32_t fault : faults) {
      if (!script_.is_ending_ranks(fault) && !script_.named_cause(fault).empty())
        felt_.insert(fault);
    }
  }
}

void FaultPlan::append_fault_counts(Step step, Nanos from, Nanos now, Report& report) const {
  std::map<std::string, std::uint64_t> felt = felt_causes_;
  for (const std::uint32_t fault : felt_) ++felt[script_.named_cause(fault)];
  for (const auto& [cause, injected] :
       script_.begun_by_cause({kBeforeTheRun.step, from}, moment(step, now))) {
    FaultCount& count = *report.add_fault_counts();
    count.set_cause(cause);
    count.set_injected(injected);
    count.set_felt(felt[cause]);
  }
}

void FaultPlan::forget_before(Nanos now, Nanos counted_from) {
  if (!script_.is_worth_forgetting()) return;
  if (last_struck_) {
    const auto rest = script_.next_strike({}, *last_struck_, *last_struck_ + 1);
    if (rest && !struck_ranks(*rest).empty())
      now = std::min(now, *last_struck_);
    else
      last_struck_.reset();
  }
  for (const FaultScript::Forgotten& each : script_.forget_before(now, counted_from)) {
    if (felt_.erase(each.fault) > 0) ++felt_causes_[each.cause];
    spent_.erase(spent_.lower_bound({each.fault, 0}), spent_.lower_bound({each.fault + 1, 0}));
  }
}

FaultPlan::Touched FaultPlan::touched_at(Nanos instant) const {
  Touched result;
  for (const std::uint32_t fault : script_.changing_faults(instant)) {
    for (const FaultTarget& target : script_.targets(fault)) {
      for (const RankId rank : ranks_of(target)) result.ranks.push_back(rank);
      for (const LinkId link : links_of(target)) result.links.push_back(link);
    }
  }
  return result;
}

}  // namespace orrery::sim

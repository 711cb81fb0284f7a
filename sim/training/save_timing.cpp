#include "sim/training/save_timing.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "core/units.hpp"

namespace orrery::sim {
namespace {

/// Returns the time from the stall until a checkpoint of the tier is complete, with the whole rate
/// of the storage.
Nanos write_time(Tier tier, const Checkpoints& costs) {
  switch (tier) {
    case Tier::memory: return costs.write_memory();
    case Tier::peer: return costs.write_peer();
    case Tier::local_disk: return costs.write();
    case Tier::storage: return costs.write_storage();
  }
  throw Error(ErrorKind::internal, "a checkpoint has one of four tiers");
}

/// Returns the bytes that a checkpoint of the tier writes to the shared storage: those of the tier
/// storage if the run has it, otherwise those of the folder; 0 for other tiers.
double bytes_of(Tier tier, const Checkpoints& costs) {
  const Tier shared = costs.storage().empty() ? Tier::local_disk : Tier::storage;
  return tier == shared ? costs.bytes() : 0;
}

SaveDone failed(SaveDone done) {
  done.durable = false;
  done.holders.clear();
  return done;
}

}  // namespace

void SaveTiming::step_begins(const CheckpointPlan& plan) {
  plan_ = plan;
  after_step_.take_over(asked_);
}

std::optional<Tier> SaveTiming::drain_due(Step step) {
  const std::optional<Tier> due = after_step_.due(step, plan_);
  if (due) after_step_.remove_request(*due);
  asked_.take_over(after_step_);
  return due && !writing_.contains(*due) ? due : std::nullopt;
}

Nanos SaveTiming::begin(const Order& order, Nanos now, const Checkpoints& costs) {
  const double storage = is_in_memory(order.tier) ? 1 : order.storage;
  const auto write = static_cast<double>(write_time(order.tier, costs)) / std::max(storage, 1e-6);
  const Nanos took = costs.stall() + (storage > 0 ? static_cast<Nanos>(write) : 0);
  writing_[order.tier] = {{.job = order.job,
                           .step = order.step,
                           .tier = order.tier,
                           .stalled = costs.stall(),
                           .took = took,
                           .durable = storage > 0,
                           .holders = order.holders},
                          now + took};
  const double bytes = bytes_of(order.tier, costs);
  if (bytes > 0 && storage > 0) {
    Writing& writing = writing_[order.tier];
    writing.flow = Flow{.left = bytes, .since = now + costs.stall(), .began = now};
    writing.at = kNever;
  }
  return costs.stall();
}

std::map<Tier, SaveTiming::Writing>::const_iterator SaveTiming::flowing() const {
  return std::find_if(writing_.begin(), writing_.end(),
                      [](const auto& each) { return each.second.flow.has_value(); });
}

bool SaveTiming::is_flowing() const { return flowing() != writing_.end(); }

double SaveTiming::bytes_left(Nanos now) const {
  const auto found = flowing();
  if (found == writing_.end()) return 0;
  const Flow& flow = *found->second.flow;
  return std::max(0.0, flow.left - flow.rate * to_seconds(std::max<Nanos>(0, now - flow.since)));
}

void SaveTiming::set_rate(double rate, Nanos now) {
  Writing& writing = writing_.at(flowing()->first);
  Flow& flow = *writing.flow;
  if (rate == flow.rate) return;
  flow.left = bytes_left(now);
  flow.since = std::max(flow.since, now);
  flow.rate = rate;
  writing.at = rate > 0 ? flow.since + to_nanos(flow.left / rate) : kNever;
  if (rate > 0) writing.done.took = writing.at - flow.began;
}

void SaveTiming::keep_checkpoint(const SaveDone& done, Nanos now, std::size_t keep) {
  if (!done.durable || is_in_memory(done.tier)) return;
  std::map<Step, Nanos>& kept = kept_[done.tier];
  kept[done.step] = now - done.took;
  while (kept.size() > keep) kept.erase(kept.begin());
}

void SaveTiming::forget_kept_after(Step step) {
  for (auto& [tier, kept] : kept_) kept.erase(kept.upper_bound(step), kept.end());
}

Step SaveTiming::newest_intact(Nanos since) const {
  Step newest = 0;
  for (const auto& [tier, kept] : kept_) {
    for (const auto& [step, taken] : kept) {
      if (taken < since) newest = std::max(newest, step);
    }
  }
  return newest;
}

Step SaveTiming::oldest_kept(Step held) const {
  for (const auto& [tier, kept] : kept_) {
    if (!kept.empty()) held = std::min(held, kept.begin()->first);
  }
  return held;
}

Nanos SaveTiming::next() const {
  Nanos first = kNever;
  for (const auto& [tier, writing] : writing_) first = std::min(first, writing.at);
  return first;
}

std::optional<SaveDone> SaveTiming::take_done(Nanos now) {
  const Nanos first = next();
  if (first > now) return {};
  const auto done = std::find_if(writing_.begin(), writing_.end(),
                                 [first](const auto& each) { return each.second.at == first; });
  return std::move(writing_.extract(done).mapped().done);
}

void SaveTiming::spoil_current() {
  for (auto& [tier, writing] : writing_) {
    writing.at = kNever;
    writing.flow.reset();
  }
}

std::vector<SaveDone> SaveTiming::abandon_holder(NodeId node) {
  std::vector<SaveDone> lost;
  std::erase_if(writing_, [&](const auto& each) {
    const std::vector<CopyHolders>& holders = each.second.done.holders;
    const bool holds = std::any_of(
        holders.begin(), holders.end(),
        [node](const CopyHolders& shard) { return shard.node == node || shard.peer == node; });
    if (holds) lost.push_back(failed(each.second.done));
    return holds;
  });
  return lost;
}

std::vector<SaveDone> SaveTiming::abandon_saves() {
  std::vector<SaveDone> ended;
  for (auto& [tier, writing] : std::exchange(writing_, {})) {
    ended.push_back(failed(std::move(writing.done)));
  }
  return ended;
}

}  // namespace orrery::sim

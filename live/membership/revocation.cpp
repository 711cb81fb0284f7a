// Revocation of an epoch: the part of Coordinator that removes processes which have exited or
// fallen silent, and begins the next epoch without them.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "live/membership/coordinator.hpp"

namespace orrery::live::membership {

void Coordinator::record_exit(const Seat& seat) {
  if (!is_fenced(seat)) return remove_member(seat);
  fenced_.erase(seat.rank);
  if (phase_ == Phase::gathering) review_membership();
}

void Coordinator::remove_member(Seat seat, std::optional<Nanos> fenced_at) {
  const auto found = peers_.find(seat.rank);
  if (found == peers_.end() || found->second.newest.from != seat) return;
  const bool member = found->second.member;
  if (fenced_at) {
    fenced_[seat.rank] = {
        .newest = found->second.newest, .since = *fenced_at, .heard = found->second.heard};
  }
  peers_.erase(found);
  happened_.push_back(Lost{seat, fenced_at.has_value()});
  if (phase_ == Phase::gathering) return review_membership();
  if (member) gather_members();
}

// ---- silence ----------------------------------------------------------------------------------

void Coordinator::check_heartbeats(Nanos now) {
  if (!checks_.first) checks_.first = now;
  const Nanos away = now - checks_.newest.value_or(now);
  const bool had_fenced_holder = has_fenced_holder();
  checks_.newest = now;
  std::vector<Seat> silent;
  for (auto& [rank, peer] : peers_) {
    if (away > options_.timeout / 2) peer.heard += away;
    if (now - peer.heard > options_.timeout) silent.push_back(peer.newest.from);
  }
  if (!wait_for_holders(now)) {
    for (const Seat& seat : silent) remove_member(seat, now);
  }
  const bool is_patience_over = had_fenced_holder && !has_fenced_holder();
  if (is_patience_over && phase_ == Phase::gathering) review_membership();
  const bool patient = now - *checks_.first <= (has_holder() ? options_.timeout : patience());
  if (phase_ == Phase::waiting && restarted_ && !patient && !peers_.empty()) gather_members();
}

/// Returns true while silence is no reason to remove a rank, because the ranks that are heard do
/// not hold the whole training state. A new process without the state does not count: if the last
/// holders were removed on its word, the run would lose its state. When enough holders are heard
/// again, every other rank gets a full timeout from then on, because the same network or machine
/// probably delayed it too.
bool Coordinator::wait_for_holders(Nanos now) {
  Nanos latest_of_all = 0;
  for (const auto& [rank, peer] : peers_) latest_of_all = std::max(latest_of_all, peer.heard);
  const Nanos silence = now - parts_.complete_since(holders()).value_or(latest_of_all);
  const bool all = !peers_.empty() && silence > options_.timeout / 2;
  silence_.witnessed =
      peers_.size() < options_.ranks || now - latest_of_all <= options_.timeout / 2;
  if (silence_.all && !all) {
    for (auto& [rank, peer] : peers_) peer.heard = now;
  }
  const bool was = std::exchange(silence_.all, all && silence <= patience());
  return silence_.all || was;
}

Nanos Coordinator::patience() const {
  return silence_.witnessed ? options_.patience_with_holders : options_.patience_with_all;
}

// ---- next epoch -------------------------------------------------------------------------------

void Coordinator::renew_epoch() {
  if (is_running() || phase_ == Phase::linking) gather_members();
}

void Coordinator::restart_from(Step committed) {
  peers_.clear();
  fenced_.clear();
  parts_.clear();
  silence_.all = false;
  committed_ = committed;
  committed_in_ = 0;
  gather_members();
}

/// Revokes the current epoch and begins the next, for which all present ranks are candidates.
void Coordinator::gather_members() {
  if (proposed_ > decided_) happened_.push_back(Aborted{std::exchange(proposed_, decided_)});
  ++epoch_;
  number_ = 0;
  members_.clear();
  for (auto& [rank, peer] : peers_) peer.member = false;
  phase_ = Phase::gathering;
  happened_.push_back(Revoked{epoch_});
}

}  // namespace orrery::live::membership

#include "live/membership/coordinator.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"

namespace orrery::live::membership {
namespace {

bool says_the_same(Status before, const Status& now) {
  before.beat = now.beat;
  return before == now;
}

}  // namespace

Coordinator::Coordinator(const Options& options, const Journal& journal)
    : options_(options),
      restarted_(journal.epoch > 0),
      epoch_(journal.epoch),
      committed_(journal.committed),
      committed_in_(journal.committed_in),
      proposed_(journal.decided),
      decided_(journal.decided),
      in_force_(journal.decided),
      parts_(options.keepers) {}

template <class Condition>
bool Coordinator::all_members(Condition condition) const {
  return std::all_of(peers_.begin(), peers_.end(), [&](const auto& entry) {
    const Peer& peer = entry.second;
    return !peer.member || (peer.newest.epoch == epoch_ && condition(peer.newest));
  });
}

bool Coordinator::has_broken_link() const {
  return !all_members([](const Status& status) { return !status.broken; });
}

bool Coordinator::is_settled() const {
  return phase_ == Phase::idle && !has_broken_link() &&
         all_members([this](const Status& status) { return status.applied == committed_; });
}

bool Coordinator::has_newcomers() const {
  return std::any_of(peers_.begin(), peers_.end(),
                     [](const auto& entry) { return !entry.second.member; });
}

bool Coordinator::record_fenced(const Status& status, Nanos now) {
  const auto found = fenced_.find(status.from.rank);
  if (found == fenced_.end()) return false;
  Fence& fence = found->second;
  if (status.from > fence.newest.from) {
    fenced_.erase(found);  // another process has taken its place
    return false;
  }
  if (status.from == fence.newest.from && status.beat > fence.newest.beat) {
    fence = {.newest = status, .since = fence.since, .heard = now, .back = true};
  }
  return true;
}

void Coordinator::on_status(const Status& status, Nanos now) {
  if (record_fenced(status, now)) return;
  const auto found = peers_.find(status.from.rank);
  if (found != peers_.end()) {
    const Status& newest = found->second.newest;
    if (std::pair(status.from, status.beat) <= std::pair(newest.from, newest.beat)) return;
    if (status.from != newest.from) remove_member(newest.from);
  }
  Peer& peer = peers_[status.from.rank];
  const bool known = found != peers_.end() && says_the_same(peer.newest, status);
  peer.newest = status;
  peer.heard = now;
  if (!known) review_membership();  // not for every heartbeat: the review is O(ranks)
}

bool Coordinator::is_holder(const Status& status) const {
  if (!status.whole) return false;
  const bool pending = status.reduced && status.epoch == committed_in_;
  return status.applied == committed_ || (pending && status.applied + 1 == committed_);
}

std::vector<Holder> Coordinator::holders() const {
  std::vector<Holder> found;
  for (const auto& [rank, peer] : peers_) {
    if (is_holder(peer.newest)) found.push_back({.seat = peer.newest.from, .heard = peer.heard});
  }
  return found;
}

// ---- fenced ranks -----------------------------------------------------------------------------

void Coordinator::fence_process(const Seat& seat, Nanos now) {
  if (peers_.contains(seat.rank)) return;
  Status unknown;
  unknown.from = seat;
  unknown.whole = false;
  fenced_.try_emplace(seat.rank, Fence{.newest = unknown, .since = now, .heard = now});
}

bool Coordinator::is_fenced(const Seat& seat) const {
  const auto fence = fenced_.find(seat.rank);
  return fence != fenced_.end() && fence->second.newest.from == seat;
}

std::vector<Seat> Coordinator::fenced() const {
  std::vector<Seat> seats;
  for (const auto& [rank, fence] : fenced_) seats.push_back(fence.newest.from);
  return seats;
}

std::vector<Seat> Coordinator::heard_again() const {
  std::vector<Seat> seats;
  for (const auto& [rank, fence] : fenced_) {
    if (fence.back) seats.push_back(fence.newest.from);
  }
  return seats;
}

void Coordinator::readmit_rank(std::uint32_t rank, Nanos now) {
  const auto fence = fenced_.extract(rank);
  ensure(!fence.empty() && fence.mapped().back, "expected a fenced rank that is heard again");
  peers_[rank] = {.newest = fence.mapped().newest, .heard = now, .member = false};
  review_membership();
}

bool Coordinator::is_patient_with(const Fence& fence) const {
  return checks_.newest.value_or(fence.heard) - fence.heard <= options_.patience_with_holders;
}

bool Coordinator::has_fenced_holder() const {
  std::vector<Holder> all = holders();
  const std::size_t present = all.size();
  for (const auto& [rank, fence] : fenced_) {
    if (!is_holder(fence.newest) || !is_patient_with(fence)) continue;
    all.push_back({.seat = fence.newest.from, .heard = fence.heard});
  }
  if (all.size() == present) return false;
  std::sort(all.begin(), all.end(),
            [](const Holder& a, const Holder& b) { return a.seat < b.seat; });
  return parts_.count_copies(all) > 0;
}

bool Coordinator::may_need_fenced(std::uint32_t rank, Nanos now) const {
  const auto found = fenced_.find(rank);
  if (found == fenced_.end() || !is_holder(found->second.newest)) return false;
  const std::size_t copies = count_copies();
  if (copies == 0 || silence_.all) return is_patient_with(found->second);
  return copies == 1 && now - found->second.since < options_.timeout;
}

void Coordinator::propose_decision(std::uint64_t number) {
  ensure(is_running() && number > proposed_, "decisions are proposed in order, to members");
  proposed_ = number;
  ++number_;
  review_membership();
}

void Coordinator::await_ranks(std::uint32_t ranks) {
  awaited_ = ranks;
  review_membership();
}

void Coordinator::start_step() {
  ensure(is_ready(), "a step begins when the one before is final");
  phase_ = Phase::working;
  in_force_ = decided_;  // a decision agreed during the step waits for the next step
  ++number_;
}

/// Performs the transitions that the newest statuses allow.
void Coordinator::review_membership() {
  if (phase_ == Phase::waiting && peers_.size() == options_.ranks) gather_members();
  if (phase_ == Phase::gathering) agree_on_members();
  if (phase_ == Phase::linking) {
    if (has_broken_link()) return gather_members();
    if (!all_members([](const Status& status) { return status.linked; })) return;
    phase_ = Phase::idle;
    parts_.add_distribution(members_);  // linked members have dealt the state
    happened_.push_back(Formed{epoch_, members_});
  }
  if (proposed_ > decided_ && is_running() &&
      all_members([this](const Status& status) { return status.acknowledged >= proposed_; })) {
    decided_ = proposed_;
    ++number_;
    happened_.push_back(Decided{decided_});
  }
  if (phase_ == Phase::working && all_members([this](const Status& status) {
        return status.reduced && status.applied == committed_;
      })) {
    commit_step();
  }
  if (is_running() && (has_broken_link() || (phase_ == Phase::idle && has_newcomers())))
    gather_members();
}

void Coordinator::commit_step() {
  happened_.push_back(Committed{committed_, epoch_});
  ++committed_;
  committed_in_ = epoch_;
  parts_.keep_newest();
  phase_ = Phase::idle;
  ++number_;
}

/// Fixes the members once all candidates have given up the previous epoch and a quorum is present.
/// Waits for fenced ranks only if the candidates would have to go on without a part of the state.
void Coordinator::agree_on_members() {
  if (peers_.size() < std::max(options_.quorum, awaited_) || peers_.empty()) return;
  std::optional<std::uint32_t> source;
  bool share = false;
  for (const auto& [rank, peer] : peers_) {
    if (peer.newest.epoch != epoch_) return;
    const bool holds = peer.newest.whole && peer.newest.applied == committed_;
    if (holds && !source) source = rank;
    share = share || !holds;
  }
  if (!has_holder() && has_fenced_holder()) return;
  if (!source) {
    happened_.push_back(Stuck{});
    return;
  }
  awaited_ = 0;
  source_ = *source;
  share_ = share;
  for (auto& [rank, peer] : peers_) {
    peer.member = true;
    members_.push_back(peer.newest.from);
  }
  phase_ = Phase::linking;
  ++number_;
  happened_.push_back(Agreed{epoch_});
}

std::optional<Directive> Coordinator::directive(std::uint32_t rank) const {
  const auto found = peers_.find(rank);
  if (found == peers_.end() || phase_ == Phase::waiting) return std::nullopt;
  if (phase_ != Phase::gathering && !found->second.member) return std::nullopt;
  const Status& newest = found->second.newest;
  const bool linked = newest.epoch == epoch_ && newest.linked;
  return Directive{.to = newest.from,
                   .epoch = epoch_,
                   .number = number_ + 1,
                   .committed = committed_,
                   .committed_in = committed_in_,
                   .members = linked ? std::vector<Seat>() : members_,
                   .source = source_,
                   .share = share_,
                   .work = phase_ == Phase::working,
                   .proposed = proposed_,
                   .decided = in_force_};
}

std::vector<std::uint32_t> Coordinator::peers() const {
  std::vector<std::uint32_t> ranks;
  for (const auto& [rank, peer] : peers_) ranks.push_back(rank);
  return ranks;
}

std::vector<std::uint32_t> Coordinator::silent(Nanos span, Nanos now) const {
  std::vector<std::uint32_t> ranks;
  for (const auto& [rank, peer] : peers_) {
    if (now - peer.heard > span) ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace orrery::live::membership

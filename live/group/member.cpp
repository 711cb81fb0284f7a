#include "live/group/member.hpp"

#include <algorithm>

namespace orrery::live {

GroupAgreement agree_on_result(const std::vector<GroupProgress>& members) {
  const auto fewer = [](const GroupProgress& a, const GroupProgress& b) { return a.done < b.done; };
  const auto [least, most] = std::minmax_element(members.begin(), members.end(), fewer);
  if (members.empty() || least->done == most->done) return {};
  const auto giver =
      std::find_if(members.begin(), members.end(),
                   [most = most](const GroupProgress& p) { return p.done == most->done; });
  return {least->done + 1, most->done, static_cast<std::size_t>(giver - members.begin())};
}

bool GroupMember::can_begin_early(OperationKind kind) const {
  const auto ends_together = [](OperationKind each) {
    return each == OperationKind::symmetric || each == OperationKind::sharded;
  };
  return begun_ < done_ + kMaxInFlight && is_settled() && !is_broken_ && refused_.empty() &&
         ends_together(kind) &&
         std::all_of(in_flight_.begin(), in_flight_.end(),
                     [&](const InFlight& each) { return ends_together(each.kind); });
}

void GroupMember::begin_operation(OperationKind kind, const std::string& name) {
  ++begun_;
  newest_ = {kind, name};
  in_flight_.push_back(newest_);
  if (kind == OperationKind::sharded) mark_sharded(name);
}

void GroupMember::mark_sharded(const std::string& name) {
  if (sharded_.empty()) sharded_ = name;
  if (alive_ < size_) refuse_operation(name);
}

std::string GroupMember::drain_sharded_operation() {
  if (sharded_.empty() || is_sharded_drained_) return "";
  is_sharded_drained_ = true;
  return sharded_;
}

void GroupMember::refuse_operation(const std::string& name) {
  if (refused_.empty()) refused_ = name;
}

void GroupMember::adopt_progress(std::uint64_t operations) {
  begun_ = done_ = released_ = operations;
}

void GroupMember::announce_epoch(std::uint64_t epoch, std::size_t alive) {
  if (is_announced_ && epoch <= epoch_) return;
  for (const InFlight& each : in_flight_) {
    if (each.kind == OperationKind::sharded && is_connected_) refuse_operation(each.name);
  }
  if (alive < size_ && !sharded_.empty()) refuse_operation(sharded_);
  epoch_ = epoch;
  alive_ = alive;
  is_announced_ = true;
  is_connected_ = is_broken_ = has_agreed_ = is_performed_ = false;
  owed_ = 0;
}

bool GroupMember::acknowledges() const {
  const OperationKind kind = in_flight_[done_ - released_].kind;
  return kind == OperationKind::rooted || kind == OperationKind::partial;
}

GroupStep GroupMember::next_step() const {
  if (!refused_.empty()) return GroupStep::refuse;
  if (!is_announced_ || is_broken_) return GroupStep::wait;
  if (!is_connected_) return GroupStep::connect;
  if (!has_agreed_) return GroupStep::exchange;
  if (owed_ > 0) return GroupStep::deliver;
  if (released_ < done_) return GroupStep::release;
  if (done_ == begun_) return GroupStep::wait;
  return is_performed_ ? GroupStep::acknowledge : GroupStep::perform;
}

void GroupMember::finish_step(GroupStep step, std::uint64_t epoch) {
  const bool is_current = epoch == epoch_;
  switch (step) {
    case GroupStep::connect:
      if (is_current) is_connected_ = true;
      return;
    case GroupStep::deliver:
      if (!is_current) return;
      done_ = std::clamp(owed_, done_, begun_);
      owed_ = owed_ < last_owed_ ? owed_ + 1 : 0;
      return;
    case GroupStep::perform:
      if (done_ == begun_) return;
      if (!acknowledges()) {
        ++done_;
      } else if (is_current) {
        is_performed_ = true;
      }
      return;
    case GroupStep::acknowledge:
      if (done_ < begun_) ++done_;
      is_performed_ = false;
      return;
    case GroupStep::release:
      if (released_ == done_) return;
      ++released_;
      in_flight_.pop_front();
      return;
    default: return;
  }
}

void GroupMember::accept_progress(const std::vector<GroupProgress>& members, std::uint64_t epoch) {
  if (epoch != epoch_) return;
  const GroupAgreement agreed = rule_(members);
  has_agreed_ = true;
  owed_ = agreed.first;
  last_owed_ = agreed.last;
  giver_ = agreed.giver;
  const bool is_newest = owed_ > 0 && last_owed_ == begun_;
  if (is_newest && newest_.kind == OperationKind::partial) refuse_operation(newest_.name);
}

void GroupMember::fail_step(std::uint64_t epoch) {
  if (epoch == epoch_) is_broken_ = true;
}

}  // namespace orrery::live

#include "live/rank/rank_state.hpp"

#include <chrono>
#include <utility>

#include "live/control/membership_wire.hpp"
#include "live/control/protocol.hpp"

namespace orrery::live {
namespace {

constexpr std::chrono::seconds kStopPatience{10};

}  // namespace

RankState::RankState(membership::Seat self, Step applied, double link_rate, Hooks hooks)
    : hooks_(std::move(hooks)), member_(self, applied) {
  hardware_.set_link_rate(link_rate);
}

template <class Change>
void RankState::change_member(const Change& how) {
  {
    const std::scoped_lock lock(mutex_);
    how();
  }
  send_status();
}

MemberStatus RankState::status() {
  const std::scoped_lock lock(mutex_);
  MemberStatus status = to_wire(member_.status());
  if (fabric_) status.set_address(fabric_->address());
  return status;
}

void RankState::send_status() { hooks_.tell(status()); }

Step RankState::applied_steps() {
  const std::scoped_lock lock(mutex_);
  return member_.status().applied;
}

void RankState::mark_failed() {
  const std::scoped_lock lock(mutex_);
  failed_ = true;
}

// ---- controller's messages ----

void RankState::on_directive(const MemberDirective& said) {
  std::shared_ptr<JoiningFabric> revoked;
  {
    const std::scoped_lock lock(mutex_);
    if (member_.on_directive(from_wire(said))) {
      hooks_.interrupt();
      revoked = fabric_;
    }
    const membership::Directive& newest = member_.newest();
    if (said.epoch() == newest.epoch && said.number() == newest.number) order_ = said;
    changed_.notify_all();
  }
  if (revoked) revoked->abort("its epoch is over");
  send_status();
}

void RankState::on_hardware(const Hardware& said) {
  std::shared_ptr<JoiningFabric> cut;
  {
    const std::scoped_lock lock(mutex_);
    hardware_ = said;
    if (fabric_) fabric_->set_link_rate(said.link_rate());
    if (said.link_down()) cut = fabric_;
    changed_.notify_all();
  }
  if (cut) cut->abort("the link of this rank is down");
}

void RankState::add_shard_order(const SaveShard& order) {
  const std::scoped_lock lock(mutex_);
  save_ = order;
  changed_.notify_all();
}

void RankState::end(const Stop& stop) {
  std::shared_ptr<JoiningFabric> fabric;
  {
    const std::scoped_lock lock(mutex_);
    if (!released_) stop_ = stop;  // the end of the stream must not hide why it ended
    released_ = released_ || !stop.want_parameters();
    fabric = fabric_;
    hooks_.interrupt();
    changed_.notify_all();
  }
  if (fabric) fabric->abort(stop.reason());
}

void RankState::begin_session() {
  const std::scoped_lock lock(mutex_);
  stop_.reset();
  changed_.notify_all();
}

void RankState::lose_controller() {
  const std::scoped_lock lock(mutex_);
  abandoned_ = !released_;
}

bool RankState::is_released() {
  const std::scoped_lock lock(mutex_);
  return released_;
}

// ---- tasks of the rank ----

std::optional<RankState::Task> RankState::next(const Save& save) {
  std::unique_lock lock(mutex_);
  const auto called = [this] { return stop_ || save_ || member_.task().kind != Task::Kind::none; };
  for (changed_.wait(lock, called); save_; changed_.wait(lock, called)) {
    const SaveShard order = *std::exchange(save_, {});
    const Step applied = member_.status().applied;
    lock.unlock();
    save(order, applied);
    lock.lock();
  }
  Task task = member_.task();
  if (stop_ && task.kind != Task::Kind::apply) return std::nullopt;
  // Resumed under the lock: a later directive that revokes this task interrupts again.
  hooks_.resume();
  return task;
}

void RankState::drop_links() {
  std::shared_ptr<JoiningFabric> old;
  const std::scoped_lock lock(mutex_);
  old.swap(fabric_);  // The old fabric is destroyed after the lock is released.
}

void RankState::mark_listening(std::uint64_t epoch, std::shared_ptr<JoiningFabric> fabric) {
  change_member([&] {
    fabric_ = std::move(fabric);
    fabric_->set_link_rate(hardware_.link_rate());
    member_.mark_listening(epoch);
  });
}

bool RankState::wait_for_link(std::uint64_t epoch) {
  std::unique_lock lock(mutex_);
  const auto over = [&] { return stop_ || member_.newest().epoch != epoch; };
  changed_.wait(lock, [&] { return over() || !hardware_.link_down(); });
  return !over();
}

std::optional<RankState::Links> RankState::links(std::uint64_t epoch) {
  const std::scoped_lock lock(mutex_);
  if (member_.newest().epoch != epoch) return {};
  return Links{
      fabric_, {order_.addresses().begin(), order_.addresses().end()}, member_.has_whole_state()};
}

std::optional<StepPlan> RankState::plan(std::uint64_t epoch) {
  const std::scoped_lock lock(mutex_);
  if (member_.newest().epoch != epoch) return {};
  return order_.plan();
}

std::shared_ptr<JoiningFabric> RankState::fabric() {
  const std::scoped_lock lock(mutex_);
  return fabric_;
}

void RankState::mark_linked(std::uint64_t epoch) {
  change_member([&] { member_.mark_linked(epoch); });
}

void RankState::mark_reduced(std::uint64_t epoch, Step step) {
  change_member([&] { member_.mark_reduced(epoch, step); });
}

void RankState::mark_updated(std::uint64_t epoch, bool gathered) {
  change_member([&] {
    member_.mark_applied();
    if (!gathered) member_.mark_broken(epoch);
  });
}

void RankState::mark_broken(std::uint64_t epoch) {
  change_member([&] { member_.mark_broken(epoch); });
}

// ---- end of the run ----

std::optional<Step> RankState::parameters_wanted() {
  const std::scoped_lock lock(mutex_);
  if (!stop_ || !stop_->want_parameters()) return {};
  return member_.status().applied;
}

bool RankState::wait_for_release() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kStopPatience, [this] { return released_ || (!stop_ && !failed_); });
  return released_ || stop_ || failed_;
}

bool RankState::has_to_join_again() {
  const std::scoped_lock lock(mutex_);
  if (abandoned_ || !stop_) return abandoned_;
  return stop_->reason() == kStateIsLost || stop_->reason() == kCountsAsLost;
}

}  // namespace orrery::live

#include "sim/estimates/step/collective_queues.hpp"

#include <algorithm>

namespace orrery::estimates {

CollectiveQueues::CollectiveQueues(const Plan& plan, const StepPrograms& programs, Flights& flights,
                                   StepRecord& record, OpListener& listener)
    : plan_(plan), programs_(programs), flights_(flights), record_(record), listener_(listener) {
  for (const GroupPlan& group : plan.groups) groups_.push_back(group_of(group));
}

CollectiveQueues::Group CollectiveQueues::group_of(const GroupPlan& plan) const {
  Group group;
  group.order = collective_order(plan, programs_);
  for (const Op* op : group.order.ops) {
    group.queue.push_back({.op = op, .expected = 0, .arrived = {}});
  }
  for (const auto& places : group.order.places) {
    if (places) {
      for (const std::uint32_t place : *places) ++group.queue[place].expected;
    } else {
      for (Collective& collective : group.queue) ++collective.expected;
    }
  }
  return group;
}

void CollectiveQueues::reset_queues() {
  shared_.clear();
  for (Group& group : groups_) {
    for (Collective& collective : group.queue) collective.arrived.clear();
    group.next = 0;
  }
}

void CollectiveQueues::record_arrival(std::uint32_t worker, std::uint32_t op) {
  const ProgramIndex& index = programs_.index(worker);
  const Communicator which = index.ops()[op].communicator;
  std::uint32_t joined = 0;
  for (const std::uint32_t group : plan_.groups_of[worker]) {
    if (plan_.groups[group].communicator == which) ++joined;
  }
  if (joined > 1) shared_[{worker, op}] = joined;
  for (const std::uint32_t group : plan_.groups_of[worker]) {
    const GroupPlan& plan = plan_.groups[group];
    if (plan.communicator != which) continue;
    const auto own =
        std::lower_bound(plan.classes.begin(), plan.classes.end(), programs_.class_of(worker)) -
        plan.classes.begin();
    const std::uint32_t place =
        groups_[group].order.place_of(static_cast<std::size_t>(own), index.ordinal(op));
    Collective& joins = groups_[group].queue[place];
    joins.arrived.emplace_back(worker, op);
    next(group);
    if (listener_.is_over()) return;
  }
}

void CollectiveQueues::next(std::uint32_t number) {
  Group& group = groups_[number];
  if (group.running || group.next == group.queue.size()) return;
  const Collective& due = group.queue[group.next];
  if (due.arrived.size() < due.expected) return;
  group.running = true;
  group.began = record_.now();
  const GroupPlan::Way& way = plan_.collective(number, due.op->collective, due.op->bytes);
  flights_.start(way.plan, way.carried, way.coding, [this, number] { end_collective(number); });
}

void CollectiveQueues::end_collective(std::uint32_t number) {
  Group& group = groups_[number];
  const std::vector<WorkerOp>& arrived = group.queue[group.next].arrived;
  for (const auto& [worker, op] : arrived) {
    record_.add_interval(worker, Slice::Track::communication, programs_.op(worker, op),
                         group.began);
  }
  ++group.next;
  group.running = false;
  for (const auto& [worker, op] : arrived) {
    const auto others = shared_.find({worker, op});
    if (others != shared_.end() && --others->second > 0) continue;
    listener_.on_op_end(worker, op);
    if (listener_.is_over()) return;
  }
  next(number);
}

}  // namespace orrery::estimates

#include "live/rank/task_runner.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/error.hpp"
#include "policies/record/encoding.hpp"

namespace orrery::live {
namespace {

/// Where a rank stands among the members.
std::uint32_t place(const membership::Task& task, std::uint32_t rank) {
  const auto found = std::find_if(task.members.begin(), task.members.end(),
                                  [rank](const auto& seat) { return seat.rank == rank; });
  return static_cast<std::uint32_t>(found - task.members.begin());
}

}  // namespace

TaskRunner::TaskRunner(std::uint32_t rank, std::vector<FailureDomain> domains, const With& with,
                       std::function<void(const AgentMessage&)> send)
    : rank_(rank), domains_(std::move(domains)), with_(with), send_(std::move(send)) {}

void TaskRunner::carry_out(const Task& task) {
  try {
    switch (task.kind) {
      case Task::Kind::none: break;
      case Task::Kind::apply: apply(task); break;
      case Task::Kind::enter: enter(task.epoch); break;
      case Task::Kind::link: link(task); break;
      case Task::Kind::work: work(task); break;
    }
  } catch (const Stopped&) {
    abandon(task);
  } catch (const FabricBroken&) {
    abandon(task);
    with_.state.broke(task.epoch);
  }
}

void TaskRunner::apply(const Task& task) {
  with_.trainer.apply();
  with_.shards.write_planned(task.step);
  bool gathered = true;
  try {
    with_.trainer.gather();
  } catch (const FabricBroken&) {  // the update holds all the same
    gathered = false;
  }
  with_.state.updated(task.epoch, gathered);
}

/// Listens before it says that it has entered: an epoch is agreed on when all listen.
void TaskRunner::enter(std::uint64_t epoch) {
  with_.trainer.use(nullptr);
  with_.state.drop_links();
  with_.state.enter(epoch, with_.fabrics.make(epoch));
}

void TaskRunner::link(const Task& task) {
  if (!with_.state.wait_for_link(task.epoch)) return;
  const std::optional<RankState::Links> links = with_.state.links(task.epoch);
  if (!links) return;
  links->fabric->connect(place(task, rank_), links->addresses);
  with_.trainer.use(links->fabric);
  with_.trainer.share_state(place(task, task.source), task.share, links->current, keepers(task));
  with_.state.linked(task.epoch);
}

ShardedOptimizer::Keepers TaskRunner::keepers(const Task& task) const {
  std::vector<FailureDomain> members;
  for (const membership::Seat& seat : task.members) members.push_back(domains_.at(seat.rank));
  return copy_keepers(members);
}

void TaskRunner::work(const Task& task) {
  const std::optional<StepPlan> plan = with_.state.plan(task.epoch);
  if (!plan) return;
  if (static_cast<std::size_t>(plan->shares_size()) != task.members.size()) {
    throw Error(ErrorKind::internal, "a plan does not fit the members of its epoch");
  }
  if (plan->has_collectives()) with_.state.fabric()->use_collectives(decode(plan->collectives()));
  report(with_.trainer.run_step(*plan));  // before the status that says so; also on a new stream
  with_.shards.plan(plan->step(), plan->checkpoint(), place(task, rank_),
                    static_cast<std::uint32_t>(task.members.size()));
  with_.state.reduced(task.epoch, task.step);
}

void TaskRunner::abandon(const Task& task) {
  if (task.kind == Task::Kind::work) report(with_.trainer.abandoned());
}

void TaskRunner::report(StepReport step) const {
  AgentMessage message;
  *message.mutable_step_report() = std::move(step);
  send_(message);
}

}  // namespace orrery::live

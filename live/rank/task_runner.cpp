#include "live/rank/task_runner.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/error.hpp"
#include "policies/record/encoding.hpp"

namespace orrery::live {
namespace {

/// Returns the index of `rank` among the members.
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
      case Task::Kind::enter: begin_epoch(task.epoch); break;
      case Task::Kind::link: link(task); break;
      case Task::Kind::work: run_step(task); break;
    }
  } catch (const Stopped&) {
    report_lost_work(task);
  } catch (const FabricBroken&) {
    report_lost_work(task);
    with_.state.mark_broken(task.epoch);
  }
}

void TaskRunner::apply(const Task& task) {
  with_.trainer.apply();
  with_.shards.write_planned(task.step);
  bool gathered = true;
  try {
    with_.trainer.gather_parameters();
  } catch (const FabricBroken&) {  // The update is valid without the gathered parameters.
    gathered = false;
  }
  with_.state.mark_updated(task.epoch, gathered);
}

/// The fabric listens before the epoch is reported as begun: an epoch is agreed on once all members
/// listen.
void TaskRunner::begin_epoch(std::uint64_t epoch) {
  with_.trainer.set_fabric(nullptr);
  with_.state.drop_links();
  with_.state.mark_listening(epoch, with_.fabrics.make_fabric(epoch));
}

void TaskRunner::link(const Task& task) {
  if (!with_.state.wait_for_link(task.epoch)) return;
  const std::optional<RankState::Links> links = with_.state.links(task.epoch);
  if (!links) return;
  links->fabric->connect_ranks(place(task, rank_), links->addresses);
  with_.trainer.set_fabric(links->fabric);
  with_.trainer.share_state(place(task, task.source), task.share, links->current, keepers(task));
  with_.state.mark_linked(task.epoch);
}

ShardedOptimizer::Keepers TaskRunner::keepers(const Task& task) const {
  std::vector<FailureDomain> members;
  for (const membership::Seat& seat : task.members) members.push_back(domains_.at(seat.rank));
  return copy_keepers(members);
}

void TaskRunner::run_step(const Task& task) {
  const std::optional<StepPlan> plan = with_.state.plan(task.epoch);
  if (!plan) return;
  if (static_cast<std::size_t>(plan->shares_size()) != task.members.size()) {
    throw Error(ErrorKind::internal,
                "expected a plan with one share per member of its epoch, found another count");
  }
  if (plan->has_collectives()) with_.state.fabric()->use_collectives(decode(plan->collectives()));
  // The report precedes the status that mentions the step, also on a new stream.
  report(with_.trainer.run_step(*plan));
  with_.shards.plan(*plan, place(task, rank_), static_cast<std::uint32_t>(task.members.size()));
  with_.state.mark_reduced(task.epoch, task.step);
}

void TaskRunner::report_lost_work(const Task& task) {
  if (task.kind == Task::Kind::work) report(with_.trainer.abandoned_report());
}

void TaskRunner::report(StepReport step) const {
  AgentMessage message;
  *message.mutable_step_report() = std::move(step);
  send_(message);
}

}  // namespace orrery::live

#include "live/run/processes/crew.hpp"

#include <algorithm>
#include <csignal>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "live/control/membership_wire.hpp"
#include "policies/seam/job_lifecycle.hpp"
#include "topologies/failure_domain.hpp"
#include "traces/workload/sharding.hpp"

namespace orrery::live {
namespace {

constexpr std::chrono::seconds kFormPatience{30};
constexpr std::chrono::seconds kFinishPatience{10};
constexpr std::chrono::milliseconds kPoll{20};
constexpr int kMostFutile = 30;

/// Returns the rule by which the members of an epoch keep copies of a sharded state, the same that
/// the ranks apply; empty if every rank holds the whole state.
membership::StateParts::Keepers keepers_of(const Assignment& assignment, std::uint32_t slots) {
  if (sharding_of(assignment.scenario().job().layout()) != Sharding::optimizer) return {};
  std::vector<FailureDomain> domains;
  for (const Domain& said : assignment.domains()) domains.push_back({said.rack(), said.node()});
  domains.resize(slots);
  return [domains](const std::vector<membership::Seat>& members) {
    std::vector<FailureDomain> found;
    for (const membership::Seat& seat : members) found.push_back(domains.at(seat.rank));
    return copy_keepers(found);
  };
}

}  // namespace

RankProcesses::RankProcesses(AgentProcesses& processes, const ControllerStart& place,
                             const Assignment& assignment, std::uint32_t slots, Journal& journal)
    : timeout_(assignment.scenario().survival().heartbeat_timeout()),
      journal_(journal),
      agents_(processes, place, assignment, slots),
      coordinator_(
          {.ranks = agents_.initial_ranks(),
           .timeout = timeout_,
           .patience_with_all = assignment.scenario().survival().hold_limit(),
           .keepers = keepers_of(assignment, slots)},
          {.epoch = journal.state().core.epoch,
           .committed = std::max<Step>(journal.state().core.committed, assignment.resume().step()),
           .committed_in = journal.state().core.committed_in,
           .decided = journal.state().core.decided}) {
  if (!journal.state().started) form_epoch();
  formed_ = true;
  agents_.record_training_start();
  rolled_back_ = journal.state().rolled_back;
  if (rolled_back_) agents_.begin_from(*rolled_back_);
}

/// Lost processes are simply restarted before the first step: all ranks hold the same state.
void RankProcesses::form_epoch() {
  const std::uint32_t ranks = agents_.initial_ranks();
  const auto deadline = Clock::now() + kFormPatience;
  while (!coordinator_.is_ready() || members().size() < ranks) {
    const std::vector<RankEvent> events = wait(Clock::now() + kPoll);
    send_directives();
    for (const RankEvent& event : events) {
      const auto* died = std::get_if<RankDied>(&event);
      if (died) replace(died->death.rank);
      if (const auto* given_up = std::get_if<GivenUp>(&event)) {
        throw Error(ErrorKind::environment,
                    fmt::format("rank {}: {}", given_up->rank, given_up->cause));
      }
    }
    if (Clock::now() < deadline) continue;
    throw Error(ErrorKind::environment,
                fmt::format("expected all ranks to be linked within {} s, found ranks without "
                            "links; check the network between them",
                            kFormPatience.count()));
  }
}

void RankProcesses::count_futile_epoch() {
  if (++futile_ <= kMostFutile) return;
  throw Error(ErrorKind::environment,
              fmt::format("expected all ranks to be linked, found none linked after {} attempts; "
                          "check the network between them",
                          kMostFutile));
}

void RankProcesses::record_members(const std::vector<Seat>& members) {
  for (const Seat& member : members) {
    replacements_.record_member(member.rank);
    if (was_member(member)) continue;
    futile_ = 0;
    JournalRecord record;
    record.mutable_joined()->set_rank(member.rank);
    record.mutable_joined()->set_life(member.life);
    journal_.append_record(record);
  }
}

void RankProcesses::record_commit() {
  futile_ = failures_ = 0;
  rolled_back_.reset();
  agents_.record_training_start();
}

std::vector<std::uint32_t> RankProcesses::members() const {
  std::vector<std::uint32_t> ranks;
  for (const Seat& member : coordinator_.members()) ranks.push_back(member.rank);
  return ranks;
}

const RankStates& RankProcesses::states() const {
  if (!std::exchange(are_states_old_, false)) return states_;
  std::vector<RankState>& ranks = states_.ranks;
  ranks.assign(agents_.ranks(), {});
  for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) {
    ranks[rank].is_running = agents_.is_running(rank);
    ranks[rank].pid = agents_.pid(rank);
  }
  for (const Seat& member : coordinator_.members()) ranks.at(member.rank).is_member = true;
  for (const std::uint32_t rank : coordinator_.peers()) ranks.at(rank).is_peer = true;
  for (const std::uint32_t rank : coordinator_.silent(suspicion_time(timeout_), now())) {
    ranks.at(rank).is_silent = true;
  }
  for (const Seat& seat : coordinator_.fenced()) {
    ranks.at(seat.rank).is_fenced = ranks.at(seat.rank).is_silent = true;
  }
  for (const Seat& seat : coordinator_.heard_again()) {
    ranks.at(seat.rank).is_heard_again = true;
    ranks.at(seat.rank).is_silent = false;
  }
  for (const auto& [rank, status] : spares_) {
    ranks.at(rank).is_spare = true;
    ranks.at(rank).is_answering_spare = status && is_alive(rank);
  }
  const bool has_holder = coordinator_.has_holder();
  const bool has_fenced_holder = coordinator_.has_fenced_holder();
  states_.is_epoch_formed = is_epoch_formed();
  states_.waits_for_fenced = !has_holder && has_fenced_holder;
  states_.all_silent = coordinator_.all_silent() || states_.waits_for_fenced;
  states_.has_state_holder = has_holder || has_fenced_holder;
  states_.patience = coordinator_.patience();
  return states_;
}

void RankProcesses::start_step(const std::function<StepPlan(std::uint32_t rank)>& plan) {
  std::map<std::uint32_t, StepPlan> plans;
  for (const std::uint32_t rank : members()) plans[rank] = plan(rank);
  briefing_.set_plans(std::move(plans));
  are_states_old_ = true;
  coordinator_.start_step();
  send_directives();
}

void RankProcesses::save(Step step, std::uint64_t attempt) {
  ControllerMessage message;
  SaveShard& save = *message.mutable_save();
  save.set_attempt(attempt);
  save.set_step(step);
  save.set_count(static_cast<std::uint32_t>(coordinator_.members().size()));
  for (const Seat& member : coordinator_.members()) {
    agents_.send_message(member.rank, message);
    save.set_index(save.index() + 1);
  }
}

void RankProcesses::renew_epoch() {
  are_states_old_ = true;
  coordinator_.renew_epoch();
}

void RankProcesses::renew_connections() {
  renew_epoch();
  agents_.drop_streams();
}

void RankProcesses::await_ranks(std::uint32_t ranks) {
  are_states_old_ = true;
  coordinator_.await_ranks(ranks);
}

void RankProcesses::set_patience_with_holders(Nanos patience) {
  are_states_old_ = true;
  coordinator_.set_patience_with_holders(patience);
}

void RankProcesses::propose_decision(std::uint64_t number) {
  are_states_old_ = true;
  coordinator_.propose_decision(number);
  send_directives();
}

void RankProcesses::end(std::uint32_t rank, const std::string& cause) {
  sentences_[{rank, agents_.life(rank)}] = cause;
  signal(rank, SIGKILL);
}

void RankProcesses::signal(std::uint32_t rank, int number) {
  are_states_old_ = true;
  agents_.signal(rank, number);
}

void RankProcesses::end_ranks() {
  are_states_old_ = true;
  for (std::uint32_t rank = 0; rank < agents_.ranks(); ++rank) {
    if (spares_.contains(rank)) continue;
    replacements_.cancel_restart(rank);
    if (!agents_.is_running(rank)) continue;
    dead_.insert({rank, agents_.life(rank)});
    agents_.signal(rank, SIGKILL);
  }
}

void RankProcesses::begin_again(const Resumption& from) {
  JournalRecord record;
  *record.mutable_rolled_back() = from;
  journal_.append_record(record);
  are_states_old_ = true;
  rolled_back_ = from;
  agents_.begin_from(from);
  coordinator_.restart_from(from.step());
  coordinator_.drain_happenings();  // The caller knows that the epoch is revoked.
}

RankProcesses::Parting RankProcesses::finish_run(Step steps) {
  are_states_old_ = true;
  Parting parting;
  std::set<std::uint32_t> awaited, asked;
  for (std::uint32_t rank = 0; rank < agents_.ranks(); ++rank) {
    const bool is_fenced = coordinator_.is_fenced(rank);
    if (is_fenced) agents_.signal(rank, SIGKILL);
    const bool is_spare = spares_.contains(rank);
    if (agents_.is_running(rank) && !is_spare && !is_fenced) awaited.insert(rank);
  }
  const auto deadline = Clock::now() + kFinishPatience;
  while (!awaited.empty() && Clock::now() < deadline) {
    for (const std::uint32_t rank : awaited) {
      if (!agents_.is_connected(rank) || !asked.insert(rank).second) continue;
      agents_.send_stop(rank, "the run is complete", true);
    }
    for (const Incoming& incoming : agents_.receive_messages(Clock::now() + kPoll)) {
      const std::uint32_t rank = incoming.rank;
      if (incoming.ended && awaited.erase(rank) > 0) {
        parting.deaths.push_back({rank, *incoming.ended});
      }
      if (!incoming.message) continue;
      if (incoming.message->has_hello()) asked.erase(rank);  // The agent has reconnected.
      if (incoming.message->has_failed() && awaited.erase(rank) > 0) {
        parting.deaths.push_back({rank, incoming.message->failed().reason()});
      }
      if (!incoming.message->has_finished()) continue;
      const Finished& finished = incoming.message->finished();
      awaited.erase(rank);
      // A replacement that has not joined holds no parameters.
      if (finished.applied() != steps) continue;
      parting.hashes[rank] = finished.parameters_sha256();
    }
  }
  for (const std::uint32_t rank : awaited) {
    parting.deaths.push_back({rank, "sent no parameters in time"});
  }
  return parting;
}

}  // namespace orrery::live

#include "live/crew.hpp"

#include <algorithm>
#include <csignal>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "live/membership_wire.hpp"

namespace orrery::live {
namespace {

constexpr std::chrono::seconds kFormPatience{30};
constexpr std::chrono::seconds kFinishPatience{10};
constexpr std::chrono::milliseconds kPoll{20};
constexpr int kMostAttempts = 3;
constexpr int kMostFutile = 30;

}  // namespace

Crew::Crew(const std::string& program, const Assignment& assignment, std::uint32_t ranks)
    : timeout_(assignment.scenario().survival().heartbeat_timeout()),
      agents_(program, assignment, ranks),
      coordinator_({.ranks = ranks, .timeout = timeout_},
                   {.committed = assignment.resume().step()}) {
  const auto deadline = Clock::now() + kFormPatience;
  while (!coordinator_.ready()) {
    for (const CrewEvent& event : wait(Clock::now() + kPoll)) {
      const auto* died = std::get_if<RankDied>(&event);
      if (!died) continue;
      throw Error(ErrorKind::environment,
                  fmt::format("rank {}: {}", died->death.rank, died->death.cause));
    }
    if (Clock::now() < deadline) continue;
    throw Error(ErrorKind::environment, fmt::format("the ranks did not link up in {} s",
                                                    kFormPatience.count()));
  }
}

std::vector<CrewEvent> Crew::wait(Clock::time_point deadline) {
  std::vector<CrewEvent> events;
  for (const Incoming& incoming : agents_.receive(deadline)) take(incoming, events);
  for (const RankDeath& death : agents_.take_deaths()) note_end(seat(death.rank), events);
  coordinator_.tick(now());
  note_happenings(events);
  start_replacements();
  send_directives();
  return events;
}

void Crew::take(const Incoming& incoming, std::vector<CrewEvent>& events) {
  const std::uint32_t rank = incoming.rank;
  const Seat from{rank, incoming.life};
  if (dead_.contains(from)) return;
  if (!incoming.message) {
    note_end(from, events);
  } else if (incoming.message->has_failed()) {
    const Failed& failed = incoming.message->failed();
    throw Error(static_cast<ErrorKind>(failed.kind()), failed.reason());
  } else if (incoming.message->has_status()) {
    const MemberStatus& status = incoming.message->status();
    // Two threads of an agent send statuses: an older one may come after a newer one.
    const std::pair said(incoming.life, status.beat());
    if (auto& newest = heard_[rank]; said > newest) {
      newest = said;
      addresses_[rank] = status.address();
    }
    coordinator_.hear(from_wire(status), now());
    note_happenings(events);
  } else {
    events.emplace_back(incoming);
  }
}

/// The process in this seat, or its stream, has ended.
void Crew::note_end(const Seat& seat, std::vector<CrewEvent>& events) {
  coordinator_.gone(seat);
  note_happenings(events);
  if (!dead_.insert(seat).second) return;
  // It had not said a word to the coordinator.
  events.emplace_back(RankDied{.death = {.rank = seat.rank, .cause = agents_.bury(seat.rank)}});
}

void Crew::note_happenings(std::vector<CrewEvent>& events) {
  for (const membership::Happening& happening : coordinator_.take()) {
    if (std::holds_alternative<membership::Revoked>(happening) && ++futile_ > kMostFutile) {
      throw Error(ErrorKind::environment,
                  fmt::format("the ranks could not be linked up in {} attempts", kMostFutile));
    }
    if (std::holds_alternative<membership::Committed>(happening)) futile_ = 0;
    if (const auto* formed = std::get_if<membership::Formed>(&happening)) {
      were_members_.insert(formed->members.begin(), formed->members.end());
      for (const Seat& member : formed->members) attempts_.erase(member.rank);
    }
    if (const auto* lost = std::get_if<membership::Lost>(&happening)) {
      events.emplace_back(note_loss(*lost));
    } else {
      std::visit(
          [&](const auto& each) {
            if constexpr (!std::is_same_v<std::decay_t<decltype(each)>, membership::Lost>) {
              events.emplace_back(each);
            }
          },
          happening);
    }
  }
}

RankDied Crew::note_loss(const membership::Lost& lost) {
  const std::uint32_t rank = lost.seat.rank;
  futile_ = 0;
  if (lost.silent) agents_.signal(rank, SIGKILL);  // it must not come back as if nothing had been
  std::string cause = agents_.bury(rank);
  if (lost.silent) cause = fmt::format("has said nothing for {:.1f} s", to_seconds(timeout_));
  dead_.insert(lost.seat);
  return {.death = {.rank = rank, .cause = std::move(cause)},
          .was_member = were_members_.contains(lost.seat)};
}

std::vector<std::uint32_t> Crew::members() const {
  std::vector<std::uint32_t> ranks;
  for (const Seat& member : coordinator_.members()) ranks.push_back(member.rank);
  return ranks;
}

void Crew::work(const std::function<StepPlan(std::uint32_t rank)>& plan) {
  plans_.clear();
  for (const std::uint32_t rank : members()) plans_[rank] = plan(rank);
  coordinator_.work();
  send_directives();
}

void Crew::propose(std::uint64_t number) {
  coordinator_.propose(number);
  send_directives();
}

void Crew::send_directives() {
  for (const std::uint32_t rank : coordinator_.peers()) {
    const auto directive = coordinator_.directive(rank);
    if (!directive) continue;
    const auto newest = std::tuple(directive->to, directive->epoch, directive->number);
    if (const auto before = sent_.find(rank); before != sent_.end() && before->second == newest) {
      continue;
    }
    sent_[rank] = newest;
    ControllerMessage message;
    MemberDirective& wire = *message.mutable_directive();
    wire = to_wire(*directive);
    for (const Seat& member : directive->members) wire.add_addresses(addresses_[member.rank]);
    if (directive->work) *wire.mutable_plan() = plans_[rank];
    agents_.send(rank, message);
  }
}

void Crew::replace(std::uint32_t rank) {
  if (attempts_[rank]++ < kMostAttempts) wanted_.insert(rank);
}

void Crew::start_replacements() {
  std::erase_if(wanted_, [this](std::uint32_t rank) { return agents_.restart(rank); });
}

Crew::Parting Crew::finish(Step steps) {
  Parting parting;
  agents_.send_stop("the run is complete", true);
  std::set<std::uint32_t> awaited;
  for (std::uint32_t rank = 0; rank < agents_.ranks(); ++rank) {
    if (agents_.connected(rank)) awaited.insert(rank);
  }
  const auto deadline = Clock::now() + kFinishPatience;
  while (!awaited.empty() && Clock::now() < deadline) {
    for (const Incoming& incoming : agents_.receive(Clock::now() + kPoll)) {
      const bool ended = !incoming.message || incoming.message->has_failed();
      if (ended && awaited.erase(incoming.rank) > 0) {  // after its hash this is how it should be
        parting.deaths.push_back({incoming.rank, agents_.bury(incoming.rank)});
      }
      if (ended || !incoming.message->has_finished()) continue;
      const Finished& finished = incoming.message->finished();
      awaited.erase(incoming.rank);
      if (finished.applied() != steps) continue;  // a replacement that had not joined yet
      parting.hashes[incoming.rank] = finished.parameters_sha256();
    }
  }
  for (const std::uint32_t rank : awaited) {
    parting.deaths.push_back({rank, "did not hand in its parameters"});
  }
  return parting;
}

}  // namespace orrery::live

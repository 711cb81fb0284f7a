#include "live/run/processes/crew.hpp"

#include <algorithm>
#include <csignal>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "live/control/membership_wire.hpp"

namespace orrery::live {
namespace {

constexpr std::chrono::seconds kFormPatience{30};
constexpr std::chrono::seconds kFinishPatience{10};
constexpr std::chrono::milliseconds kPoll{20};
constexpr std::uint32_t kMostFailures = 3;  // of each rank on average, without a step done
constexpr int kMostFutile = 30;

}  // namespace

Crew::Crew(AgentProcesses& processes, const ControllerStart& place, const Assignment& assignment,
           std::uint32_t ranks, Journal& journal)
    : timeout_(assignment.scenario().survival().heartbeat_timeout()),
      journal_(journal),
      remembered_(journal.past().core),
      agents_(processes, place, assignment, ranks),
      coordinator_({.ranks = ranks, .timeout = timeout_},
                   {.epoch = remembered_.epoch,
                    .committed = std::max<Step>(remembered_.committed, assignment.resume().step()),
                    .committed_in = remembered_.committed_in,
                    .decided = remembered_.decided}),
      were_members_(journal.past().joined) {
  if (!journal.past().started) form();
  formed_ = true;
  agents_.training();
}

/// Nothing has been trained yet: whoever dies is started again, and holds all that the others do.
void Crew::form() {
  const std::uint32_t ranks = agents_.ranks();
  const auto deadline = Clock::now() + kFormPatience;
  while (!coordinator_.ready() || members().size() < ranks) {
    const std::vector<CrewEvent> events = wait(Clock::now() + kPoll);
    send_directives();
    for (const CrewEvent& event : events) {
      const auto* died = std::get_if<RankDied>(&event);
      if (died) replace(died->death.rank);
      if (const auto* given_up = std::get_if<GivenUp>(&event)) {
        throw Error(ErrorKind::environment,
                    fmt::format("rank {}: {}", given_up->rank, given_up->cause));
      }
    }
    if (Clock::now() < deadline) continue;
    throw Error(ErrorKind::environment,
                fmt::format("the ranks did not link up in {} s", kFormPatience.count()));
  }
}

std::vector<CrewEvent> Crew::wait(Clock::time_point deadline) {
  std::vector<CrewEvent> events;
  for (const Incoming& incoming : agents_.receive(deadline)) take(incoming, events);
  coordinator_.tick(now());
  note_happenings(events);
  start_replacements(events);
  return events;
}

void Crew::take(const Incoming& incoming, std::vector<CrewEvent>& events) {
  const std::uint32_t rank = incoming.rank;
  const Seat from{rank, incoming.life};
  if (incoming.ended) {
    const auto ours = sentences_.find(from);
    causes_[from] = ours == sentences_.end() ? *incoming.ended : ours->second;
  }
  if (dead_.contains(from)) return;
  if (incoming.ended) return note_end(from, events);
  if (!incoming.message) return;  // it may come back; if not, its process or its silence tells
  if (incoming.message->has_hello()) briefing_.greeted(rank);
  if (incoming.message->has_failed()) {
    return fail(from, incoming.message->failed(), events);
  }
  if (incoming.message->has_status()) return hear(from, incoming.message->status(), events);
  if (incoming.message->has_heartbeat()) hear(from, incoming.message->heartbeat().status(), events);
  events.emplace_back(incoming);
}

/// What only this process or its machine lacks (descriptors, memory, room on a disk) costs the run
/// this process. Where nobody gets a step done any more it is the run's error after all.
void Crew::fail(const Seat& seat, const Failed& failed, std::vector<CrewEvent>& events) {
  if (failed.state_lost()) {
    events.emplace_back(StateGone{failed.reason()});
    return;
  }
  if (!failed.local() || !formed_ || ++failures_ > kMostFailures * agents_.ranks()) {
    throw Error(static_cast<ErrorKind>(failed.kind()), failed.reason());
  }
  if (seat.life == agents_.life(seat.rank)) end(seat.rank, failed.reason());
}

void Crew::hear(const Seat& from, const MemberStatus& status, std::vector<CrewEvent>& events) {
  briefing_.hear(from, status);
  coordinator_.hear(from_wire(status), now());
  note_happenings(events);
}

/// The process in this seat has ended.
void Crew::note_end(const Seat& seat, std::vector<CrewEvent>& events) {
  coordinator_.gone(seat);
  note_happenings(events);
  if (!dead_.insert(seat).second) return;
  // It had not said a word to the coordinator.
  events.emplace_back(RankDied{.death = {.rank = seat.rank, .cause = causes_[seat]},
                               .was_member = were_members_.contains(seat)});
}

void Crew::note_happenings(std::vector<CrewEvent>& events) {
  for (const membership::Happening& happening : coordinator_.take()) {
    if (std::holds_alternative<membership::Revoked>(happening) && ++futile_ > kMostFutile) {
      throw Error(ErrorKind::environment,
                  fmt::format("the ranks could not be linked up in {} attempts", kMostFutile));
    }
    if (std::holds_alternative<membership::Committed>(happening)) futile_ = failures_ = 0;
    if (const auto* formed = std::get_if<membership::Formed>(&happening)) {
      for (const Seat& member : formed->members) {
        replacements_.joined(member.rank);
        if (!were_members_.insert(member).second) continue;
        JournalRecord record;
        record.mutable_joined()->set_rank(member.rank);
        record.mutable_joined()->set_life(member.life);
        journal_.append(record);
      }
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
  std::string cause = causes_[lost.seat];
  if (cause.empty()) cause = "another process has taken its place";
  if (lost.silent) {
    agents_.signal(rank, SIGKILL);  // it must not come back as if nothing had been
    cause = fmt::format("has said nothing for {:.1f} s", to_seconds(timeout_));
  }
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
  std::map<std::uint32_t, StepPlan> plans;
  for (const std::uint32_t rank : members()) plans[rank] = plan(rank);
  briefing_.set_plans(std::move(plans));
  coordinator_.work();
  send_directives();
}

void Crew::save(Step step, std::uint64_t attempt) {
  ControllerMessage message;
  SaveShard& save = *message.mutable_save();
  save.set_attempt(attempt);
  save.set_step(step);
  save.set_count(static_cast<std::uint32_t>(coordinator_.members().size()));
  for (const Seat& member : coordinator_.members()) {
    agents_.send(member.rank, message);
    save.set_index(save.index() + 1);
  }
}

void Crew::open_anew() {
  coordinator_.renew();
  agents_.drop_streams();
}

void Crew::propose(std::uint64_t number) {
  coordinator_.propose(number);
  send_directives();
}

/// Durable before anything that follows from it is sent; commits are written by the backend.
void Crew::remember() {
  const membership::Journal now = coordinator_.journal();
  if (now.epoch == remembered_.epoch && now.decided == remembered_.decided) return;
  remembered_ = now;
  JournalRecord record;
  record.mutable_membership()->set_epoch(now.epoch);
  record.mutable_membership()->set_decided(now.decided);
  journal_.append(record);
}

void Crew::keep(JournalSnapshot& now) const {
  const membership::Journal core = coordinator_.journal();
  now.mutable_membership()->set_epoch(core.epoch);
  now.mutable_membership()->set_decided(core.decided);
  now.set_committed_in(core.committed_in);
  for (const Seat& seat : were_members_) {
    orrery::live::Seat& joined = *now.add_joined();
    joined.set_rank(seat.rank);
    joined.set_life(seat.life);
  }
}

void Crew::send_directives() {
  remember();
  for (const std::uint32_t rank : coordinator_.peers()) {
    for (const ControllerMessage& message : briefing_.take(rank, coordinator_.directive(rank))) {
      agents_.send(rank, message);
    }
  }
}

void Crew::end(std::uint32_t rank, const std::string& cause) {
  sentences_[{rank, agents_.life(rank)}] = cause;
  agents_.signal(rank, SIGKILL);
}

void Crew::replace(std::uint32_t rank) { replacements_.want(rank, now()); }

void Crew::start_replacements(std::vector<CrewEvent>& events) {
  const auto start = [this](std::uint32_t rank) { return agents_.restart(rank); };
  for (const std::uint32_t rank : replacements_.start(now(), start)) {
    events.emplace_back(GivenUp{rank, causes_[{rank, agents_.life(rank)}]});
  }
}

Crew::Parting Crew::finish(Step steps) {
  Parting parting;
  std::set<std::uint32_t> awaited, asked;
  for (std::uint32_t rank = 0; rank < agents_.ranks(); ++rank) {
    if (agents_.running(rank)) awaited.insert(rank);
  }
  const auto deadline = Clock::now() + kFinishPatience;
  while (!awaited.empty() && Clock::now() < deadline) {
    for (const std::uint32_t rank : awaited) {
      if (!agents_.connected(rank) || !asked.insert(rank).second) continue;
      agents_.send_stop(rank, "the run is complete", true);
    }
    for (const Incoming& incoming : agents_.receive(Clock::now() + kPoll)) {
      const std::uint32_t rank = incoming.rank;
      if (incoming.ended && awaited.erase(rank) > 0) {
        parting.deaths.push_back({rank, *incoming.ended});
      }
      if (!incoming.message) continue;
      if (incoming.message->has_hello()) asked.erase(rank);  // it has come back
      if (incoming.message->has_failed() && awaited.erase(rank) > 0) {
        parting.deaths.push_back({rank, incoming.message->failed().reason()});
      }
      if (!incoming.message->has_finished()) continue;
      const Finished& finished = incoming.message->finished();
      awaited.erase(rank);
      if (finished.applied() != steps) continue;  // a replacement that had not joined yet
      parting.hashes[rank] = finished.parameters_sha256();
    }
  }
  for (const std::uint32_t rank : awaited) {
    parting.deaths.push_back({rank, "did not hand in its parameters"});
  }
  return parting;
}

}  // namespace orrery::live

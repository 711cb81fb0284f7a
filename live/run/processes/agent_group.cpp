#include "live/run/processes/agent_group.hpp"

#include <algorithm>
#include <csignal>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery::live {
namespace {

constexpr std::chrono::seconds kStartPatience{30};
constexpr std::chrono::seconds kMeetPatience{120};  // Engines start one machine after the other.
constexpr std::chrono::milliseconds kStopPatience{2000};
constexpr std::chrono::milliseconds kDeathPatience{2000};  // Time limit for killed processes.
constexpr std::chrono::milliseconds kPoll{20};
constexpr int kMostDeaths = 3;  // Deaths of a rank before the rank is ready.

/// Returns a socket path in the run's folder, or port 0 of the address that the scenario names.
std::string address_for(const Scenario& scenario, const ControllerStart& place,
                        const std::string& name) {
  const std::string& host = place.listen().empty() ? scenario.live().listen() : place.listen();
  return host.empty() ? "unix:" + place.folder() + "/" + name : host + ":0";
}

}  // namespace

AgentGroup::AgentGroup(AgentProcesses& processes, const ControllerStart& place,
                       const Assignment& assignment, std::uint32_t slots)
    : processes_(processes),
      place_(place),
      secrets_(read_secrets(secrets_folder(), assignment.scenario().live().tls())),
      size_(slots),
      lives_(slots, 0),
      started_(slots, false),
      running_(slots, false),
      pids_(slots, 0),
      connected_(slots, false),
      speaking_(slots, 0) {
  *assignment_.mutable_assignment() = assignment;
  start_server();
  for (const AgentState& state : processes_.states()) {
    ensure(state.rank() < slots, "expected agents of this run's ranks only");
    started_[state.rank()] = true;
    lives_[state.rank()] = state.life();
    running_[state.rank()] = state.running();
    if (state.running()) continue;
    add_incoming({.rank = state.rank(), .life = state.life(), .ended = state.cause()});
  }
  processes_.set_exit_callback([this](const AgentState& state) {
    add_incoming({.rank = state.rank(), .life = state.life(), .ended = state.cause()});
  });
  for (std::uint32_t rank = 0; rank < initial_ranks(); ++rank) {
    if (!started_[rank] && !is_elsewhere(rank)) start_agent(rank);
  }
  if (place_.restarts() == 0) await_ready();
}

std::uint32_t AgentGroup::initial_ranks() const {
  return assignment_.assignment().scenario().job().layout().data();
}

std::string AgentGroup::secrets_folder() const {
  return place_.secrets().empty() ? place_.folder() : place_.secrets();
}

void AgentGroup::start_server() {
  // A successor must be found at the address of its predecessor.
  const std::string address =
      !place_.address().empty()
          ? place_.address()
          : address_for(assignment_.assignment().scenario(), place_, "controller");
  server_ = std::make_unique<ControlServer>(
      address, secrets_, size_, [this](std::uint32_t rank, const AgentMessage* message) {
        Incoming incoming{.rank = rank, .at = Clock::now()};
        if (message) incoming.message = *message;
        const std::scoped_lock lock(mutex_);
        if (message && message->has_hello()) speaking_[rank] = message->hello().life();
        incoming.life = speaking_[rank];
        connected_[rank] = message != nullptr;
        // Heartbeats need not wake the controller, because changed statuses are sent separately:
        // waking on heartbeats would wake the controller as often as there are ranks.
        const bool urgent = message == nullptr || !message->has_heartbeat();
        mailbox_.push_back(std::move(incoming));
        if (!urgent) return;
        urgent_ = true;
        arrived_.notify_all();
      });
}

AgentGroup::~AgentGroup() {
  const auto kill = [this](std::uint32_t rank) {
    try {
      signal(rank, SIGKILL);
    } catch (const Error&) {
      running_[rank] = false;  // The supervisor has ended, and its processes with it.
    }
  };
  for (std::uint32_t rank = 0; rank < size_; ++rank) {
    send_stop(rank, farewell_, false);
    if (!is_connected(rank)) kill(rank);  // The agent has not received the order to stop.
  }
  wait_for_ends(kStopPatience);
  for (std::uint32_t rank = 0; rank < size_; ++rank) kill(rank);
  // Files of a killed process on a slow disk can be removed only after its end.
  wait_for_ends(kDeathPatience);
  server_.reset();
}

void AgentGroup::wait_for_ends(std::chrono::milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  while (any_running() && Clock::now() < deadline) receive_messages(Clock::now() + kPoll);
}

bool AgentGroup::any_running() {
  for (std::uint32_t rank = 0; rank < size_; ++rank) {
    if (is_elsewhere(rank) ? is_connected(rank) : is_running(rank)) return true;
  }
  return false;
}

void AgentGroup::add_incoming(Incoming incoming) {
  incoming.at = Clock::now();
  const std::scoped_lock lock(mutex_);
  mailbox_.push_back(std::move(incoming));
  urgent_ = true;
  arrived_.notify_all();
}

void AgentGroup::start_agent(std::uint32_t rank) {
  AgentStart start;
  const std::string name = fmt::format("rank-{}.{}", rank, lives_[rank]);
  start.set_secrets(secrets_folder());
  start.set_tls(secrets_.is_encrypted());
  start.set_controller_address(server_->address());
  start.set_data_address(address_for(assignment_.assignment().scenario(), place_, name));
  start.set_ranks(size_);
  start.set_life(lives_[rank]);
  start.set_begins(!training_);
  running_[rank] = started_[rank] = true;
  processes_.start(rank, start);
}

void AgentGroup::await_ready() {
  std::set<std::uint32_t> missing;
  for (std::uint32_t rank = 0; rank < initial_ranks(); ++rank) missing.insert(rank);
  std::set<std::uint32_t> killed;
  std::map<std::uint32_t, int> deaths;
  const auto patience = place_.listen().empty() ? kStartPatience : kMeetPatience;
  const auto deadline = Clock::now() + patience;
  while (!missing.empty()) {
    std::erase_if(killed, [this](std::uint32_t rank) { return restart_rank(rank); });
    for (const Incoming& incoming : receive_messages(Clock::now() + kPoll)) {
      if (incoming.ended) {  // The process's own report of the reason came before.
        missing.insert(incoming.rank);
        killed.insert(incoming.rank);
        if (++deaths[incoming.rank] <= kMostDeaths) continue;
        throw Error(ErrorKind::environment,
                    fmt::format("rank {}: {}", incoming.rank, *incoming.ended));
      }
      if (!incoming.message) continue;
      if (incoming.message->has_failed()) {
        const Failed& failed = incoming.message->failed();
        throw Error(static_cast<ErrorKind>(failed.kind()), failed.reason());
      }
      if (incoming.message->has_ready()) missing.erase(incoming.rank);
    }
    if (!missing.empty() && Clock::now() > deadline) {
      throw Error(ErrorKind::environment,
                  fmt::format("expected all agents to start, found {} of {} missing after {} s",
                              missing.size(), initial_ranks(), patience.count()));
    }
  }
}

std::vector<Incoming> AgentGroup::receive_messages(Clock::time_point deadline) {
  std::vector<Incoming> out;
  {
    std::unique_lock lock(mutex_);
    arrived_.wait_until(lock, deadline, [this] { return urgent_; });
    urgent_ = false;
    out.swap(mailbox_);
  }
  for (const Incoming& incoming : out) {
    if (incoming.message && incoming.message->has_hello()) {
      pids_[incoming.rank] = incoming.message->hello().pid();
      send_assignment(incoming.rank, incoming.life);
    }
    if (incoming.ended && incoming.life == lives_[incoming.rank]) running_[incoming.rank] = false;
  }
  return out;
}

void AgentGroup::send_assignment(std::uint32_t rank, std::uint32_t life) {
  if (is_elsewhere(rank)) {
    if (!running_[rank] && life <= lives_[rank]) {
      return send_stop(rank, kCountsAsLost, false);
    }
    lives_[rank] = life;
    running_[rank] = true;
  }
  send_message(rank, assignment_);
}

void AgentGroup::send_message(std::uint32_t rank, const ControllerMessage& message) {
  server_->send_message(rank, message);
}

void AgentGroup::send_stop(std::uint32_t rank, const std::string& reason, bool want_parameters) {
  ControllerMessage message;
  message.mutable_stop()->set_reason(reason);
  message.mutable_stop()->set_want_parameters(want_parameters);
  send_message(rank, message);
}

void AgentGroup::signal(std::uint32_t rank, int number) {
  if (!running_.at(rank)) return;
  if (!is_elsewhere(rank)) return processes_.signal({rank, lives_.at(rank)}, number);
  ensure(number == SIGKILL,
         "expected a process of this machine to signal; faults cannot be injected into external "
         "agents");
  // The process cannot be signalled; the agent is told to stop when it reconnects.
  running_[rank] = false;
  server_->drop_rank(rank);
}

void AgentGroup::begin_from(const Resumption& from) {
  training_ = false;
  Assignment& assignment = *assignment_.mutable_assignment();
  assignment.clear_resume();
  if (from.attempt() != 0) *assignment.mutable_resume() = from;
}

bool AgentGroup::is_connected(std::uint32_t rank) {
  const std::scoped_lock lock(mutex_);
  return connected_.at(rank);
}

void AgentGroup::drop_streams() {
  for (std::uint32_t rank = 0; rank < size_; ++rank) server_->drop_rank(rank);
}

bool AgentGroup::restart_rank(std::uint32_t rank) {
  if (is_elsewhere(rank)) return running_.at(rank);
  if (running_.at(rank) || is_connected(rank)) return false;
  if (started_[rank]) ++lives_[rank];
  start_agent(rank);
  return true;
}

}  // namespace orrery::live

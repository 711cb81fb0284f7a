#include "live/run/processes/agent_processes.hpp"

#include <poll.h>

#include <csignal>
#include <utility>

#include "core/error.hpp"

namespace orrery::live {
namespace {

/// Time between the closing of a process's descriptors and its end.
constexpr std::chrono::milliseconds kReapPatience{1000};

bool hung_up(int channel) {
  pollfd look{channel, POLLIN, 0};
  return poll(&look, 1, 0) == 1;  // An agent never writes to the channel.
}

AgentState state_of(std::uint32_t rank, std::uint32_t life, bool running,
                    const std::string& cause) {
  AgentState state;
  state.set_rank(rank);
  state.set_life(life);
  state.set_running(running);
  state.set_cause(cause);
  return state;
}

}  // namespace

OwnedProcesses::~OwnedProcesses() {
  for (auto& [rank, agent] : agents_) {
    if (agent.process) agent.process->signal(SIGKILL);
  }
}

void OwnedProcesses::start(std::uint32_t rank, const AgentStart& start) {
  Agent& agent = agents_[rank];
  if (agent.process) return;
  agent = {.life = start.life(), .process = {}, .cause = {}, .told = false};
  try {
    ChildProcess process(program_, {"agent", "--rank", std::to_string(rank)});
    if (write_message(process.channel(), start.SerializeAsString())) {
      agent.process = std::move(process);
    } else {
      agent.cause = process.wait().description();
    }
  } catch (const Error& error) {
    agent.cause = error.message();
  }
}

void OwnedProcesses::signal(const membership::Seat& seat, int number) {
  const auto found = agents_.find(seat.rank);
  if (found == agents_.end() || found->second.life != seat.life) return;
  if (found->second.process) found->second.process->signal(number);
}

std::vector<AgentState> OwnedProcesses::states() const {
  std::vector<AgentState> states;
  for (const auto& [rank, agent] : agents_) {
    states.push_back(state_of(rank, agent.life, agent.process.has_value(), agent.cause));
  }
  return states;
}

std::vector<int> OwnedProcesses::channels() const {
  std::vector<int> channels;
  for (const auto& [rank, agent] : agents_) {
    if (agent.process) channels.push_back(agent.process->channel());
  }
  return channels;
}

std::vector<AgentState> OwnedProcesses::drain_exited() {
  std::vector<AgentState> ended;
  for (auto& [rank, agent] : agents_) {
    if (agent.process && hung_up(agent.process->channel())) {
      if (!agent.process->wait_for(kReapPatience)) agent.process->signal(SIGKILL);
      agent.cause = agent.process->wait().description();
      agent.process.reset();
    }
    if (agent.process || std::exchange(agent.told, true)) continue;
    ended.push_back(state_of(rank, agent.life, false, agent.cause));
  }
  return ended;
}

}  // namespace orrery::live

#include "live/run/processes/agent_processes.hpp"

#include <poll.h>

#include <csignal>

#include <gtest/gtest.h>

namespace orrery::live {
namespace {

/// Waits until a process ends.
AgentState next_end(OwnedProcesses& processes) {
  std::vector<pollfd> channels;
  for (const int channel : processes.channels()) channels.push_back({channel, POLLIN, 0});
  poll(channels.data(), channels.size(), 10000);
  const std::vector<AgentState> ended = processes.drain_exited();
  return ended.empty() ? AgentState{} : ended.front();
}

AgentStart life(std::uint32_t number) {
  AgentStart start;
  start.set_life(number);
  return start;
}

TEST(OwnedProcesses, TheEndOfEachIsToldOnceWithItsCause) {
  OwnedProcesses processes("/bin/cat");  // waits on its standard input until it is killed
  processes.start(3, life(5));
  ASSERT_EQ(processes.states().size(), 1u);
  const bool stays = processes.states()[0].running();
  processes.signal({3, 4}, SIGKILL);  // meant for an earlier one
  if (stays) processes.signal({3, 5}, SIGKILL);
  const AgentState ended = next_end(processes);
  EXPECT_EQ(ended.rank(), 3u);
  EXPECT_EQ(ended.life(), 5u);
  EXPECT_FALSE(ended.running());
  EXPECT_FALSE(ended.cause().empty());
  EXPECT_TRUE(processes.drain_exited().empty());
  EXPECT_FALSE(processes.states()[0].running());
  EXPECT_EQ(processes.states()[0].cause(), ended.cause());
}

TEST(OwnedProcesses, OneThatCannotStartHasEndedWithTheReason) {
  OwnedProcesses processes("/no/such/program");
  processes.start(0, life(0));
  const std::vector<AgentState> ended = processes.drain_exited();
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_NE(ended[0].cause().find("/no/such/program"), std::string::npos) << ended[0].cause();
}

}  // namespace
}  // namespace orrery::live

#include "live/run/processes/agent_group.hpp"

#include <chrono>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "live/run/files/run_folder.hpp"

namespace orrery::live {
namespace {

/// Agents as children of this process, with a thread that waits for their end.
class LocalProcesses : public AgentProcesses {
 public:
  explicit LocalProcesses(const std::string& program) : owned_(program) {}

  void start(std::uint32_t rank, const AgentStart& start) override {
    const std::scoped_lock lock(mutex_);
    owned_.start(rank, start);
  }
  void signal(const membership::Seat& seat, int number) override {
    const std::scoped_lock lock(mutex_);
    owned_.signal(seat, number);
  }
  std::vector<AgentState> states() override { return {}; }
  void set_exit_callback(std::function<void(const AgentState&)> ended) override {
    const std::scoped_lock lock(mutex_);
    ended_ = std::move(ended);
  }

 private:
  void watch(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      const std::scoped_lock lock(mutex_);
      if (!ended_) continue;
      for (const AgentState& state : owned_.drain_exited()) ended_(state);
    }
  }

  std::mutex mutex_;
  OwnedProcesses owned_;
  std::function<void(const AgentState&)> ended_;
  const std::jthread watcher_{[this](const std::stop_token& stop) { watch(stop); }};
};

/// Returns the error of an agent group of `program` at its start.
Error failure_of(const std::string& program, Assignment assignment) {
  assignment.mutable_scenario()->mutable_job()->mutable_layout()->set_data(2);
  const RunFolder folder;
  ControllerStart place;
  place.set_folder(folder.path());
  write_secrets(make_secrets(assignment.scenario().live().tls()), folder.path());
  LocalProcesses processes(program);
  try {
    AgentGroup group(processes, place, assignment, 2);
  } catch (const Error& error) {
    return error;
  }
  throw std::logic_error("the group has started");
}

TEST(AgentGroup, AProgramThatIsNotThereIsAnEnvironmentError) {
  const Error error = failure_of("/no/such/program", Assignment{});
  EXPECT_EQ(error.kind(), ErrorKind::environment);
  EXPECT_NE(error.message().find("/no/such/program"), std::string::npos) << error.message();
}

TEST(AgentGroup, WhatAnAgentCannotReadIsTheUsersBadInput) {
  Assignment assignment;
  assignment.mutable_scenario()->mutable_live()->set_text("/no/such/text");
  const Error error =
      failure_of(ORRERY_BINARY_DIR "/bin/orrery-live", assignment);
  EXPECT_EQ(error.kind(), ErrorKind::bad_input) << error.message();
  EXPECT_NE(error.message().find("live.text"), std::string::npos) << error.message();
}

TEST(AgentGroup, AnAgentThatEndsAtOnceIsNamedWithItsExitCode) {
  const Error error = failure_of("/bin/false", Assignment{});
  EXPECT_EQ(error.kind(), ErrorKind::environment);
  EXPECT_NE(error.message().find("rank"), std::string::npos) << error.message();
  EXPECT_NE(error.message().find("exit code 1"), std::string::npos) << error.message();
}

}  // namespace
}  // namespace orrery::live

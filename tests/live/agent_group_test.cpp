#include "live/agent_group.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "core/error.hpp"

namespace orrery::live {
namespace {

/// The run's folders of sockets; other runs on this machine may have theirs.
std::set<std::string> run_folders() {
  std::set<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator("/tmp")) {
    const std::string name = entry.path().filename();
    if (name.starts_with("orrery-live-")) found.insert(name);
  }
  return found;
}

/// Whether all folders are gone that are not in `before`; looks for up to a second.
bool nothing_new(const std::set<std::string>& before) {
  for (int i = 0; i < 100 && !std::ranges::includes(before, run_folders()); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return std::ranges::includes(before, run_folders());
}

TEST(AgentGroup, AProgramThatIsNotThereIsAnEnvironmentError) {
  const std::set<std::string> before = run_folders();
  try {
    AgentGroup group("/no/such/program", Assignment{}, 2);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::environment);
  }
  EXPECT_TRUE(nothing_new(before));
}

TEST(AgentGroup, WhatAnAgentCannotReadIsTheUsersBadInput) {
  Assignment assignment;
  assignment.mutable_scenario()->mutable_live()->set_text("/no/such/text");
  try {
    AgentGroup group(std::string(ORRERY_BINARY_DIR) + "/bin/orrery-live", assignment, 2);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input) << error.message();
    EXPECT_NE(error.message().find("live.text"), std::string::npos) << error.message();
  }
}

TEST(AgentGroup, AnAgentThatEndsAtOnceIsNamedWithItsExitCode) {
  const std::set<std::string> before = run_folders();
  try {
    AgentGroup group("/bin/false", Assignment{}, 2);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::environment);
    EXPECT_NE(error.message().find("rank"), std::string::npos) << error.message();
  }
  EXPECT_TRUE(nothing_new(before));
}

}  // namespace
}  // namespace orrery::live

#include "live/group/process_state.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace orrery::live {
namespace {

TEST(ProcessState, EndedProcessesDoNotRunEvenIfNobodyHasReapedThem) {
  EXPECT_TRUE(is_running(getpid()));
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  EXPECT_TRUE(is_running(child));
  kill(child, SIGKILL);
  siginfo_t ended{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_FALSE(is_running(child)) << "a process that nobody has reaped";
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(is_running(child));
}

}  // namespace
}  // namespace orrery::live

#include "core/process.hpp"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>
#include <utility>

#include "core/error.hpp"

namespace orrery {
namespace {

constexpr std::chrono::seconds kLong{60};
const std::string kChild = ORRERY_BINARY_DIR "/tests/process_test_child";

ErrorKind kind_of_failure(const std::string& program) {
  try {
    const ChildProcess child(program, {});
  } catch (const Error& error) {
    EXPECT_NE(error.message().find(program), std::string::npos) << error.message();
    return error.kind();
  }
  ADD_FAILURE() << program << " was started";
  return ErrorKind::internal;
}

TEST(ChildProcess, TellsTheExitCode) {
  ChildProcess child(kChild, {"exit", "7"});
  const ExitStatus status = child.wait();
  EXPECT_EQ(status.code, 7);
  EXPECT_EQ(status.signal, 0);
  EXPECT_EQ(status.description(), "exit code 7");
  EXPECT_GT(status.peak_rss_bytes, 100'000);
  EXPECT_EQ(child.wait().code, 7) << "wait() is idempotent";
}

TEST(ChildProcess, TellsTheSignal) {
  ChildProcess child(kChild, {"sleep"});
  EXPECT_FALSE(child.exit_status());
  child.signal(SIGKILL);
  const ExitStatus status = child.wait();
  EXPECT_EQ(status.signal, SIGKILL);
  EXPECT_EQ(status.code, 128 + SIGKILL);
  EXPECT_EQ(status.description(), "killed by signal 9 (Killed)");
}

TEST(ChildProcess, WaitForGivesUpAndThenSucceeds) {
  ChildProcess child(kChild, {"sleep"});
  EXPECT_FALSE(child.wait_for(std::chrono::milliseconds(20)));
  child.signal(SIGTERM);
  const auto status = child.wait_for(kLong);
  ASSERT_TRUE(status);
  EXPECT_EQ(status->signal, SIGTERM);
}

TEST(ChildProcess, AProgramThatCannotRunIsAnEnvironmentError) {
  EXPECT_EQ(kind_of_failure("/nonexistent/program"), ErrorKind::environment);
  EXPECT_EQ(kind_of_failure(ORRERY_SOURCE_DIR "/LICENSE"), ErrorKind::environment);
}

TEST(ChildProcess, AFailedStartLeavesNoChildBehind) {
  EXPECT_EQ(kind_of_failure("/nonexistent/program"), ErrorKind::environment);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(ChildProcess, TheHandleReapsEvenADeafChild) {
  pid_t pid = 0;
  {
    const ChildProcess child(kChild, {"stubborn"});
    pid = child.pid();
    ASSERT_EQ(read_message(child.channel()), "deaf");
  }
  EXPECT_EQ(kill(pid, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

TEST(ChildProcess, MovingKeepsOneOwner) {
  ChildProcess first(kChild, {"echo"});
  const pid_t pid = first.pid();
  ChildProcess second = std::move(first);
  EXPECT_EQ(second.pid(), pid);
  ASSERT_TRUE(write_message(second.channel(), "still there"));
  EXPECT_EQ(read_message(second.channel()), "still there");
}

TEST(ChildProcess, AGroupOfItsOwnEndsWithItsHandle) {
  const std::string pids = testing::TempDir() + "process_test_group." + std::to_string(getpid());
  const std::string script = "trap '' TERM; sleep 600 & echo $! > " + pids + "; wait";
  pid_t grandchild = 0;
  {
    ChildProcess child("/bin/sh", {"-c", script}, ChildGroup::own);
    EXPECT_EQ(getpgid(child.pid()), child.pid());
    for (int i = 0; i < 2000 && grandchild == 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      std::ifstream(pids) >> grandchild;
    }
    ASSERT_GT(grandchild, 0);
    EXPECT_FALSE(child.has_ended());
  }
  std::remove(pids.c_str());
  // Its parent is gone: it is reaped by another process.
  const auto state = [grandchild] {
    std::string pid, name, letter = "X";
    std::ifstream("/proc/" + std::to_string(grandchild) + "/stat") >> pid >> name >> letter;
    return letter;
  };
  for (int i = 0; i < 2000 && state() != "X" && state() != "Z"; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_TRUE(state() == "X" || state() == "Z") << state();
}

TEST(ChildProcess, ItsChildrenDieWithAKilledParent) {
  // A subreaper inherits the orphan and learns how it died.
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  ChildProcess parent(kChild, {"parent"});
  const auto answer = read_message(parent.channel());
  ASSERT_TRUE(answer);
  const pid_t grandchild = std::stoi(*answer);
  ASSERT_EQ(kill(grandchild, 0), 0);
  parent.signal(SIGKILL);
  EXPECT_EQ(parent.wait().signal, SIGKILL);
  int status = 0;
  ASSERT_EQ(waitpid(grandchild, &status, 0), grandchild);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
}

TEST(ChildProcess, AChildThatEndsByItselfOutlivesAKilledParent) {
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  ChildProcess parent(kChild, {"survived-parent"});
  const auto answer = read_message(parent.channel());
  ASSERT_TRUE(answer);
  const pid_t grandchild = std::stoi(*answer);
  parent.signal(SIGKILL);
  EXPECT_EQ(parent.wait().signal, SIGKILL);
  while (getpgid(grandchild) != grandchild) std::this_thread::yield();
  // A signal at the end of the parent would be the first one.
  ASSERT_EQ(kill(grandchild, SIGTERM), 0);
  int status = 0;
  ASSERT_EQ(waitpid(grandchild, &status, 0), grandchild);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
}

TEST(ChildProcess, ASiblingDoesNotHoldTheChannelOpen) {
  ChildProcess first(kChild, {"echo"});
  const ChildProcess second(kChild, {"echo"});
  first.close_channel();
  const auto status = first.wait_for(kLong);
  ASSERT_TRUE(status) << "the second child inherited the first one's channel";
  EXPECT_EQ(status->code, 0);
}

TEST(ChildProcess, AForkOfThisProcessLeavesOlderChildrenAlone) {
  const ChildProcess child(kChild, {"fork-here"});
  EXPECT_EQ(read_message(child.channel()), "here, exit code 5");
}

/// Returns a fork of the server that behaves as `mode` says.
ChildProcess fork_of(ForkServer& server, const std::string& mode) {
  ChildProcess child(server);
  EXPECT_TRUE(write_message(child.channel(), mode));
  return child;
}

TEST(ForkServer, ItsForksAreChildrenOfThisProcess) {
  ForkServer server(kChild);
  ChildProcess first = fork_of(server, "echo");
  ChildProcess second = fork_of(server, "exit");
  EXPECT_EQ(second.wait().code, 7);
  ASSERT_TRUE(write_message(first.channel(), "still there"));
  EXPECT_EQ(read_message(first.channel()), "still there");
  first.close_channel();
  const auto status = first.wait_for(kLong);
  ASSERT_TRUE(status) << "somebody else holds the fork's channel";
  EXPECT_EQ(status->code, 0);
  EXPECT_GT(status->peak_rss_bytes, 100'000);
}

TEST(ForkServer, AForkThatIsKilledIsNobodyElsesMatter) {
  ForkServer server(kChild);
  ChildProcess other = fork_of(server, "echo");
  ChildProcess killed = fork_of(server, "sleep");
  ASSERT_EQ(read_message(killed.channel()), "ready");
  killed.signal(SIGKILL);
  EXPECT_EQ(killed.wait().signal, SIGKILL);
  ASSERT_TRUE(write_message(other.channel(), "still there"));
  EXPECT_EQ(read_message(other.channel()), "still there");
  EXPECT_EQ(fork_of(server, "exit").wait().code, 7);
}

TEST(ForkServer, SeveralThreadsMayAskForForks) {
  ForkServer server(kChild);
  std::vector<std::thread> threads;
  std::atomic<int> sevens = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&server, &sevens] {
      for (int run = 0; run < 8; ++run) sevens += fork_of(server, "exit").wait().code == 7;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sevens, 32);
}

/// Children of this process now; forks of a server that has been killed are among them.
std::vector<pid_t> own_children() {
  const std::string own = std::to_string(getpid());
  std::ifstream list("/proc/" + own + "/task/" + own + "/children");
  return {std::istream_iterator<pid_t>(list), {}};
}

TEST(ForkServer, WithoutItForksGoOnAndNoneComes) {
  const std::vector<pid_t> before = own_children();
  ForkServer server(kChild);
  pid_t server_pid = 0;
  for (const pid_t child : own_children()) {
    if (std::find(before.begin(), before.end(), child) == before.end()) server_pid = child;
  }
  ASSERT_NE(server_pid, 0);
  ChildProcess fork = fork_of(server, "echo");
  ASSERT_EQ(kill(server_pid, SIGKILL), 0);
  try {
    // waits until the server has died
    for (int i = 0; i < 1000; ++i) fork_of(server, "exit").wait();
    ADD_FAILURE() << "a fork of a dead program";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::environment);
    EXPECT_EQ(error.message(),
              "cannot start " + kChild + ": the process that forks it has ended");
  }
  ASSERT_TRUE(write_message(fork.channel(), "still there"));
  EXPECT_EQ(read_message(fork.channel()), "still there");
}

TEST(ForkServer, ServerAndForksDieWithAKilledParent) {
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  ChildProcess parent(kChild, {"fork-parent"});
  std::istringstream told(read_message(parent.channel()).value_or(""));
  const std::vector<pid_t> children{std::istream_iterator<pid_t>(told), {}};
  ASSERT_EQ(children.size(), 2u);
  parent.signal(SIGKILL);
  parent.wait();
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    // The server may have noticed first, and have ended by itself.
    EXPECT_TRUE(status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)) << status;
  }
}

TEST(ForkServer, AProgramThatCannotRunIsAnEnvironmentError) {
  EXPECT_THROW(ForkServer("/nonexistent/program"), Error);
}

TEST(Message, GoesBothWaysWhole) {
  const ChildProcess child(kChild, {"echo"});
  const std::string binary("\0\x01\xff\n", 4);
  for (const std::string& text : {std::string(), std::string("x"), binary}) {
    ASSERT_TRUE(write_message(child.channel(), text));
    EXPECT_EQ(read_message(child.channel()), text);
  }
}

TEST(Message, LargerThanTheSocketBuffer) {
  const ChildProcess child(kChild, {"echo"});
  std::string large(5 << 20, 'a');
  large.back() = 'z';
  ASSERT_TRUE(write_message(child.channel(), large));
  EXPECT_EQ(read_message(child.channel()), large);
}

TEST(Message, ComesIntoTheMemoryOfAnEarlierOne) {
  ChildProcess child(kChild, {"echo"});
  std::string bytes;
  ASSERT_TRUE(write_message(child.channel(), std::string(100, 'a')));
  ASSERT_TRUE(read_message(child.channel(), bytes));
  const char* const memory = bytes.data();
  for (const std::string& text : {std::string(), std::string(50, 'b'), std::string(100, 'c')}) {
    ASSERT_TRUE(write_message(child.channel(), text));
    ASSERT_TRUE(read_message(child.channel(), bytes));
    EXPECT_EQ(bytes, text);
    EXPECT_EQ(bytes.data(), memory);
  }
  child.signal(SIGKILL);
  EXPECT_FALSE(read_message(child.channel(), bytes));
}

TEST(Message, NothingAfterTheChildLeft) {
  ChildProcess child(kChild, {"exit", "0"});
  EXPECT_EQ(read_message(child.channel()), std::nullopt);
  child.wait();
  EXPECT_FALSE(write_message(child.channel(), "anybody?")) << "and no SIGPIPE";
}

TEST(Message, TornAndHugeOnesAreInternalErrors) {
  for (const char* mode : {"torn", "torn-head", "huge"}) {
    const ChildProcess child(kChild, {mode});
    try {
      read_message(child.channel());
      ADD_FAILURE() << mode << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::internal) << mode;
    }
  }
}

TEST(UsableCpus, AreOneAtLeast) { EXPECT_GE(usable_cpus(), 1u); }

TEST(SiblingProgram, StandsBesideThisExecutable) {
  const std::string path = sibling_program("process_test_child");
  EXPECT_EQ(path, kChild);
  EXPECT_EQ(access(path.c_str(), X_OK), 0);
}

}  // namespace
}  // namespace orrery

#include "live/run/files/run_folder.hpp"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "live/run/files/run_files.hpp"

namespace orrery::live {
namespace {

namespace fs = std::filesystem;

TEST(RunFolder, OnlyItsOwnerMayEnter) {
  const RunFolder folder;
  EXPECT_EQ(fs::status(folder.path()).permissions(), fs::perms::owner_all);
}

TEST(RunFolder, GoesAwayWithWhatIsInIt) {
  std::string path;
  {
    const RunFolder folder;
    path = folder.path();
    std::ofstream(path + "/socket") << "x";
    ASSERT_TRUE(fs::exists(path + "/socket"));
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST(RunFolder, AFolderInMemoryGoesAwayToo) {
  std::string path;
  {
    const RunFolder folder(kMemoryParent);
    path = folder.path();
    EXPECT_TRUE(path.starts_with("/dev/shm/orrery-live-")) << path;
    std::filesystem::create_directory(path + "/memory");
    EXPECT_TRUE(std::filesystem::exists(path));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(RunFolder, MayBeRemovedEarlyAndTwice) {
  RunFolder folder, other;
  EXPECT_NE(folder.path(), other.path());
  folder.remove_folder();
  EXPECT_FALSE(fs::exists(folder.path()));
  folder.remove_folder();
  EXPECT_TRUE(fs::exists(other.path()));
}

/// Sets ORRERY_RUNS until the end of the test.
class ParentOfRuns {
 public:
  explicit ParentOfRuns(const std::string& path) { setenv(kRunParentVariable, path.c_str(), 1); }
  ~ParentOfRuns() { unsetenv(kRunParentVariable); }
};

TEST(RunFolder, IsCreatedBelowTheParentOfTheEnvironment) {
  const std::string parent = ::testing::TempDir() + "/runs";
  fs::create_directories(parent);
  const ParentOfRuns chosen(parent);
  const RunFolder folder;
  EXPECT_EQ(fs::path(folder.path()).parent_path(), parent);
}

TEST(RunFolder, AParentThatIsRelativeOrTooLongIsRefused) {
  for (const std::string& parent : {std::string("runs"), "/" + std::string(48, 'x')}) {
    const ParentOfRuns chosen(parent);
    try {
      const RunFolder folder;
      FAIL() << parent;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      EXPECT_NE(std::string(error.what())
                    .find("ORRERY_RUNS: expected an absolute path of at most "
                          "48 bytes, because the paths of sockets are short; "
                          "found '" +
                          parent + "'"),
                std::string::npos);
    }
  }
}

/// The folder of a run that was killed: nobody locks it.
std::string left_by_a_killed_run() {
  const std::string told = ::testing::TempDir() + "/left-by-a-killed-run";
  const pid_t run = fork();
  if (run == 0) {
    auto* const folder = new RunFolder;  // nothing of it is taken away
    std::ofstream(folder->path() + "/key.pem") << "secret";
    std::ofstream(told) << folder->path() << std::flush;
    kill(getpid(), SIGKILL);
  }
  EXPECT_EQ(waitpid(run, nullptr, 0), run);
  std::string path;
  std::ifstream(told) >> path;
  return path;
}

TEST(RunFolder, WhatAKilledRunHasLeftGoesWithTheNextAndNothingElse) {
  const std::string stale = left_by_a_killed_run();
  ASSERT_TRUE(fs::exists(stale + "/key.pem"));
  const RunFolder living;
  EXPECT_FALSE(fs::exists(stale));
  const RunFolder next;
  EXPECT_TRUE(fs::exists(living.path()));
}

TEST(RunFolder, WhatOnlyHasANameLikeItIsTheUsers) {
  const std::string results = "/tmp/orrery-live-results";
  const bool mine = fs::create_directory(results);
  std::ofstream(results + "/loss.csv") << "1,2\n";
  std::string empty = "/tmp/orrery-live-XXXXXX";
  ASSERT_NE(mkdtemp(empty.data()), nullptr);
  // A folder with another's marker, or a link to ours, is not a run's either.
  const fs::path linked = fs::path(::testing::TempDir()) / "marker";
  {
    const RunFolder folder;
    fs::copy_file(folder.path() + "/.orrery-live-run", linked,
                  fs::copy_options::overwrite_existing);
  }
  fs::create_symlink(linked, empty + "/.orrery-live-run");
  for (int i = 0; i < 3; ++i) {
    const RunFolder next;
    EXPECT_TRUE(fs::exists(results + "/loss.csv"));
    EXPECT_TRUE(fs::exists(empty));
  }
  fs::remove_all(empty);
  fs::remove(linked);
  if (mine) fs::remove_all(results);
}

TEST(RunFolder, GoesWithAProcessThatAnySignalFromOutsideEnds) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // fork() alone leaves threads out
  const std::string told = ::testing::TempDir() + "/ended-by-signals";
  for (const int number : {SIGHUP, SIGINT, SIGQUIT, SIGALRM, SIGUSR2}) {
    EXPECT_EXIT(
        {
          const RunFolder folder;
          std::ofstream(told) << folder.path();
          kill(getpid(), number);
          for (;;) pause();
        },
        ::testing::KilledBySignal(number), "");
    std::string path;
    std::ifstream(told) >> path;
    ASSERT_FALSE(path.empty());
    EXPECT_FALSE(fs::exists(path)) << "signal " << number;
  }
}

TEST(RunFolder, ACrashTakesTheSecretsAway) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::string told = ::testing::TempDir() + "/crashed";
  EXPECT_EXIT(
      {
        const RunFolder folder;
        std::ofstream(told) << folder.path();
        for (const char* name : {"/key.pem", "/token", "/kept"}) {
          std::ofstream(folder.path() + name) << "x";
        }
        raise(SIGSEGV);
      },
      ::testing::KilledBySignal(SIGSEGV), "");
  std::string path;
  std::ifstream(told) >> path;
  EXPECT_TRUE(fs::exists(path + "/kept"));
  EXPECT_FALSE(fs::exists(path + "/key.pem"));
  EXPECT_FALSE(fs::exists(path + "/token"));
  const RunFolder next;
  EXPECT_FALSE(fs::exists(path));
}

TEST(RunFolder, GoesWithAProcessThatASignalEnds) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // fork() alone leaves threads out
  std::string path;
  EXPECT_EXIT(
      {
        const RunFolder folder;
        std::ofstream(::testing::TempDir() + "/ended-by-signal") << folder.path();
        kill(getpid(), SIGTERM);
        for (;;) pause();
      },
      ::testing::KilledBySignal(SIGTERM), "");
  std::ifstream(::testing::TempDir() + "/ended-by-signal") >> path;
  ASSERT_FALSE(path.empty());
  EXPECT_FALSE(fs::exists(path));
}

TEST(RunFolder, GoesWhereTheSignalComesWhileItIsRemoved) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::string told = ::testing::TempDir() + "/ended-while-removed";
  for (int i = 0; i < 10; ++i) {
    EXPECT_EXIT(
        {
          RunFolder folder;
          std::ofstream(told) << folder.path();
          for (int file = 0; file < 2000; ++file) {
            std::ofstream(folder.path() + "/" + std::to_string(file)) << "x";
          }
          const std::jthread owner([&folder] { folder.remove_folder(); });
          std::this_thread::sleep_for(std::chrono::microseconds(500 * i));
          kill(getpid(), SIGTERM);
          for (;;) pause();
        },
        ::testing::KilledBySignal(SIGTERM), "");
    std::string path;
    std::ifstream(told) >> path;
    ASSERT_FALSE(path.empty());
    EXPECT_FALSE(fs::exists(path)) << i;
    fs::remove_all(path);
  }
}

TEST(RunFolder, ALinkToAFolderOfOthersIsLeftAlone) {
  const fs::path other = fs::path(::testing::TempDir()) / "not-ours";
  fs::create_directories(other / "kept");
  const fs::path link = "/tmp/orrery-live-link";
  fs::remove(link);
  fs::create_directory_symlink(other, link);
  const RunFolder next;
  EXPECT_TRUE(fs::exists(other / "kept"));
  fs::remove(link);
  fs::remove_all(other);
}

}  // namespace
}  // namespace orrery::live

#include "live/run_folder.hpp"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

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

TEST(RunFolder, MayBeRemovedEarlyAndTwice) {
  RunFolder folder, other;
  EXPECT_NE(folder.path(), other.path());
  folder.remove();
  EXPECT_FALSE(fs::exists(folder.path()));
  folder.remove();
  EXPECT_TRUE(fs::exists(other.path()));
}

TEST(RunFolder, WhatAKilledRunHasLeftGoesWithTheNextAndNothingElse) {
  const RunFolder living;
  std::string stale = "/tmp/orrery-live-XXXXXX";
  ASSERT_NE(mkdtemp(stale.data()), nullptr);  // as a killed run leaves it: nobody locks it
  std::ofstream(stale + "/controller") << "x";
  const RunFolder next;
  EXPECT_FALSE(fs::exists(stale));
  EXPECT_TRUE(fs::exists(living.path()));
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

#include "live/run_folder.hpp"

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

}  // namespace
}  // namespace orrery::live

#include "core/files/temporary_folder.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "core/error.hpp"

namespace orrery {
namespace {

namespace fs = std::filesystem;

class TemporaryFolderTest : public ::testing::Test {
 protected:
  ~TemporaryFolderTest() override {
    for (const auto& entry : fs::directory_iterator(fs::temp_directory_path())) {
      if (entry.path().filename().string().starts_with(name_)) fs::remove_all(entry.path());
    }
  }

  /// Returns the folder that a killed process has left. `child_of_owner`: gets the id of a
  /// child of the process, which shares the lock and lives on; null: the process has no child.
  fs::path leave_folder(pid_t* child_of_owner = nullptr) const {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      TemporaryFolder folder(name_);
      std::ofstream(folder.path_of("file")) << "x";
      const std::string path = folder.path_of("");
      pid_t made = 0;
      if (child_of_owner != nullptr) {
        folder.share_lock();
        made = fork();
        if (made == 0) execlp("sleep", "sleep", "600", nullptr);
      }
      if (write(ends[1], &made, sizeof made) < 0) _exit(1);
      if (write(ends[1], path.data(), path.size()) < 0) _exit(1);
      kill(getpid(), SIGKILL);
    }
    int status = 0;
    waitpid(child, &status, 0);
    close(ends[1]);
    pid_t made = 0;
    EXPECT_EQ(read(ends[0], &made, sizeof made), sizeof made);
    if (child_of_owner != nullptr) *child_of_owner = made;
    char path[512] = "";
    EXPECT_GT(read(ends[0], path, sizeof path - 1), 0);
    close(ends[0]);
    return path;
  }

  const std::string name_ = "orrery-test" + std::to_string(getpid());
};

TEST_F(TemporaryFolderTest, RemovesTheFolderOfAKilledProcessAndNoOther) {
  const TemporaryFolder living(name_);
  const fs::path users = fs::temp_directory_path() / (name_ + "-backup");
  fs::create_directory(users);
  const fs::path left = leave_folder();
  ASSERT_TRUE(fs::exists(left / "file"));
  const TemporaryFolder next(name_);
  EXPECT_FALSE(fs::exists(left));
  EXPECT_TRUE(fs::exists(living.path_of("")));
  EXPECT_TRUE(fs::exists(users)) << "it has no marker";
}

TEST_F(TemporaryFolderTest, AFolderWithASharedLockStaysUntilTheLastChildOfItsOwnerEnds) {
  pid_t child = 0;
  const fs::path left = leave_folder(&child);
  const TemporaryFolder next(name_);
  EXPECT_TRUE(fs::exists(left / "file"));
  kill(child, SIGKILL);
  for (int attempt = 0; attempt < 200 && fs::exists(left); ++attempt) {
    usleep(10'000);
    const TemporaryFolder another(name_);
  }
  EXPECT_FALSE(fs::exists(left));
}

TEST_F(TemporaryFolderTest, ASuccessorLocksATakenFolderOnceTheOldHoldersHaveEnded) {
  pid_t child = 0;
  const fs::path left = leave_folder(&child);
  {
    TemporaryFolder taken(left, TemporaryFolder::Taken());
    EXPECT_TRUE(fs::exists(taken.path_of("file")));
    kill(child, SIGKILL);
    usleep(200'000);
    taken.claim_lock();
    const TemporaryFolder next(name_);
    EXPECT_TRUE(fs::exists(left)) << "the successor has the lock";
  }
  EXPECT_FALSE(fs::exists(left));
  EXPECT_THROW(TemporaryFolder(left, TemporaryFolder::Taken()), Error);
}

TEST_F(TemporaryFolderTest, TheDestructorRemovesAllFiles) {
  fs::path path;
  {
    const TemporaryFolder folder(name_);
    path = folder.path_of("");
    std::ofstream(folder.path_of("file")) << "x";
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(TemporaryFolderTest, TheFolderIsInTheParentThatIsNamed) {
  const TemporaryFolder outer(name_);
  const TemporaryFolder inner(name_, outer.path_of(""));
  EXPECT_TRUE(inner.path_of("file").starts_with(outer.path_of("")));
}

}  // namespace
}  // namespace orrery

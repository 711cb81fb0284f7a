// A journal on a slow, hung or failing disk: appends do not wait for a rewrite, and the path names
// a complete journal at each moment.
#include "live/run/files/journal_files.hpp"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <semaphore>
#include <string>

#include <gtest/gtest.h>

#include "live/run/files/journal.hpp"

namespace orrery::live {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr milliseconds kPatience{10'000};

/// Disk whose renames wait until they are released, and whose writes hang or fail on demand.
struct Disk {
  std::counting_semaphore<> rename_released{0}, write_released{0};
  std::atomic<bool> renames_wait = false, writes_wait = false, writes_fail = false;
  std::atomic<int> renames = 0;

  static FileCalls calls(const std::shared_ptr<Disk>& disk) {
    return {.write =
                [disk](int file, std::string_view bytes) {
                  if (disk->writes_wait) disk->write_released.acquire();
                  return disk->writes_fail ? ENOSPC : write_all(file, bytes);
                },
            .rename =
                [disk](const std::string& from, const std::string& to) {
                  ++disk->renames;
                  if (disk->renames_wait) disk->rename_released.acquire();
                  return rename_file(from, to);
                }};
  }
};

class JournalFilesTest : public ::testing::Test {
 protected:
  ~JournalFilesTest() override {
    fs::remove(path_);
    fs::remove(copy_);
  }
  Journal open() { return Journal(path_, "hash", 100, Disk::calls(disk_)); }

  /// Appends the commit of the next step.
  static bool commit(Journal& journal) {
    JournalRecord record;
    record.mutable_commit()->set_step(journal.state().core.committed);
    return journal.append_record(record);
  }
  static void rewrite(Journal& journal) {
    JournalSnapshot snapshot;
    save_state(journal.state(), snapshot);
    journal.begin_anew(std::move(snapshot));
  }
  static bool reaches(const std::atomic<int>& count, int value) {
    for (int i = 0; i < 1000 && count < value; ++i) usleep(10'000);
    return count >= value;
  }
  /// Returns the number of committed steps that a successor would find now. Not fs::copy_file: it
  /// fails if a rename between its stat and its open leaves a shorter file.
  Step committed_steps() const {
    std::ofstream(copy_, std::ios::binary) << std::ifstream(path_, std::ios::binary).rdbuf();
    return Journal(copy_, "hash").past().core.committed;
  }

  const std::string path_ = ::testing::TempDir() + "orrery_files." + std::to_string(getpid());
  const std::string copy_ = path_ + ".copy";
  const std::shared_ptr<Disk> disk_ = std::make_shared<Disk>();
};

TEST_F(JournalFilesTest, ASlowRenameDelaysNoAppendAndLosesNone) {
  Journal journal = open();
  while (!journal.is_due()) ASSERT_TRUE(commit(journal));
  disk_->renames_wait = true;
  rewrite(journal);
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(commit(journal));
    ASSERT_EQ(committed_steps(), journal.state().core.committed);
  }
  ASSERT_TRUE(reaches(disk_->renames, 1)) << "no rename was asked for";
  EXPECT_FALSE(journal.wait_for_rewrite(milliseconds(0))) << "the rename did not wait";
  ASSERT_TRUE(commit(journal));
  disk_->rename_released.release();
  ASSERT_TRUE(journal.wait_for_rewrite(kPatience));
  EXPECT_EQ(committed_steps(), journal.state().core.committed);
  ASSERT_TRUE(commit(journal));
  EXPECT_EQ(committed_steps(), journal.state().core.committed);
  EXPECT_TRUE(Journal(path_, "hash").past().snapshot);
}

TEST_F(JournalFilesTest, AppendsDuringRewritesAreInTheFileAtEachMoment) {
  Journal journal = open();
  int rewrites = 0;
  for (int i = 0; i < 2000; ++i) {
    ASSERT_TRUE(commit(journal));
    // Snapshots grow with the run, so that most rewrites are asked for.
    const bool is_asked = i % 100 == 99 && journal.wait_for_rewrite(milliseconds(0));
    if (is_asked || journal.is_due()) {
      rewrite(journal);
      ++rewrites;
    }
    if (i % 50 == 0) {
      ASSERT_EQ(committed_steps(), journal.state().core.committed);
    }
  }
  EXPECT_GT(rewrites, 10);
  ASSERT_TRUE(journal.wait_for_rewrite(kPatience));
  EXPECT_EQ(committed_steps(), 2000u);
}

TEST_F(JournalFilesTest, AHungAppendCostsTheTakeoverAndNotTheRun) {
  Journal journal = open();
  ASSERT_TRUE(commit(journal));
  std::string why;
  journal.on_failure([&why](const std::string& reason) { why = reason; });
  disk_->writes_wait = true;
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(commit(journal));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, kAppendDeadline);
  EXPECT_EQ(why, "no append within 2000 ms");
  EXPECT_FALSE(commit(journal)) << "an abandoned journal waits for no disk";
  EXPECT_EQ(journal.state().core.committed, 3u) << "the state follows all records";
  disk_->write_released.release(2);
}

TEST_F(JournalFilesTest, AFileIsReplacedOnlyOnceTheLogHoldsItsPart) {
  Journal journal = open();
  while (!journal.is_due()) ASSERT_TRUE(commit(journal));
  const auto is_log_written = std::make_shared<std::atomic<bool>>(false);
  JournalSnapshot snapshot;
  save_state(journal.state(), snapshot);
  journal.begin_anew(std::move(snapshot), [is_log_written] { return is_log_written->load(); });
  ASSERT_TRUE(commit(journal));
  EXPECT_FALSE(journal.wait_for_rewrite(milliseconds(100)));
  EXPECT_EQ(disk_->renames, 0);
  ASSERT_TRUE(commit(journal));
  *is_log_written = true;
  ASSERT_TRUE(journal.wait_for_rewrite(kPatience));
  EXPECT_EQ(disk_->renames, 1);
  EXPECT_EQ(committed_steps(), journal.state().core.committed);
}

TEST_F(JournalFilesTest, AFailedRewriteKeepsTheFile) {
  std::optional<Journal> journal(std::in_place, path_, "hash", 100, Disk::calls(disk_));
  while (!journal->is_due()) ASSERT_TRUE(commit(*journal));
  disk_->writes_fail = true;
  rewrite(*journal);
  ASSERT_TRUE(journal->wait_for_rewrite(kPatience));
  disk_->writes_fail = false;
  EXPECT_FALSE(journal->is_due());
  ASSERT_TRUE(commit(*journal));
  EXPECT_EQ(committed_steps(), journal->state().core.committed);
  EXPECT_FALSE(fs::exists(path_ + ".new"));
}

}  // namespace
}  // namespace orrery::live

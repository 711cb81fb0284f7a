#include "live/journal.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "core/error.hpp"

namespace orrery::live {
namespace {

class JournalTest : public ::testing::Test {
 protected:
  ~JournalTest() override { std::filesystem::remove(path_); }

  /// A run of two steps with a loss between them.
  void write_some() {
    Journal journal(path_, "hash");
    JournalRecord record;
    record.mutable_membership()->set_epoch(1);
    append(journal, record);
    record.set_started(77);
    append(journal, record);
    commit(journal, 0, 1);
    record.mutable_seen()->mutable_observation()->set_now(5);
    record.mutable_seen()->add_losses()->set_rank(2);
    append(journal, record);
    record.mutable_joined()->set_rank(2);
    record.mutable_joined()->set_life(1);
    append(journal, record);
    record.mutable_membership()->set_epoch(2);
    record.mutable_membership()->set_decided(4);
    append(journal, record);
    commit(journal, 1, 2);
    record.set_halted(true);
    append(journal, record);
    record.mutable_strike()->set_rank(3);
    append(journal, record);
    record.set_parameters_sha256("abc");
    append(journal, record);
  }
  static void append(Journal& journal, const JournalRecord& record) {
    EXPECT_TRUE(journal.append(record));
  }
  static void commit(Journal& journal, Step step, std::uint64_t epoch) {
    JournalRecord record;
    record.mutable_commit()->set_step(step);
    record.mutable_commit()->set_epoch(epoch);
    append(journal, record);
  }
  std::string bytes() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void write(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
  }
  void expect_refused(const std::string& part) const {
    try {
      const Journal journal(path_, "hash");
      FAIL() << "it was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::environment);
      EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
    }
  }

  const std::string path_ = ::testing::TempDir() + "orrery_journal." + std::to_string(getpid());
};

TEST_F(JournalTest, TellsTheNextControllerWhatHasHappened) {
  write_some();
  const Journal journal(path_, "hash");
  const Past& past = journal.past();
  EXPECT_FALSE(past.empty);
  EXPECT_EQ(journal.cut_off(), 0u);
  EXPECT_EQ(past.core, (membership::Journal{2, 2, 2, 4}));
  EXPECT_EQ(past.joined, (std::set<membership::Seat>{{2, 1}}));
  EXPECT_EQ(past.started, 77);
  ASSERT_EQ(past.seen.size(), 1u);
  EXPECT_EQ(past.seen[0].now(), 5);
  EXPECT_EQ(past.commits.size(), 2u);
  ASSERT_EQ(past.losses.size(), 1u);
  EXPECT_EQ(past.losses[0].rank(), 2u);
  EXPECT_EQ(past.strikes.size(), 1u);
  EXPECT_EQ(past.halted, (std::map<std::size_t, bool>{{1, true}}));
  EXPECT_EQ(past.parameters_sha256, "abc");
}

TEST_F(JournalTest, OneOfAnotherRunIsRefused) {
  write_some();
  EXPECT_THROW(Journal(path_, "other hash"), Error);
}

TEST_F(JournalTest, ATornTailIsCutOffAndWritingGoesOnThere) {
  write_some();
  const std::string whole = bytes();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    write(whole.substr(0, size));
    std::size_t seen = 0;
    {
      Journal journal(path_, "hash");
      seen = journal.past().seen.size();
      JournalRecord record;
      record.mutable_seen();
      EXPECT_TRUE(journal.append(record));
    }
    const Journal again(path_, "hash");
    EXPECT_EQ(again.cut_off(), 0u);
    EXPECT_EQ(again.past().seen.size(), seen + 1) << "cut to " << size;
  }
}

TEST_F(JournalTest, AFlippedByteIsRefused) {
  write_some();
  const std::string whole = bytes();
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    write(damaged);
    expect_refused("is damaged");
  }
}

TEST_F(JournalTest, AStepThatIsLeftOutIsRefused) {
  {
    Journal journal(path_, "hash");
    commit(journal, 1, 1);
  }
  expect_refused("leaves a step out");
}

TEST_F(JournalTest, ARunThatGoesOnFromACheckpointBeginsWithItsStep) {
  {
    Journal journal(path_, "hash");
    JournalRecord record;
    record.mutable_resumed()->set_step(40);
    record.mutable_resumed()->set_attempt(3);
    append(journal, record);
    commit(journal, 40, 1);
    commit(journal, 41, 1);
  }
  {
    Journal journal(path_, "hash");
    ASSERT_TRUE(journal.past().resumed);
    EXPECT_EQ(journal.past().resumed->attempt(), 3u);
    EXPECT_EQ(journal.past().commits.size(), 2u);
    EXPECT_EQ(journal.past().core.committed, 42u);
    commit(journal, 2, 1);
  }
  expect_refused("leaves a step out");
}

TEST_F(JournalTest, WhatCannotBeWrittenIsSaid) {
  EXPECT_THROW(Journal("/no/such/folder/journal", "hash"), Error);
  write_some();
  Journal journal(path_, "hash");
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit full{bytes().size(), before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &full);
  EXPECT_FALSE(journal.append(JournalRecord{}));
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_FALSE(journal.append(JournalRecord{})) << "what follows a gap would be of no use";
}

}  // namespace
}  // namespace orrery::live

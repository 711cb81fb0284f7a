#include "live/run/files/journal.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "core/random.hpp"

namespace orrery::live {
namespace {

constexpr std::chrono::milliseconds kEnough{10'000};

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
    EXPECT_TRUE(journal.append_record(record));
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
      EXPECT_TRUE(journal.append_record(record));
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
  expect_refused("lacks the commit of a step");
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
  expect_refused("lacks the commit of a step");
}

/// The state after `steps` steps of a run that has lost `losses` ranks on the way.
JournalSnapshot state_after(Step steps, std::uint32_t losses) {
  JournalSnapshot state;
  state.mutable_membership()->set_epoch(losses + 1);
  state.set_step(steps);
  state.set_committed_in(losses + 1);
  state.set_started(77);
  for (std::uint32_t i = 0; i < losses; ++i) {
    Seat& seat = *state.add_joined();
    seat.set_rank(i % 64);
    seat.set_life(i / 64);
    JournalLoss& loss = *state.add_losses();
    loss.set_index(i);
    loss.set_rank(i % 64);
    loss.mutable_report()->set_cause("rank 7 killed by signal 9 (Killed)");
    loss.mutable_report()->set_time_s(i);
    loss.mutable_report()->set_resumed_s(i + 0.5);
  }
  return state;
}

TEST_F(JournalTest, BegunAnewItTellsTheStateAndWhatFollowed) {
  write_some();
  {
    Journal journal(path_, "hash");
    JournalSnapshot state = state_after(2, 3);
    state.set_memory("what the policies know");
    state.set_halted(true);
    journal.begin_anew(state);
    commit(journal, 2, 4);
    JournalRecord record;
    record.mutable_seen()->mutable_observation()->set_now(9);
    append(journal, record);
  }
  const Journal journal(path_, "hash");
  const Past& past = journal.past();
  ASSERT_TRUE(past.snapshot);
  EXPECT_EQ(past.snapshot->memory(), "what the policies know");
  EXPECT_EQ(past.core, (membership::Journal{4, 3, 4, 0}));
  EXPECT_EQ(past.started, 77);
  EXPECT_EQ(past.joined.size(), 3u);
  EXPECT_EQ(past.losses.size(), 3u);
  EXPECT_EQ(past.halted, (std::map<std::size_t, bool>{{0, true}}));
  ASSERT_EQ(past.commits.size(), 1u);
  EXPECT_EQ(past.commits[0].step(), 2u);
  EXPECT_EQ(past.seen.size(), 1u);
}

TEST_F(JournalTest, ATornTailBehindASnapshotIsCutOffToo) {
  {
    Journal journal(path_, "hash");
    journal.begin_anew(state_after(5, 1));
    commit(journal, 5, 2);
  }
  const std::string whole = bytes();
  write(whole.substr(0, whole.size() - 1));
  Journal journal(path_, "hash");
  EXPECT_GT(journal.cut_off(), 0u);
  EXPECT_TRUE(journal.past().snapshot);
  EXPECT_TRUE(journal.past().commits.empty());
  commit(journal, 5, 3);
}

TEST_F(JournalTest, ASecondStateInItsMidstIsRefused) {
  {
    Journal journal(path_, "hash");
    commit(journal, 0, 1);
    JournalRecord record;
    *record.mutable_snapshot() = state_after(1, 0);
    append(journal, record);
  }
  expect_refused("holds a snapshot after its first record");
}

/// A month's steps would be written for minutes: a journal that stays within its bound over a
/// hundred snapshots does so for ever. ./dev bench takeover times the reading.
TEST_F(JournalTest, ItsSizeDoesNotGrowWithTheRun) {
  constexpr std::size_t kTail = 64 << 10;
  std::size_t most = 0, state_bytes = 0, begun_anew = 0;
  {
    Journal journal(path_, "hash", kTail);
    JournalRecord record;
    JournalCommit& commit = *record.mutable_commit();
    for (int rank = 0; rank < 64; ++rank) commit.add_reports()->set_loss_sum(1.5);
    for (Step step = 0; step < 20'000; ++step) {
      commit.set_step(step);
      commit.set_epoch(1);
      append(journal, record);
      most = std::max(most, journal.size());
      if (!journal.is_due()) continue;
      const JournalSnapshot state = state_after(step + 1, 200);
      state_bytes = state.ByteSizeLong();
      journal.begin_anew(state);
      ASSERT_TRUE(journal.wait_for_rewrite(kEnough));
      ++begun_anew;
    }
  }
  EXPECT_GT(begun_anew, 100u);
  EXPECT_LT(most, 2 * std::max(state_bytes, kTail) + 8192);
  EXPECT_LT(bytes().size(), most + 1);
  EXPECT_EQ(Journal(path_, "hash").past().core.committed, 20'000u);
}

/// Damaged records as in tests/fuzz/journal_fuzz: damage inside records whose checksums are right
/// gives a past or a refusal by name, and a good part of the cases is a past: the code behind the
/// checks is reached.
TEST_F(JournalTest, RecordsOfAnyContentTellAPastOrAreRefused) {
  write_some();
  { Journal(path_, "hash").begin_anew(state_after(7, 2)); }
  std::vector<std::string> bodies;
  const std::string whole = bytes();
  for (std::size_t at = 0; at < whole.size();) {
    std::uint32_t size = 0;
    std::memcpy(&size, whole.data() + at, sizeof size);
    bodies.push_back(whole.substr(at + 12, size));
    at += 12 + size;
  }
  ASSERT_EQ(bodies.size(), 2u);  // opening and state
  Rng rng(1);
  int taken = 0, refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string body = bodies[1];
    for (int flips = 1 + static_cast<int>(rng.below(3)); flips > 0; --flips) {
      body[rng.below(body.size())] = static_cast<char>(rng.below(256));
    }
    write(framed(bodies[0]) + framed(body));
    try {
      const Journal journal(path_, "hash");
      ++taken;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::environment);
      ++refused;
    }
  }
  EXPECT_GT(taken, 200);
  EXPECT_GT(refused, 200);
}

TEST_F(JournalTest, ALinkInItsPlaceIsNotFollowed) {
  const std::string other = path_ + ".other";
  std::ofstream(other) << "the user's";
  std::filesystem::create_symlink(other, path_);
  EXPECT_THROW(Journal(path_, "hash"), Error);
  std::filesystem::remove(path_);
  Journal journal(path_, "hash");
  std::filesystem::create_symlink(other, path_ + ".new");
  journal.begin_anew(state_after(1, 0));
  ASSERT_TRUE(journal.wait_for_rewrite(kEnough));
  EXPECT_EQ(std::filesystem::file_size(other), 10u);
  std::filesystem::remove(other);
}

TEST_F(JournalTest, WhatCannotBeWrittenIsSaid) {
  EXPECT_THROW(Journal("/no/such/folder/journal", "hash"), Error);
  write_some();
  Journal journal(path_, "hash");
  int decisions = 0;
  journal.on_failure([&](const std::string& why) {
    EXPECT_NE(why, "");
    EXPECT_TRUE(std::filesystem::exists(path_)) << "it is there until that is decided";
    ++decisions;
  });
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit full{bytes().size(), before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &full);
  EXPECT_FALSE(journal.append_record(JournalRecord{}));
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_FALSE(journal.append_record(JournalRecord{})) << "what follows a gap would be of no use";
  EXPECT_EQ(decisions, 1);
  ASSERT_TRUE(journal.wait_for_rewrite(kEnough));
  EXPECT_FALSE(std::filesystem::exists(path_)) << "others need the disk";
}

TEST_F(JournalTest, ASnapshotThatCannotBeCreatedIsNotRepeatedAtOnce) {
  Journal journal(path_, "hash", 100);
  while (!journal.is_due()) commit(journal, 0, 1);
  std::filesystem::create_directory(path_ + ".new");
  journal.begin_anew(state_after(1, 0));
  ASSERT_TRUE(journal.wait_for_rewrite(kEnough));
  EXPECT_FALSE(journal.is_due());
  std::filesystem::remove(path_ + ".new");
  while (!journal.is_due()) commit(journal, 0, 1);
  journal.begin_anew(state_after(1, 0));
  ASSERT_TRUE(journal.wait_for_rewrite(kEnough));
  EXPECT_TRUE(Journal(path_, "hash").past().snapshot);
}

TEST_F(JournalTest, AFirstRecordThatCannotBeWrittenIsReportedToTheHandler) {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit full{0, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &full);
  Journal journal(path_, "hash");
  setrlimit(RLIMIT_FSIZE, &before);
  int reports = 0;
  journal.on_failure([&](const std::string& why) {
    EXPECT_NE(why, "");
    ++reports;
  });
  EXPECT_EQ(reports, 1);
  EXPECT_FALSE(journal.append_record(JournalRecord{}));
  EXPECT_EQ(reports, 1);
}

TEST_F(JournalTest, StepsAreCommittedAgainAfterARollback) {
  {
    Journal journal(path_, "hash");
    for (const Step step : {0, 1, 2}) commit(journal, step, 1);
    JournalRecord record;
    record.mutable_rolled_back()->set_step(1);
    record.mutable_rolled_back()->set_attempt(9);
    append(journal, record);
  }
  {
    const Journal journal(path_, "hash");
    ASSERT_TRUE(journal.past().rolled_back.has_value());
    EXPECT_EQ(journal.past().rolled_back->attempt(), 9u);
    EXPECT_EQ(journal.past().core.committed, 1u);
    EXPECT_EQ(journal.past().core.committed_in, 0u);
  }
  {
    Journal journal(path_, "hash");
    commit(journal, 1, 4);
  }
  const Journal journal(path_, "hash");
  EXPECT_FALSE(journal.past().rolled_back.has_value());
  EXPECT_EQ(journal.past().core.committed, 2u);
  EXPECT_EQ(journal.past().commits.size(), 4u);
}

}  // namespace
}  // namespace orrery::live

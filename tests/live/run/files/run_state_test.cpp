// Random sequences of records: the state that the controller holds, the state that a successor
// reads from the file, and the state of the records applied one after the other are equal.
//   ORRERY_SEED=N  other sequences
#include "live/run/files/run_state.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/random.hpp"
#include "live/run/files/journal.hpp"

namespace orrery::live {
namespace {

std::uint64_t seed() {
  const char* given = std::getenv("ORRERY_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
}

/// Returns a state as text, for comparisons and messages.
std::string text_of(const RunState& state) {
  JournalSnapshot all;
  save_state(state, all);
  return fmt::format("{} {} {}", all.ShortDebugString(), state.parameters_sha256, state.empty);
}

/// Returns a random record that may follow in a started run.
JournalRecord random_record(Rng& rng, const RunState& state) {
  JournalRecord record;
  const auto some = [&rng] { return static_cast<std::uint32_t>(rng.below(8)); };
  switch (rng.below(10)) {
    case 0:
      record.mutable_membership()->set_epoch(state.core.epoch + 1);
      record.mutable_membership()->set_decided(state.core.decided + some());
      break;
    case 1: {
      JournalLoss& loss = *record.mutable_seen()->add_losses();
      loss.set_index(static_cast<std::uint32_t>(rng.below(state.losses.size() + 1)));
      loss.set_rank(some());
      break;
    }
    case 2:
      record.mutable_joined()->set_rank(some());
      record.mutable_joined()->set_life(some());
      break;
    case 3: record.mutable_strike()->set_rank(some()); break;
    case 4: record.mutable_removal()->set_node(some()); break;
    case 5: record.set_halted(rng.below(2) == 0); break;
    case 6:
      record.mutable_rolled_back()->set_step(rng.below(state.core.committed + 1));
      record.mutable_rolled_back()->set_attempt(some());
      break;
    case 7: record.mutable_seen()->mutable_observation()->set_sequence(state.sequence); break;
    default:
      record.mutable_commit()->set_step(state.core.committed);
      record.mutable_commit()->set_epoch(state.core.epoch);
      record.mutable_commit()->set_lost(state.work.lost + some());
      for (int rank = 0; rank < 3; ++rank) record.mutable_commit()->add_cpu(some());
  }
  return record;
}

class RunStateTest : public ::testing::Test {
 protected:
  ~RunStateTest() override { std::filesystem::remove(path_); }
  std::string read_back() const { return text_of(Journal(path_, "hash").past()); }
  const std::string path_ = ::testing::TempDir() + "orrery_state." + std::to_string(getpid());
};

TEST_F(RunStateTest, TheControllersStateIsTheStateOfAllRecords) {
  Rng rng(seed());
  std::size_t rewritten = 0;
  for (int run = 0; run < 20; ++run) {
    SCOPED_TRACE(fmt::format("ORRERY_SEED={}, run {}", seed(), run));
    std::filesystem::remove(path_);
    RunState alone;
    JournalRecord begin;
    begin.set_started(77);
    std::optional<Journal> journal(std::in_place, path_, "hash", 256);
    for (int i = 0; i < 300; ++i) {
      const JournalRecord record = i == 0 ? begin : random_record(rng, alone);
      ASSERT_EQ(apply(alone, record), std::nullopt) << record.ShortDebugString();
      ASSERT_TRUE(journal->append_record(record));
      if (journal->is_due()) {
        JournalSnapshot snapshot;
        save_state(journal->state(), snapshot);
        journal->begin_anew(std::move(snapshot));
        ++rewritten;
      }
      if (rng.below(100) == 0) journal.emplace(path_, "hash", 256);  // a takeover
    }
    EXPECT_EQ(text_of(journal->state()), text_of(alone));
    journal.reset();
    EXPECT_EQ(read_back(), text_of(alone));
  }
  EXPECT_GT(rewritten, 100u) << "few journals were rewritten";
}

TEST_F(RunStateTest, ARecordThatCannotFollowIsNamed) {
  RunState state;
  JournalRecord record;
  record.mutable_commit()->set_step(1);
  EXPECT_EQ(apply(state, record), "lacks the commit of a step");
  record.mutable_seen()->add_losses()->set_index(1);
  EXPECT_EQ(apply(state, record), "lacks the record of a loss");
  EXPECT_EQ(apply(state, JournalRecord{}), "holds a record of an unknown kind");
  record.mutable_snapshot();
  EXPECT_EQ(apply(state, record), "holds a snapshot after its first record");
  Past past;
  record.mutable_read();
  EXPECT_EQ(apply(past, record), "holds telemetry before the first observation");
  record.set_given_up("it hung");
  EXPECT_EQ(apply(past, record), "holds a call before the first observation");
}

TEST_F(RunStateTest, ARunThatResumesCommitsTheStepOfItsCheckpointFirst) {
  RunState state;
  JournalRecord record;
  record.mutable_resumed()->set_step(40);
  EXPECT_EQ(apply(state, record), std::nullopt);
  EXPECT_EQ(state.core.committed, 40u);
  record.mutable_commit()->set_step(40);
  EXPECT_EQ(apply(state, record), std::nullopt);
  EXPECT_EQ(state.core.committed, 41u);
}

TEST_F(RunStateTest, AHoldLastsFromTheObservationThatShowsItUntilTheJobStarts) {
  RunState state;
  const auto show = [&state](Nanos now, const std::vector<EventRecord>& events) {
    JournalRecord record;
    ObservationRecord& seen = *record.mutable_seen()->mutable_observation();
    seen.set_now(now);
    seen.mutable_events()->Add(events.begin(), events.end());
    EXPECT_EQ(apply(state, record), std::nullopt);
  };
  EventRecord held, stopped, started;
  held.mutable_job_held();
  stopped.mutable_job_stopped();
  started.mutable_job_started();
  EXPECT_EQ(state.held_since, kNever);
  show(10, {held});
  EXPECT_EQ(state.held_since, 10);
  show(20, {started, stopped});
  EXPECT_EQ(state.held_since, 20);
  show(30, {});
  EXPECT_EQ(state.held_since, 20);
  show(40, {started});
  EXPECT_EQ(state.held_since, kNever);
}

}  // namespace
}  // namespace orrery::live

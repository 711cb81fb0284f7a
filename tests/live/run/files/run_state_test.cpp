// Random sequences of records: the state that the controller holds, the state that a successor
// reads from the file, and the state of the records applied one after the other are equal, and so
// are the statuses for the operator.
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
#include "live/run/operator/run_status.hpp"

namespace orrery::live {
namespace {

std::uint64_t seed() {
  const char* given = std::getenv("ORRERY_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
}

constexpr RunRules kRules{.ranks = 4, .keep = 2};

/// Returns a state and its status as text, for comparisons and messages. The state contains the
/// statistics, the checkpoints and the hold.
std::string text_of(const RunState& state) {
  JournalSnapshot all;
  save_state(state, all);
  const RunStatus status = status_of(state, {});
  return fmt::format(
      "{} {} {}; status {} step {} epoch {} losses {} samples {} loss {} elapsed {} step time {} "
      "checkpoints {} + {}",
      all.ShortDebugString(), state.parameters_sha256, state.empty, status.phase, status.step,
      status.epoch, status.losses, status.samples, status.loss, status.elapsed_s,
      status.step_time_s, status.checkpoints_written, status.checkpoints_failed);
}

/// Fills a commit of the next step: times and losses of three of four ranks, and often a
/// checkpoint.
void fill_commit(Rng& rng, const RunState& state, JournalCommit& commit) {
  commit.set_step(state.core.committed);
  commit.set_epoch(state.core.epoch);
  commit.set_lost(state.work.lost + rng.below(8));
  commit.set_at(state.statistics.last_commit() + 1 + static_cast<Nanos>(rng.below(1'000'000'000)));
  commit.set_samples(4 + rng.below(2));
  for (int rank = 0; rank < 3; ++rank) {
    commit.add_cpu(static_cast<Nanos>(rng.below(8)));
    StepReport& report = *commit.add_reports();
    report.set_compute(static_cast<Nanos>(rng.below(500'000'000)));
    report.set_duration(600'000'000);
    report.set_loss_sum(1 + rng.uniform());
    report.set_predictions(1 + rng.below(8));
  }
  if (rng.below(2) == 0) return;
  commit.set_checkpoint(1 + rng.below(1'000'000'000));
  commit.set_tier(static_cast<TierRecord>(rng.below(4)));
}

/// Returns a random event that changes checkpoints or the hold; an outcome is of a begun attempt,
/// where there is one.
EventRecord random_event(Rng& rng, const RunState& state) {
  EventRecord event;
  const std::uint64_t kind = rng.below(8);
  if (kind == 0) event.mutable_job_held();
  if (kind == 1) event.mutable_job_stopped();
  if (kind == 2) event.mutable_job_started();
  if (kind < 3) return event;
  SaveDoneRecord& done = *event.mutable_save_done();
  done.set_durable(rng.below(3) > 0);
  const auto& begun = state.checkpoints.begun();
  if (begun.empty()) return event;
  const std::uint64_t index = rng.below(static_cast<std::uint64_t>(begun.size()));
  const KeptCheckpoint& some = begun.Get(static_cast<int>(index));
  done.set_step(some.step());
  done.set_tier(some.tier());
  return event;
}

/// Returns a random record that may follow in a started run.
JournalRecord random_record(Rng& rng, const RunState& state) {
  JournalRecord record;
  const auto some = [&rng] { return static_cast<std::uint32_t>(rng.below(8)); };
  switch (rng.below(12)) {
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
    case 7:
    case 8: {
      ObservationRecord& seen = *record.mutable_seen()->mutable_observation();
      seen.set_sequence(state.sequence);
      seen.set_now(state.statistics.last_commit());
      *seen.add_events() = random_event(rng, state);
      break;
    }
    default: fill_commit(rng, state, *record.mutable_commit());
  }
  return record;
}

class RunStateTest : public ::testing::Test {
 protected:
  ~RunStateTest() override { std::filesystem::remove(path_); }
  std::string read_back() const {
    return text_of(Journal(path_, "hash", 256, {}, kRules).past());
  }
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
    std::optional<Journal> journal(std::in_place, path_, "hash", 256, FileCalls{}, kRules);
    for (int i = 0; i < 300; ++i) {
      const JournalRecord record = i == 0 ? begin : random_record(rng, alone);
      ASSERT_EQ(apply(alone, record, kRules), std::nullopt) << record.ShortDebugString();
      ASSERT_TRUE(journal->append_record(record));
      if (journal->is_due()) {
        JournalSnapshot snapshot;
        save_state(journal->state(), snapshot);
        journal->begin_anew(std::move(snapshot));
        ++rewritten;
      }
      if (rng.below(100) > 0) continue;
      journal.emplace(path_, "hash", 256, FileCalls{}, kRules);  // a takeover
      ASSERT_EQ(text_of(journal->state()), text_of(alone));
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

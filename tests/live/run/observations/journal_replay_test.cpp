#include "live/run/observations/journal_replay.hpp"

#include <string>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "policies/record/samples_book.hpp"
#include "tests/live/run/one_job.hpp"
#include "tests/policies/toy.hpp"

namespace orrery::live {
namespace {

/// Returns the journal of a controller that died after two observations and three steps.
Past some_past() {
  Past past;
  const OneJob run;
  SamplesBook none;
  const auto show = [&](std::uint64_t sequence, std::vector<Event> events) {
    const Observation seen = {.now = Nanos(10 * sequence),
                              .sequence = sequence,
                              .events = events,
                              .cluster = run.cluster,
                              .state = run.world.state(),
                              .jobs = run.world.jobs(),
                              .samples = none};
    encode(seen, past.seen.emplace_back());
  };
  const JobInfo& job = run.placement.job();
  show(0, {JobSubmitted{job.spec},
           JobStarted{.job = kLiveJob, .epoch = {1}, .from = 0, .where = {job.gpus, job.layout}}});
  show(1, {StepsDone{.job = kLiveJob, .last = 0, .count = 1, .duration = 10}});
  RankSample sample;
  sample.rank = {3};
  toy::HandMade source;
  source.of_ranks = {sample};
  for (std::uint32_t column = 0; column <= 5; ++column) {
    SamplesRead wish;
    wish.set_column(column);
    read_samples(source, wish, *past.read[1].add_read());
  }
  past.halted[2] = true;
  for (const Nanos at : {10, 25, 45}) {
    JournalCommit& commit = past.commits.emplace_back();
    commit.set_step(past.commits.size() - 1);
    commit.set_at(at);
  }
  return past;
}

Decision save(DecisionId id) {
  Decision decision;
  decision.id = id;
  decision.what = Save{kLiveJob};
  return decision;
}

TEST(JournalReplay, WithoutAPastThereIsNothingToShow) {
  const OneJob run;
  const Past past;
  JournalReplay replay(run.cluster, past);
  EXPECT_FALSE(replay.has_more());
  EXPECT_FALSE(replay.is_replaying());
}

TEST(JournalReplay, ShowsWhatWasShownWithWhatWasRead) {
  const OneJob run;
  const Past past = some_past();
  JournalReplay replay(run.cluster, past);
  EXPECT_EQ(replay.next().events.size(), 2u);
  EXPECT_FALSE(replay.is_halted());
  EXPECT_TRUE(replay.has_more());
  const Observation second = replay.next();
  EXPECT_EQ(second.now, 10);
  ASSERT_EQ(second.samples.ranks(kLiveJob).size(), 1u);
  EXPECT_EQ(second.samples.ranks(kLiveJob)[0].rank.value, 3u);
  EXPECT_EQ(replay.world().jobs()[kLiveJob].step, 1u);
  EXPECT_TRUE(replay.is_halted());
  EXPECT_FALSE(replay.has_more());
  EXPECT_TRUE(replay.is_replaying());
  replay.end_replay();
  EXPECT_FALSE(replay.is_replaying());
}

TEST(JournalReplay, PoliciesThatWereGivenUpAreGivenUpInTheSameCall) {
  const OneJob run;
  Past past = some_past();
  past.given_up[1] = "expected an answer";
  JournalReplay replay(run.cluster, past);
  EXPECT_EQ(replay.given_up(), "");
  replay.next();
  EXPECT_EQ(replay.given_up(), "");
  replay.next();
  EXPECT_EQ(replay.given_up(), "expected an answer");
}

TEST(JournalReplay, StepsThatNobodySawTheEndOfAreMadeUpFor) {
  const std::vector<StepsDone> unseen = unseen_steps(some_past());
  ASSERT_EQ(unseen.size(), 2u);
  EXPECT_EQ(unseen[0].last, 1u);
  EXPECT_EQ(unseen[0].duration, 15);
  EXPECT_EQ(unseen[1].duration, 20);
}

TEST(JournalReplay, ADecisionStaysOpenUntilItsOutcomeWasShown) {
  const OneJob run;
  Past past = some_past();
  ObservationRecord& outcome = past.seen.emplace_back();
  outcome.set_sequence(2);
  encode(Event{Decided{0, Outcome::rejected, "no"}}, *outcome.add_events());
  for (const DecisionId id : {0, 1}) encode(save(id), *past.read[1].add_decisions());
  JournalReplay replay(run.cluster, past);
  replay.next();
  EXPECT_EQ(replay.compare_answer(DecisionList()), std::nullopt);
  DecisionList decisions(0);
  replay.next();
  decisions.put_decision(save(0));
  decisions.put_decision(save(1));
  EXPECT_EQ(replay.compare_answer(decisions), std::nullopt);
  replay.next();
  const std::vector<Decision> open = replay.take_open();
  ASSERT_EQ(open.size(), 1u);
  EXPECT_EQ(open[0].id, 1u);
  EXPECT_TRUE(replay.take_open().empty());
}

TEST(JournalReplay, ANewAnswerToTheNewestObservationIsOpen) {
  const OneJob run;
  Past past = some_past();
  past.read.clear();
  JournalReplay replay(run.cluster, past);
  replay.next();
  EXPECT_TRUE(replay.is_answered()) << "by nothing: another observation follows";
  replay.next();
  EXPECT_FALSE(replay.is_answered());
  DecisionList decisions(3);
  decisions.put_decision(save(3));
  replay.take_answer(decisions);
  EXPECT_EQ(replay.take_open().size(), 1u);
  EXPECT_TRUE(replay.world().is_same_call(3, 3)) << "it is announced";
  past.read[1].add_wakes(7);
  EXPECT_TRUE(replay.is_answered());
  past.read.clear();
  past.given_up[1] = "it hung";
  EXPECT_TRUE(replay.is_answered());
}

TEST(JournalReplay, TheFirstAnswerThatDiffersIsNamedAndTheWorldFollowsTheRecord) {
  const OneJob run;
  Past past = some_past();
  ObservationRecord& outcome = past.seen.emplace_back();
  outcome.set_now(30);
  encode(Event{Decided{0, Outcome::applied, {}}}, *outcome.add_events());
  past.read[1].add_wakes(50);
  encode(save(0), *past.read[1].add_decisions());
  for (const bool has_other_wakes : {false, true}) {
    JournalReplay replay(run.cluster, past);
    replay.next();
    EXPECT_EQ(replay.compare_answer(DecisionList()), std::nullopt);
    replay.next();
    DecisionList other(0);
    if (has_other_wakes) other.put_decision(save(0));
    other.wake(has_other_wakes ? 60 : 50);
    const std::optional<std::string> difference = replay.compare_answer(other);
    ASSERT_TRUE(difference);
    EXPECT_TRUE(difference->starts_with("call at 1e-08 s: ")) << *difference;
    const bool names_decisions = difference->find("recorded Save") != std::string::npos &&
                                 difference->ends_with("replayed nothing");
    EXPECT_EQ(names_decisions, !has_other_wakes) << *difference;
    replay.next();  // the outcome of the recorded decision
    other.put_decision(save(4));
    EXPECT_EQ(replay.compare_answer(other), std::nullopt) << "it follows from the first";
    EXPECT_TRUE(replay.take_open().empty());
  }
}

/// Two answers have one decision each, without an outcome. The policies of the successor decide
/// less or more.
TEST(JournalReplay, ANewDecisionMeetsNoRecordedOneIfThePoliciesDecideLessOrMoreThanRecorded) {
  const OneJob run;
  Past past = some_past();
  for (const std::size_t seen : {0, 1}) encode(save(seen), *past.read[seen].add_decisions());
  past.seen.emplace_back().set_sequence(2);  // has no answer yet
  for (const int count : {0, 1, 3}) {
    JournalReplay replay(run.cluster, past);
    EXPECT_EQ(replay.decided_before(), 0u);
    DecisionList decisions;
    const auto decide = [&](int decided) {  // drive() does the same
      decisions.clear();
      if (decisions.next() < replay.decided_before()) {
        decisions = DecisionList(replay.decided_before());
      }
      for (int i = 0; i < decided; ++i) decisions.add(Save{kLiveJob}, "");
    };
    for (int i = 0; i < 2; ++i) {
      replay.next();
      decide(count);
      EXPECT_EQ(replay.compare_answer(decisions).has_value(), count != 1 && i == 0);
    }
    replay.next();
    decide(1);
    EXPECT_EQ(decisions.items().front().id, count == 3 ? 6u : 2u);
    EXPECT_NO_THROW(replay.take_answer(decisions)) << "the recorded decisions are still open";
    EXPECT_EQ(replay.take_open().size(), 3u);
    EXPECT_EQ(replay.decided_before(), count == 3 ? 7u : 3u);
  }
}

TEST(JournalReplay, OnlyASnapshotHasTheBytesOfThePolicies) {
  const OneJob run;
  Past past;
  std::string loaded;
  const auto load = [&loaded](const std::string& saved, const World& world) {
    loaded = saved + " " + std::to_string(world.jobs().size());
  };
  JournalReplay(run.cluster, past).load_memory(load);
  EXPECT_EQ(loaded, "");
  past.snapshot.emplace().set_memory("bytes");
  past.first_world = run.world;
  JournalReplay(run.cluster, past).load_memory(load);
  EXPECT_EQ(loaded, "bytes 1");
  EXPECT_THROW(JournalReplay(run.cluster, past).load_memory({}), Error);
}

TEST(JournalReplay, AfterASnapshotTheWorldIsThatOfTheSnapshot) {
  const OneJob run;
  Past past;
  past.snapshot.emplace();
  past.first_world = run.world;
  JournalReplay replay(run.cluster, past);
  EXPECT_TRUE(replay.is_replaying());
  EXPECT_EQ(replay.world().jobs()[kLiveJob].gpus.size(), 4u);
}

}  // namespace
}  // namespace orrery::live

#include "policies/recovery/planned_moves.hpp"

#include <gtest/gtest.h>

#include "policies/record/encoding.hpp"
#include "tests/policies/toy.hpp"

namespace orrery {
namespace {

const Part kGpu3{PartKind::gpu, 3};

PartChanged announced(Part part, Nanos at = 90) {
  Removal removal;
  removal.at = at;
  return {part, {.removal = removal}};
}
PartChanged lost(Part part) { return {part, {.health = Health::lost, .rate = 0}}; }

/// A job of four ranks on the first two of four nodes of two GPUs, at step 7.
class PlannedMovesTest : public ::testing::Test {
 protected:
  PlannedMovesTest() {
    JobSpec spec = toy::job();
    spec.least_gpus = 1;
    toy::run_on(world_, spec);
    world_.apply(StepsDone{{0}, 6, 7}, 0);
  }

  /// Applies the events and returns the policy's decisions about them.
  std::vector<Decision> decide(const std::vector<Event>& events) {
    for (const Event& event : events) {
      if (!std::holds_alternative<Decided>(event)) world_.apply(event, now_);
    }
    DecisionList decisions(next_);
    const Observation seen = toy::seen_of(world_, events, samples_, now_);
    moves_.observe(seen, moves_.read_parts(seen), decisions);
    next_ = decisions.next();
    wakes_ = decisions.wake_times();
    return decisions.items();
  }
  /// Returns the only decision, in words.
  std::string line(const std::vector<Event>& events) {
    const std::vector<Decision> decided = decide(events);
    EXPECT_EQ(decided.size(), 1u);
    if (decided.size() != 1) return "";
    EXPECT_EQ(world_.objection(decided[0]), "");
    return trace_line(decided[0]);
  }
  /// Returns the outcome of the newest decision.
  Decided outcome(Outcome status) const { return {next_ - 1, status, ""}; }
  /// Announces the removal of a GPU of a job that cannot move. The decision to shrink is rejected,
  /// the one to save applied, and step 7 ends.
  void order_save() {
    moves_.set_rules({.moves = false});
    decide({announced(kGpu3)});
    decide({outcome(Outcome::rejected)});
    decide({outcome(Outcome::applied)});
    world_.apply(StepsDone{{0}, 7, 1}, 0);
  }
  JobStarted started(Standing where) { return toy::started(world_, 0, std::move(where), 8); }
  void take(std::uint32_t first, std::uint32_t count) {
    toy::run_on(world_, toy::plain(static_cast<std::uint32_t>(world_.jobs().submitted()), count),
                first);
  }

  Cluster cluster_ = toy::cluster(4);
  World world_{cluster_};
  NoSamples samples_;
  PlannedMoves moves_;
  DecisionId next_ = 0;
  Nanos now_ = 5;             ///< instant of the next call
  std::vector<Nanos> wakes_;  ///< wake-ups of the newest call
};

TEST_F(PlannedMovesTest, ARankMovesToTheFirstFreeGpu) {
  EXPECT_EQ(line({announced(kGpu3)}),
            "Assign{job 0: gpus 0-2 4 layout tensor 1 context 1 pipeline 1 data 4 state peer, "
            "step 0}");
  EXPECT_TRUE(decide({announced({PartKind::gpu, 7})}).empty()) << "one decision at a time";
}

TEST_F(PlannedMovesTest, ANodeMovesToANodeThatIsFreeAndStays) {
  world_.apply(announced({PartKind::gpu, 5}), 1);
  EXPECT_EQ(line({announced({PartKind::node, 0})}),
            "Assign{job 0: gpus 2-3 6-7 layout tensor 1 context 1 pipeline 1 data 4 state peer, "
            "step 0}");
}

TEST_F(PlannedMovesTest, APartWithoutARankMovesNone) {
  EXPECT_TRUE(decide({announced({PartKind::node, 3})}).empty());
  EXPECT_TRUE(decide({announced({PartKind::nic, 0})}).empty()) << "ranks do not live on NICs";
}

TEST_F(PlannedMovesTest, WithoutASpareTheJobShrinksAndTakesTheGpuBack) {
  take(4, 4);
  EXPECT_EQ(line({announced(kGpu3)}),
            "Assign{job 0: gpus 0-2 layout tensor 1 context 1 pipeline 1 data 3 state peer, "
            "step 8}");
  EXPECT_TRUE(decide({outcome(Outcome::applied)}).empty());
  EXPECT_TRUE(decide({started(toy::standing(0, 3))}).empty()) << "the GPU is still to go";
  EXPECT_TRUE(decide({lost(kGpu3)}).empty());
  EXPECT_EQ(line({PartChanged{kGpu3, {}}}),
            "Assign{job 0: gpus 0-3 layout tensor 1 context 1 pipeline 1 data 4 state peer, "
            "step 0}");
}

TEST_F(PlannedMovesTest, AJobShrinksTwoMinutesBeforeTheRemoval) {
  constexpr Nanos kMinute = 60'000'000'000;
  take(4, 4);
  EXPECT_TRUE(decide({announced(kGpu3, 10 * kMinute)}).empty());
  EXPECT_EQ(wakes_, std::vector<Nanos>{8 * kMinute});
  now_ = 8 * kMinute - 1;
  EXPECT_TRUE(decide({}).empty());
  now_ = 8 * kMinute;
  EXPECT_NE(line({}).find("data 3"), std::string::npos);
  EXPECT_TRUE(decide({outcome(Outcome::applied), started(toy::standing(0, 3))}).empty());
}

TEST_F(PlannedMovesTest, AJobThatWaitsToShrinkMovesToAGpuThatBecomesFree) {
  take(4, 4);
  EXPECT_TRUE(decide({announced(kGpu3, 600'000'000'000)}).empty());
  now_ = 100;
  EXPECT_NE(line({JobDone{{1}, Ending::completed}}).find("data 4 state peer"), std::string::npos);
}

TEST_F(PlannedMovesTest, ARejectedGrowthIsNotRepeatedAtOnce) {
  take(4, 4);
  decide({announced(kGpu3)});
  decide({outcome(Outcome::applied), started(toy::standing(0, 3))});
  EXPECT_EQ(decide({PartChanged{kGpu3, {}}}).size(), 1u);
  EXPECT_TRUE(decide({outcome(Outcome::rejected)}).empty());
  EXPECT_TRUE(decide({PartChanged{{PartKind::nic, 0}, {.rate = 0.5}}}).empty());
  const PartState lost{.health = Health::lost, .rate = 0};
  EXPECT_EQ(decide({PartChanged{{PartKind::nic, 0}, lost}}).size(), 1u);
}

TEST_F(PlannedMovesTest, RejectedWaysAreFollowedByTheNextOnes) {
  decide({announced(kGpu3)});
  EXPECT_NE(line({outcome(Outcome::rejected)}).find("data 3"), std::string::npos);
  EXPECT_EQ(line({outcome(Outcome::rejected)}), "Save{job 0: tier local-disk, step 0}");
  EXPECT_TRUE(decide({outcome(Outcome::rejected)}).empty());
  EXPECT_TRUE(decide({announced({PartKind::gpu, 2})}).empty()) << "no way is left";
}

TEST_F(PlannedMovesTest, ASavedJobReleasesItsGpusAndReturnsWithThePart) {
  world_.apply(lost({PartKind::node, 2}), 1);
  world_.apply(lost({PartKind::node, 3}), 1);
  decide({announced(kGpu3)});
  EXPECT_EQ(line({outcome(Outcome::rejected)}), "Save{job 0: tier local-disk, step 0}");
  EXPECT_TRUE(decide({outcome(Outcome::applied)}).empty());
  EXPECT_TRUE(decide({SaveDone{{0}, 7, Tier::local_disk}}).empty()) << "an earlier checkpoint";
  world_.apply(StepsDone{{0}, 7, 1}, 0);
  EXPECT_EQ(line({SaveDone{{0}, 8, Tier::local_disk, 1, 40}}), "Assign{job 0: nothing, step 0}");
  EXPECT_TRUE(decide({outcome(Outcome::applied), JobStopped{{0}, 8}}).empty());
  EXPECT_TRUE(decide({lost(kGpu3)}).empty());
  EXPECT_EQ(line({PartChanged{kGpu3, {}}}),
            "Assign{job 0: gpus 0-3 layout tensor 1 context 1 pipeline 1 data 4 state checkpoint, "
            "step 0}");
}

TEST_F(PlannedMovesTest, AJobWorksOnUntilShortlyBeforeTheRemoval) {
  order_save();
  now_ = 8;
  // The removal is at 90 ns: before it are 8 + 2 ns of the checkpoint and two steps of 3 ns.
  EXPECT_TRUE(decide({StepsDone{{0}, 9, 2, 6}, SaveDone{{0}, 8, Tier::local_disk, 1, 8}}).empty());
  EXPECT_EQ(wakes_, std::vector<Nanos>{74});
  now_ = 30;
  EXPECT_TRUE(decide({announced({PartKind::gpu, 2})}).empty()) << "it waits";
  std::string bytes;
  ByteWriter write(bytes);
  moves_.save_to(write);
  moves_ = {};
  ByteReader read(bytes);
  moves_.load_from(read);
  now_ = 74;
  EXPECT_EQ(line({}), "Save{job 0: tier local-disk, step 0}");
  EXPECT_TRUE(decide({outcome(Outcome::applied)}).empty());
  now_ = 85;
  EXPECT_EQ(line({StepsDone{{0}, 11, 2, 6}, SaveDone{{0}, 11, Tier::local_disk, 1, 8}}),
            "Assign{job 0: nothing, step 0}");
}

TEST_F(PlannedMovesTest, ARemovalThatIsTakenBackEndsTheWait) {
  order_save();
  now_ = 8;
  decide({SaveDone{{0}, 8, Tier::local_disk}});
  EXPECT_TRUE(decide({PartChanged{kGpu3, {}}}).empty());
  now_ = 84;
  EXPECT_TRUE(decide({}).empty());
}

TEST_F(PlannedMovesTest, AFailedCheckpointIsRepeated) {
  order_save();
  EXPECT_EQ(line({SaveDone{{0}, 8, Tier::local_disk, 0, 0, false}}),
            "Save{job 0: tier local-disk, step 0}");
}

TEST_F(PlannedMovesTest, AJobWithAPendingAssignmentMovesOnceItHasStarted) {
  world_.announce_decision(
      {.id = 100, .what = Assign{{0}, toy::gpus(0, 3), {.data = 3}, StateFrom::peer}});
  world_.apply(Decided{100, Outcome::applied, ""}, 1);
  EXPECT_TRUE(decide({announced({PartKind::gpu, 1})}).empty());
  EXPECT_EQ(line({started(toy::standing(0, 3))}),
            "Assign{job 0: gpus 0 2-3 layout tensor 1 context 1 pipeline 1 data 3 state peer, "
            "step 0}");
}

TEST_F(PlannedMovesTest, AJobWithLostRanksIsLeftToItsRecovery) {
  world_.apply(RanksLost{{0}, {{1}}, {2}}, 1);
  EXPECT_TRUE(decide({announced(kGpu3)}).empty());
  EXPECT_EQ(decide({started(toy::standing(0, 4))}).size(), 1u);
}

TEST_F(PlannedMovesTest, ASavedStateContinues) {
  take(4, 4);
  decide({announced(kGpu3)});
  std::string bytes;
  ByteWriter write(bytes);
  moves_.save_to(write);
  PlannedMoves other;
  ByteReader read(bytes);
  other.load_from(read);
  EXPECT_TRUE(read.is_at_end());
  moves_ = other;
  decide({outcome(Outcome::applied), started(toy::standing(0, 3))});
  EXPECT_EQ(decide({PartChanged{kGpu3, {}}}).size(), 1u) << "it knows the size of the job";
}

TEST_F(PlannedMovesTest, StatesOfEarlierVersionsAreConverted) {
  take(4, 4);
  decide({announced(kGpu3)});
  std::string bytes, away;
  ByteWriter write(bytes), write_away(away);
  moves_.save_to(write);
  AwayParts parts;
  parts.read_changes(toy::seen_of(world_, {}, samples_, 5));
  parts.save_to(write_away);
  ASSERT_TRUE(bytes.starts_with(away));
  std::string first = bytes.substr(0, bytes.size() - 3 * sizeof(Nanos)) + "owner";  // no instants
  std::string old = first.substr(away.size());
  EXPECT_FALSE(convert_planned_moves(first, kPlannedMovesVersion));
  ASSERT_TRUE(convert_planned_moves(first, 1));
  EXPECT_EQ(first, bytes + "owner");
  ASSERT_TRUE(convert_planned_moves(old, 0));
  ByteReader read(old);
  moves_ = {};
  moves_.load_from(read);
  EXPECT_EQ(read.rest(), "owner");
  decide({outcome(Outcome::applied), started(toy::standing(0, 3))});
  EXPECT_EQ(decide({PartChanged{kGpu3, {}}}).size(), 1u) << "it knows the size of the job";
}

TEST_F(PlannedMovesTest, AModelParallelReplicaKeepsItsNode) {
  JobSpec spec = toy::job(1);
  spec.layout = {.tensor = 2, .data = 2};
  spec.least_gpus = 2;
  toy::run_on(world_, spec, 4);
  world_.apply(JobDone{{0}, Ending::completed}, 1);
  world_.begin_batch();
  EXPECT_EQ(line({announced({PartKind::gpu, 5})}),
            "Assign{job 1: gpus 0-1 6-7 layout tensor 2 context 1 pipeline 1 data 2 state peer, "
            "step 0}");
}

}  // namespace
}  // namespace orrery

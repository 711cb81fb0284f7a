#include "policies/handover/shadow_score.hpp"

#include <gtest/gtest.h>

#include "tests/policies/toy.hpp"

namespace orrery {
namespace {

/// A job of four replicas, ten micro-batches each, whose steps end when the test says so.
class Stage {
 public:
  Stage() { toy::run_on(world_, toy::job()); }

  /// Ranks report their micro-batch times, then the step ends.
  void step(ShadowScore& score, const std::vector<double>& times, double measured_s) {
    show(score, {}, times);
    const StepsDone done{{0}, world_.jobs()[{0}].step, 1, to_nanos(measured_s)};
    world_.apply(done, 0);
    show(score, {done}, {});
  }
  void end_job(ShadowScore& score) {
    const JobDone done{{0}};
    world_.apply(done, 0);
    show(score, {done}, {});
  }
  void propose(ShadowScore& score, std::uint64_t id, std::vector<std::uint32_t> shares,
               Step from = 0) {
    propose(score, id, Configure{{0}, Shares{std::move(shares)}}, from);
  }
  void propose(ShadowScore& score, std::uint64_t id, Action what, Step from = 0) {
    samples_.clear();
    score.add_proposal({.id = id, .what = std::move(what), .at_step = from}, seen({}));
  }

 private:
  Observation seen(std::span<const Event> events) {
    return toy::seen_of(world_, events, samples_);
  }
  void show(ShadowScore& score, const std::vector<Event>& events,
            const std::vector<double>& times) {
    samples_.clear();
    samples_.of_ranks.resize(times.size());
    for (std::uint32_t i = 0; i < times.size(); ++i) {
      samples_.of_ranks[i].rank = {i};
      samples_.of_ranks[i].micro_batch_time = {times[i], 0, Origin::measured};
    }
    score.add_observation(seen(events));
  }

  const Cluster cluster_ = toy::cluster();
  World world_{cluster_};
  toy::HandMade samples_;
};

ShadowSummary summary_of(const ShadowScore& score) {
  ShadowSummary summary;
  score.fill(summary);
  return summary;
}

TEST(ShadowScore, ComparesTheLatestReplicaAsItWasAndAsDecided) {
  Stage stage;
  ShadowScore score;
  stage.step(score, {1, 1, 3, 1}, 30.5);
  stage.propose(score, 0, {12, 12, 4, 12}, 2);
  stage.step(score, {1, 1, 3, 1}, 30.5);  // step 1: before the decision holds
  EXPECT_EQ(summary_of(score).steps(), 0u);
  stage.step(score, {1, 1, 3, 1}, 30.5);
  stage.step(score, {1, 1, 1, 1}, 10.5);  // the straggler recovers: now the decision would harm
  const ShadowSummary summary = summary_of(score);
  EXPECT_EQ(summary.scored(), 1u);
  EXPECT_EQ(summary.steps(), 2u);
  EXPECT_DOUBLE_EQ(summary.as_it_was_s(), 30 + 10);
  EXPECT_DOUBLE_EQ(summary.as_decided_s(), 12 + 12);
  EXPECT_DOUBLE_EQ(summary.measured_s(), 41);
  EXPECT_EQ(summary.better(), 1u);
}

TEST(ShadowScore, ALaterDecisionTakesThePlaceOfAnEarlierOne) {
  Stage stage;
  ShadowScore score;
  stage.step(score, {1, 1, 3, 1}, 30);
  stage.propose(score, 0, {12, 12, 4, 12}, 2);
  stage.propose(score, 1, {1, 1, 37, 1}, 3);
  stage.step(score, {1, 1, 3, 1}, 30);
  stage.step(score, {1, 1, 3, 1}, 30);  // step 2, under the first
  stage.step(score, {1, 1, 3, 1}, 30);  // step 3, under the second
  const ShadowSummary summary = summary_of(score);
  ASSERT_EQ(summary.decisions_size(), 2);
  EXPECT_DOUBLE_EQ(summary.decisions(0).as_decided_s(), 12);
  EXPECT_DOUBLE_EQ(summary.decisions(1).as_decided_s(), 111);
  EXPECT_EQ(summary.better(), 1u);
  EXPECT_EQ(summary.worse(), 1u);
}

TEST(ShadowScore, WhatHasNoScoreIsCounted) {
  Stage stage;
  ShadowScore score;
  stage.propose(score, 0, Action{Save{{0}}});
  stage.propose(score, 1, {40}, 0);                // not a division of this job
  stage.propose(score, 2, {10, 10, 10, 10}, 100);  // no such step came
  stage.step(score, {0, 1, 1, 1}, 10);
  EXPECT_EQ(summary_of(score).scored(), 0u);
  EXPECT_EQ(summary_of(score).not_scored(), 3u);
}

TEST(ShadowScore, AJobThatHasEndedTakesNoMemory) {
  Stage stage;
  ShadowScore score;
  stage.step(score, {1, 1, 3, 1}, 30);
  stage.propose(score, 0, {12, 12, 4, 12}, 1);
  stage.propose(score, 1, {10, 10, 10, 10}, 100);
  stage.step(score, {1, 1, 3, 1}, 30);
  const auto saved = [&score] {
    std::string bytes;
    ByteWriter write(bytes);
    score.save(write);
    return bytes;
  };
  const std::string before = saved();
  const std::string summary = summary_of(score).SerializeAsString();
  stage.end_job(score);
  stage.propose(score, 2, {12, 12, 4, 12});  // The job is over: this one only counts.
  EXPECT_LT(saved().size() + 60, before.size());
  const ShadowSummary after = summary_of(score);
  EXPECT_EQ(after.scored(), 1u);
  EXPECT_EQ(after.not_scored(), 2u);
  EXPECT_NE(after.SerializeAsString(), summary);
}

TEST(ShadowScore, AnUnknownSpeedGivesNoScore) {
  Stage stage;
  ShadowScore score;
  stage.propose(score, 0, {12, 12, 4, 12}, 1);
  stage.step(score, {}, 10);
  stage.step(score, {}, 10);
  EXPECT_EQ(summary_of(score).steps(), 0u);
}

}  // namespace
}  // namespace orrery

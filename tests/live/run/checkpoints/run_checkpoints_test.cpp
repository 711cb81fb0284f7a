#include "live/run/checkpoints/run_checkpoints.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "live/checkpoint/archive.hpp"
#include "live/checkpoint/spread_store.hpp"
#include "tests/traces/sample_cluster.hpp"
#include "traces/workload/model.hpp"

namespace orrery::live {
namespace {

class RunCheckpointsTest : public ::testing::Test {
 protected:
  RunCheckpointsTest() {
    Scenario& scenario = *request_.mutable_scenario();
    Job& job = *scenario.mutable_job();
    job.mutable_model()->set_builtin("language-model");
    job.set_sequence_length(32);
    job.set_micro_batch(1);
    job.set_global_batch(4);
    scenario.mutable_run()->set_steps(10);
    scenario.mutable_run()->set_seed(1);
    scenario.mutable_live()->set_learning_rate(0.003);
    Checkpoints& checkpoints = *scenario.mutable_checkpoints();
    checkpoints.set_folder(path_);
    checkpoints.set_every(4);
    checkpoints.set_keep(2);
    std::filesystem::remove_all(path_);
  }
  ~RunCheckpointsTest() override {
    std::filesystem::remove_all(path_);
    std::filesystem::remove_all(path_ + ".memory");
  }

  /// Reports a checkpoint that all ranks have written, to disk or to the memory of `holders`.
  void write(RunCheckpoints& checkpoints, Step step, std::uint64_t attempt,
             const std::string& memory = {}, const std::vector<ShardHolders>& holders = {}) {
    for (std::uint32_t index = 0; index < 2; ++index) {
      std::unique_ptr<Store> store;
      if (holders.empty()) {
        store = FolderStore::open(path_);
      } else {
        std::vector<std::string> folders{SpreadStore::node_folder({holders[index].node()})};
        if (holders[index].peer() != holders[index].node()) {
          folders.push_back(SpreadStore::node_folder({holders[index].peer()}));
        }
        store = std::make_unique<SpreadStore>(memory, folders);
      }
      const ShardHeader header{.id = {training_name(request_.scenario(), text_), step, attempt},
                               .index = index,
                               .count = 2,
                               .total = builtin_parameter_count()};
      const std::vector<float> values(header.range().size(), static_cast<float>(step));
      const TrainingState part{
          .optimizer_steps = step, .parameters = values, .mean = values, .square = values};
      const Seal seal = CheckpointArchive(*store).write_shard(header, encode_shard(header, part));
      ShardWritten said;
      said.set_attempt(attempt);
      said.set_index(index);
      said.set_size(seal.size);
      said.set_sha256(seal.sha256);
      checkpoints.record_shard(said);
    }
  }

  static std::vector<Step> wait(RunCheckpoints& checkpoints) {
    std::vector<Step> steps;
    for (int i = 0; i < 1000 && !checkpoints.is_idle(); ++i) {
      for (const RunCheckpoints::Outcome& each : checkpoints.drain_outcomes()) {
        if (each.whole) steps.push_back(each.step);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_TRUE(checkpoints.is_idle());
    return steps;
  }

  /// A checkpoint of step 4, as a run writes it.
  void run_to_step_4() {
    RunCheckpoints checkpoints(request_, text_);
    checkpoints.open();
    const std::uint64_t attempt = checkpoints.plan(3, {0, 1});
    checkpoints.on_commit();
    write(checkpoints, 4, attempt);
    EXPECT_EQ(wait(checkpoints), std::vector<Step>{4});
  }

  /// Writes a checkpoint of the tier by the ranks of two nodes, and returns the steps that are
  /// complete. `lost`: a node that is lost before the outcome is known; of the tier memory before a
  /// shard is written.
  std::vector<Step> save(RunCheckpoints& checkpoints, Step step, Tier tier,
                         std::optional<NodeId> lost = {}) {
    checkpoints.request_checkpoint(tier);
    const std::uint64_t attempt = checkpoints.plan(step - 1, ranks());
    EXPECT_EQ(checkpoints.planned_tier(), tier);
    StepPlan plan;
    checkpoints.fill(plan);
    checkpoints.on_commit();
    if (lost && tier == Tier::memory) {  // no shard is written yet
      checkpoints.record_lost_node(*lost);
      return wait(checkpoints);
    }
    write(checkpoints, step, attempt, plan.folder(),
          {plan.holders().begin(), plan.holders().end()});
    if (lost) checkpoints.record_lost_node(*lost);
    return wait(checkpoints);
  }
  /// One rank of each node.
  std::vector<std::uint32_t> ranks() const { return {0, cluster_.shape().gpus_per_node}; }
  CheckpointMemory memory() const { return {&cluster_, path_ + ".memory"}; }

  /// Adds the commit of a step to the journal, with the attempt that follows.
  static void commit(Past& past, Step step, std::uint64_t attempt) {
    past.core.committed = step;
    JournalRecord record;
    record.mutable_commit()->set_step(step);
    record.mutable_commit()->set_checkpoint(attempt);
    record.mutable_commit()->set_tier(TIER_LOCAL_DISK);
    EXPECT_EQ(apply(past, record, {.keep = 2}), std::nullopt);
  }
  /// Adds an observation with the outcome of a checkpoint to the journal.
  static void show(Past& past, Step step, bool durable) {
    JournalRecord record;
    SaveDoneRecord& told =
        *record.mutable_seen()->mutable_observation()->add_events()->mutable_save_done();
    told.set_step(step);
    told.set_tier(TIER_LOCAL_DISK);
    told.set_durable(durable);
    EXPECT_EQ(apply(past, record, {.keep = 2}), std::nullopt);
  }

  void expect_refused(const std::string& expected) {
    try {
      const RunCheckpoints checkpoints(request_, text_);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::bad_input);
      EXPECT_NE(error.message().find(expected), std::string::npos) << error.message();
    }
  }

  const std::string path_ =
      ::testing::TempDir() + "orrery_run_checkpoints." + std::to_string(getpid());
  const Text text_{std::vector<std::uint8_t>(2000, 'a')};
  const Cluster cluster_ = orrery::testing::sample_cluster(2);
  RunRequest request_;
};

TEST_F(RunCheckpointsTest, ACheckpointInMemoryIsLostWithItsNode) {
  RunCheckpoints checkpoints(request_, text_, {}, memory());
  checkpoints.open();
  EXPECT_TRUE(checkpoints.has_tier(Tier::peer));
  EXPECT_EQ(save(checkpoints, 4, Tier::local_disk), std::vector<Step>{4});
  EXPECT_EQ(save(checkpoints, 6, Tier::memory), std::vector<Step>{6});
  EXPECT_EQ(checkpoints.roll_back_to(6).step(), 6u);
  checkpoints.record_lost_node({1});
  checkpoints.record_lost_node({1});
  const Resumption from = checkpoints.roll_back_to(6);
  EXPECT_EQ(from.step(), 4u);
  EXPECT_FALSE(from.in_memory());
  Report report;
  checkpoints.fill(report);
  EXPECT_EQ(report.warnings_size(), 0) << "nothing is damaged";
}

TEST_F(RunCheckpointsTest, ACheckpointWithAPeerSurvivesANode) {
  RunCheckpoints checkpoints(request_, text_, {}, memory());
  checkpoints.open();
  EXPECT_EQ(save(checkpoints, 5, Tier::peer), std::vector<Step>{5});
  checkpoints.record_lost_node({0});
  const Resumption from = checkpoints.roll_back_to(5);
  EXPECT_EQ(from.step(), 5u);
  EXPECT_TRUE(from.in_memory());
  Assignment assignment;
  *assignment.mutable_scenario() = request_.scenario();
  checkpoints.fill(assignment);
  *assignment.mutable_resume() = from;
  EXPECT_EQ(load_checkpoint(assignment).parameters[0], 5.0f);
  checkpoints.record_lost_node({1});
  EXPECT_EQ(checkpoints.roll_back_to(5).step(), 0u);
}

TEST_F(RunCheckpointsTest, AHolderThatIsLostMeanwhileMakesTheAttemptIncomplete) {
  RunCheckpoints checkpoints(request_, text_, {}, memory());
  checkpoints.open();
  for (const Tier tier : {Tier::memory, Tier::peer}) {
    EXPECT_TRUE(save(checkpoints, 6, tier, NodeId{1}).empty());
  }
  EXPECT_EQ(checkpoints.failed_count(), 2u);
  EXPECT_EQ(checkpoints.missing(), "") << "the end of the run does not depend on it";
}

TEST_F(RunCheckpointsTest, WithoutMemoryThereIsTheDisk) {
  RunCheckpoints checkpoints(request_, text_);
  checkpoints.open();
  EXPECT_TRUE(checkpoints.has_tier(Tier::local_disk));
  EXPECT_FALSE(checkpoints.has_tier(Tier::memory));
}

TEST_F(RunCheckpointsTest, ARollbackPassesOverDamagedCheckpointsAndNamesFileAndRank) {
  for (const int damaged : {0, 1, 2}) {
    std::filesystem::remove_all(path_);
    RunCheckpoints checkpoints(request_, text_);
    checkpoints.open();
    for (const Step step : {4, 8}) {
      const std::uint64_t attempt = checkpoints.plan(step - 1, {0, 1});
      checkpoints.on_commit();
      write(checkpoints, step, attempt);
      ASSERT_EQ(wait(checkpoints), std::vector<Step>{step});
    }
    for (const auto& file : std::filesystem::directory_iterator(path_)) {
      const std::string name = file.path().filename();
      const bool newest = name.starts_with("step-000000000008");
      if (!name.ends_with("shard-1-of-2") || damaged < (newest ? 1 : 2)) continue;
      std::fstream shard(file.path(), std::ios::in | std::ios::out | std::ios::binary);
      shard.seekp(300);
      shard.put('x');
    }
    const Resumption from = checkpoints.roll_back_to(8);
    EXPECT_EQ(from.step(), damaged == 0 ? 8u : damaged == 1 ? 4u : 0u);
    EXPECT_EQ(from.attempt() == 0, damaged == 2);
    Report report;
    checkpoints.fill(report);
    ASSERT_EQ(report.warnings_size(), damaged);
    for (const std::string& warning : report.warnings()) {
      EXPECT_NE(warning.find("shard-1-of-2 (shard of rank 1 of 2)"), std::string::npos) << warning;
    }
  }
}

TEST_F(RunCheckpointsTest, ATrainingIsItsModelDataAndSeedNotItsRanksOrLength) {
  const std::string name = training_name(request_.scenario(), text_);
  Scenario same = request_.scenario();
  same.mutable_run()->set_steps(1000);
  same.mutable_job()->mutable_layout()->set_data(7);
  same.mutable_job()->mutable_pace()->set_micro_batch(1);
  EXPECT_EQ(training_name(same, text_), name);
  const std::vector<std::function<void(Scenario&)>> changes{
      [](Scenario& other) { other.mutable_run()->set_seed(2); },
      [](Scenario& other) { other.mutable_live()->set_learning_rate(0.004); },
      [](Scenario& other) { other.mutable_job()->set_global_batch(8); },
      [](Scenario& other) { other.mutable_job()->set_sequence_length(33); },
      [](Scenario& other) { other.mutable_job()->mutable_model()->set_builtin("transformer"); }};
  for (const auto& change : changes) {
    Scenario other = request_.scenario();
    change(other);
    EXPECT_NE(training_name(other, text_), name);
  }
  EXPECT_NE(training_name(same, Text(std::vector<std::uint8_t>(2000, 'b'))), name);
}

TEST_F(RunCheckpointsTest, EveryFewStepsOneIsPlanned) {
  RunCheckpoints checkpoints(request_, text_);
  EXPECT_EQ(checkpoints.plan(3, {0, 1}), 0u) << "not before open()";
  checkpoints.open();
  for (Step step = 0; step < 12; ++step) {
    EXPECT_EQ(checkpoints.plan(step, {0, 1}) != 0, step % 4 == 3) << step;
  }
}

TEST_F(RunCheckpointsTest, ARunGoesOnFromTheNewestWholeOne) {
  run_to_step_4();
  request_.set_resume_from(path_);
  const RunCheckpoints checkpoints(request_, text_);
  EXPECT_EQ(checkpoints.first_step(), 4u);
  Assignment assignment;
  *assignment.mutable_scenario() = request_.scenario();
  checkpoints.fill(assignment);
  EXPECT_EQ(assignment.resume().step(), 4u);
  const TrainingState state = load_checkpoint(assignment);
  EXPECT_EQ(state.optimizer_steps, 4u);
  EXPECT_EQ(state.square, std::vector<float>(builtin_parameter_count(), 4.0F));
}

TEST_F(RunCheckpointsTest, ARunThatCannotGoOnIsRefused) {
  request_.set_resume_from(path_);
  expect_refused("cannot open the folder");
  std::filesystem::create_directory(path_);
  expect_refused("found none");
  request_.clear_resume_from();
  run_to_step_4();
  request_.set_resume_from(path_);
  request_.mutable_scenario()->mutable_run()->set_steps(4);
  expect_refused("increase run.steps");
  request_.mutable_scenario()->mutable_run()->set_seed(2);
  expect_refused("found none");
}

TEST_F(RunCheckpointsTest, WhatFailsIsCountedAndSaid) {
  RunCheckpoints checkpoints(request_, text_);
  checkpoints.open();
  std::uint64_t attempt = checkpoints.plan(3, {0, 1});
  checkpoints.on_commit();
  ShardWritten said;
  said.set_attempt(attempt);
  said.set_index(1);
  said.set_failure("File too large");
  checkpoints.record_shard(said);
  EXPECT_TRUE(wait(checkpoints).empty());
  attempt = checkpoints.plan(7, {0, 2});
  checkpoints.on_commit();
  EXPECT_TRUE(checkpoints.waits_for_rank(0) && checkpoints.waits_for_rank(2));
  EXPECT_FALSE(checkpoints.waits_for_rank(1));
  checkpoints.record_lost_rank(1);  // it takes no part
  EXPECT_FALSE(checkpoints.is_idle());
  checkpoints.record_lost_rank(2);
  EXPECT_FALSE(checkpoints.waits_for_rank(0));
  EXPECT_TRUE(wait(checkpoints).empty());
  attempt = checkpoints.plan(11, {0, 2});
  checkpoints.on_commit();
  write(checkpoints, 12, attempt);
  EXPECT_EQ(wait(checkpoints), std::vector<Step>{12});
  Report report;
  checkpoints.fill(report);
  EXPECT_EQ(report.checkpoints_written(), 1u);
  EXPECT_EQ(report.checkpoints_failed(), 2u);
  EXPECT_GT(report.checkpoint_bytes(), 12.0 * builtin_parameter_count());
  ASSERT_EQ(report.warnings_size(), 2);
  EXPECT_NE(report.warnings(0).find("File too large"), std::string::npos);
}

TEST_F(RunCheckpointsTest, ANewControllerGoesOnWithWhatTheEarlierOneHasWritten) {
  Past past;
  {
    RunCheckpoints checkpoints(request_, text_);
    checkpoints.open();
    for (const Step step : {3u, 7u, 11u}) {
      const std::uint64_t attempt = checkpoints.plan(step, {0, 1});
      EXPECT_EQ(checkpoints.planned(), attempt);
      commit(past, step, attempt);
      checkpoints.on_commit();
      EXPECT_EQ(checkpoints.planned(), 0u);
      if (step == 11) continue;  // the controller dies
      write(checkpoints, step + 1, attempt);
      wait(checkpoints);
    }
    show(past, 4, true);
  }
  RunCheckpoints checkpoints(request_, text_, past);
  EXPECT_EQ(checkpoints.first_step(), 0u);
  checkpoints.open();
  EXPECT_EQ(wait(checkpoints), std::vector<Step>{8}) << "of step 4 the policies have heard";
  const std::uint64_t attempt = checkpoints.plan(15, {0, 1});
  checkpoints.on_commit();
  write(checkpoints, 16, attempt);
  EXPECT_EQ(wait(checkpoints), std::vector<Step>{16});
  Report report;
  checkpoints.fill(report);
  EXPECT_EQ(report.checkpoints_written(), 3u);
  EXPECT_EQ(report.checkpoints_failed(), 1u);
  const auto store = FolderStore::open(path_);
  std::vector<Step> kept;
  CheckpointArchive archive(*store);
  for (const CheckpointId& id :
       archive.committed_attempts(training_name(request_.scenario(), text_))) {
    kept.push_back(id.step);
  }
  EXPECT_EQ(kept, (std::vector<Step>{8, 16})) << "two are kept";
}

TEST_F(RunCheckpointsTest, ANewControllerRepeatsAFailureThatWasShownAtTheEndAlone) {
  Past past;
  {
    RunCheckpoints checkpoints(request_, text_);
    checkpoints.open();
    commit(past, 3, checkpoints.plan(3, {0, 1}));
    checkpoints.on_commit();
    checkpoints.record_lost_rank(1);
    EXPECT_TRUE(wait(checkpoints).empty());
    EXPECT_EQ(checkpoints.failed_count(), 1u);
    show(past, 4, false);
  }
  RunCheckpoints checkpoints(request_, text_, past);
  checkpoints.open();
  std::size_t told = 0;
  for (int i = 0; i < 1000 && !checkpoints.is_idle(); ++i) {
    told += checkpoints.drain_outcomes().size();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(told, 0u) << "the policies know it";
  EXPECT_EQ(checkpoints.failed_count(), 1u);
  EXPECT_NE(checkpoints.missing().find("step 4"), std::string::npos) << checkpoints.missing();
  const std::uint64_t retry = checkpoints.retry_checkpoint(4, {0, 1});
  ASSERT_NE(retry, 0u);
  write(checkpoints, 4, retry);
  EXPECT_EQ(wait(checkpoints), std::vector<Step>{4});
  EXPECT_EQ(checkpoints.missing(), "");
}

TEST_F(RunCheckpointsTest, ANewControllerDoesNotLookForACheckpointAgain) {
  request_.set_resume_from(path_);  // no such folder any more
  Past past;
  past.resumed.emplace().set_step(6);
  past.resumed->set_attempt(77);
  const RunCheckpoints checkpoints(request_, text_, past);
  EXPECT_EQ(checkpoints.first_step(), 6u);
  Assignment assignment;
  checkpoints.fill(assignment);
  EXPECT_EQ(assignment.resume().attempt(), 77u);
}

}  // namespace
}  // namespace orrery::live

#include "policies/seam/fabric_rules.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/schema/yaml_loader.hpp"
#include "traces/scenario/scenario.hpp"

namespace orrery {
namespace {

using ::testing::HasSubstr;

Scenario built_in(const std::string& fabric = "grpc") {
  Scenario scenario;
  scenario.mutable_job()->set_micro_batch(2);
  scenario.mutable_job()->set_global_batch(80);
  scenario.mutable_job()->mutable_pace()->set_micro_batch(1'000'000);
  scenario.mutable_job()->mutable_model()->set_builtin("language-model");
  scenario.mutable_job()->mutable_layout()->set_data(4);
  scenario.mutable_live()->set_fabric(fabric);
  return scenario;
}

Decision decision(Action what) { return {.what = std::move(what)}; }

TEST(FabricRules, AModelThatNobodyTrainsHereIsBoundByNone) {
  const Scenario scenario =
      load_scenario(ORRERY_SOURCE_DIR "/examples/llama3-70b-512-h100.yaml", {}).scenario;
  const CollectiveTable nvls{{.kind = CollectiveKind::all_reduce,
                              .algorithm = CollectiveAlgorithm::nvls}};
  EXPECT_EQ(fabric_refusal(scenario, decision(Configure{{0}, nvls})), "");
  const Assign anywhere{{0}, {{9}}, {.data = 8}, StateFrom::checkpoint};
  EXPECT_EQ(fabric_refusal(scenario, decision(anywhere)), "");
}

TEST(FabricRules, RanksOnCpusSumByWhatTheyHave) {
  const CollectiveTable nvls{{.kind = CollectiveKind::all_reduce,
                              .algorithm = CollectiveAlgorithm::nvls}};
  const CollectiveTable tree{{.kind = CollectiveKind::all_reduce,
                              .algorithm = CollectiveAlgorithm::tree}};
  EXPECT_THAT(fabric_refusal(built_in(), decision(Configure{{0}, nvls})), HasSubstr("ring, tree"));
  EXPECT_EQ(fabric_refusal(built_in(), decision(Configure{{0}, tree})), "");
  EXPECT_EQ(fabric_refusal(built_in("nccl"), decision(Configure{{0}, nvls})), "");
}

TEST(FabricRules, ATableHoldsForCollectivesThatTheJobCalls) {
  const auto refusal = [](const Scenario& scenario, CollectiveKind kind,
                          CollectiveAlgorithm algorithm = CollectiveAlgorithm::ring) {
    const CollectiveTable table{{.kind = kind, .algorithm = algorithm}};
    return fabric_refusal(scenario, decision(Configure{{0}, table}));
  };
  using enum CollectiveKind;
  Scenario scenario = built_in();
  EXPECT_THAT(refusal(scenario, all_to_all), HasSubstr("calls no all-to-all"));
  EXPECT_THAT(refusal(scenario, reduce_scatter), HasSubstr("calls no reduce-scatter"));
  EXPECT_EQ(refusal(scenario, reduce_scatter, CollectiveAlgorithm::automatic), "");
  EXPECT_EQ(refusal(scenario, all_reduce), "");
  Layout& layout = *scenario.mutable_job()->mutable_layout();
  layout.set_shard("optimizer");
  EXPECT_EQ(refusal(scenario, reduce_scatter), "");
  EXPECT_EQ(refusal(scenario, all_gather), "");
  layout.set_expert(4);
  EXPECT_EQ(refusal(scenario, all_to_all), "");
}

TEST(FabricRules, CodesNeedSumsThatMayDifferAndGradientsThatAreWhole) {
  const CodecRules int8{{.codec = Codec::int8}};
  Scenario scenario = built_in();
  EXPECT_EQ(fabric_refusal(scenario, decision(Configure{{0}, int8})), "");
  scenario.mutable_live()->set_reproducible(true);
  EXPECT_THAT(fabric_refusal(scenario, decision(Configure{{0}, int8})), HasSubstr("reproducible"));
  EXPECT_EQ(fabric_refusal(scenario, decision(Configure{{0}, CodecRules{}})), "");
  scenario.mutable_live()->set_reproducible(false);
  scenario.mutable_job()->mutable_layout()->set_shard("optimizer");
  EXPECT_THAT(fabric_refusal(scenario, decision(Configure{{0}, int8})), HasSubstr("sharded"));
  EXPECT_THAT(fabric_refusal(built_in("nccl"), decision(Configure{{0}, int8})), HasSubstr("NCCL"));
}

TEST(FabricRules, RanksHaveAscendingGpusAndAState) {
  const Scenario scenario = built_in();
  EXPECT_EQ(fabric_refusal(scenario, decision(Assign{{0}, {{0}, {2}, {3}}, {}, StateFrom::peer})),
            "");
  EXPECT_EQ(fabric_refusal(scenario, decision(Assign{{0}, {{0}, {7}}, {}, StateFrom::peer})), "")
      << "a spare";
  EXPECT_THAT(fabric_refusal(scenario, decision(Assign{{0}, {{2}, {0}}, {}, StateFrom::peer})),
              HasSubstr("order"));
  const Decision restores = decision(Assign{{0}, {{0}}, {}, StateFrom::checkpoint});
  const Decision begins = decision(Assign{{0}, {{0}}, {}, StateFrom::none});
  EXPECT_EQ(fabric_refusal(scenario, restores), "");
  EXPECT_THAT(fabric_refusal(scenario, begins), HasSubstr("release its GPUs first"));
  EXPECT_EQ(fabric_refusal(scenario, begins, false), "") << "it waits for GPUs";
  EXPECT_EQ(fabric_refusal(scenario, decision(Assign{{0}})), "") << "it leaves";
}

TEST(FabricRules, CheckpointsNeedAFolder) {
  Scenario scenario = built_in();
  EXPECT_FALSE(settable(scenario).has<CheckpointPlan>());
  EXPECT_THAT(fabric_refusal(scenario, decision(Save{{0}, Tier::local_disk})), HasSubstr("folder"));
  scenario.mutable_checkpoints()->set_folder("somewhere");
  EXPECT_TRUE(settable(scenario).has<CheckpointPlan>());
  EXPECT_EQ(fabric_refusal(scenario, decision(Save{{0}, Tier::local_disk})), "");
  EXPECT_THAT(fabric_refusal(scenario, decision(Save{{0}, Tier::storage})),
              HasSubstr("checkpoints.storage"));
}

TEST(FabricRules, ReadersNeedDataThatASimulatedJobReads) {
  Scenario scenario = built_in();
  scenario.mutable_job()->mutable_input()->set_read(1'000'000);
  EXPECT_FALSE(settable(scenario).has<Prefetch>()) << "live runs read none";
  scenario.mutable_job()->mutable_model()->clear_builtin();
  EXPECT_TRUE(settable(scenario).has<Prefetch>());
  scenario.mutable_job()->mutable_program()->set_trace("train");
  EXPECT_FALSE(settable(scenario).has<Prefetch>()) << "part of the recorded computation";
  scenario.mutable_job()->clear_program();
  scenario.mutable_job()->clear_input();
  EXPECT_FALSE(settable(scenario).has<Prefetch>());
}

TEST(FabricRules, StorageNeedsAFolderAndAPeerAnotherNode) {
  Scenario scenario = built_in();
  scenario.mutable_checkpoints()->set_folder("somewhere");
  scenario.mutable_cluster()->set_nodes(1);
  const Decision peer = decision(Configure{{0}, CheckpointPlan{10, Tier::peer}});
  EXPECT_EQ(fabric_refusal(scenario, decision(Save{{0}, Tier::memory})), "");
  EXPECT_THAT(fabric_refusal(scenario, peer), HasSubstr("2 nodes"));
  scenario.mutable_cluster()->set_nodes(2);
  EXPECT_EQ(fabric_refusal(scenario, peer), "");
  const Decision storage = decision(Configure{{0}, CheckpointPlan{10, Tier::storage}});
  EXPECT_THAT(fabric_refusal(scenario, storage), HasSubstr("checkpoints.storage"));
  scenario.mutable_checkpoints()->set_storage("elsewhere");
  EXPECT_EQ(fabric_refusal(scenario, storage), "");
}

TEST(FabricRules, OnlyAJobDescribedByItsModelChangesItsLayout) {
  EXPECT_FALSE(can_change_layout(built_in().job()));
  Job job;
  job.mutable_model()->set_layers(8);
  EXPECT_TRUE(can_change_layout(job));
  job.mutable_pace()->set_micro_batch(1'000'000);
  EXPECT_FALSE(can_change_layout(job)) << "the pace was declared for one pipeline depth";
  job.clear_pace();
  job.mutable_program();
  EXPECT_FALSE(can_change_layout(job)) << "the step was recorded";
}

TEST(FabricRules, AnotherLayoutMustFitTheModel) {
  Job job = built_in().job();
  const ParallelLayout deeper{.tensor = 1, .context = 1, .pipeline = 2, .data = 2};
  EXPECT_EQ(layout_of(with_layout(job, deeper).layout()), deeper);
  EXPECT_THAT(layout_objection(job, deeper), HasSubstr("job.layout.pipeline"));
  Model& model = *job.mutable_model();
  model.Clear();
  model.set_layers(4), model.set_hidden(512), model.set_heads(8), model.set_feed_forward(2048);
  model.set_kv_heads(8), model.set_vocabulary(1000);
  job.clear_pace();
  EXPECT_EQ(layout_objection(job, deeper), "");
  EXPECT_THAT(layout_objection(job, {.pipeline = 5, .data = 1}),
              HasSubstr("job.layout.pipeline: pipeline = 5 is more than the model's 4 layers"));
  EXPECT_THAT(layout_objection(job, {.tensor = 3, .data = 1}), HasSubstr("job.layout.tensor"));
}

TEST(FabricRules, ReplicasMustBeAJobThatCanBeRun) {
  Scenario scenario = built_in();
  Job& job = *scenario.mutable_job();
  job.set_global_batch(8);
  EXPECT_EQ(replicas_objection(job, 3), "");
  EXPECT_THAT(replicas_objection(job, 5), HasSubstr("job.global_batch"));
  EXPECT_THAT(fabric_refusal(scenario, decision(Assign{{0}, {{0}}, {.data = 5}})),
              HasSubstr("job.global_batch"));
}

TEST(FabricRules, AnElasticJobGrowsAsFarAsTheClusterAndItsBatchAllow) {
  Scenario scenario = built_in();
  Job& job = *scenario.mutable_job();
  fill_defaults(job);
  EXPECT_EQ(most_gpus(job, false, 16), 4u);
  EXPECT_EQ(most_gpus(job, true, 16), 16u);
  EXPECT_EQ(most_gpus(job, true, 100), 40u) << "eighty sequences in micro-batches of two";
  EXPECT_EQ(most_gpus(job, true, 3), 4u) << "never fewer than it begins with";
}

TEST(FabricRules, AReplicaHasMemoryForMaxShareTimesItsEvenShareAndForTheLargestEvenShare) {
  Scenario scenario;
  scenario.mutable_job()->set_max_share(1.5);
  EXPECT_EQ(max_micro_batches(scenario, 40, 4), 15u);
  EXPECT_EQ(max_micro_batches(scenario, 10, 4), 3u);
  scenario.mutable_job()->set_max_share(1);
  EXPECT_EQ(max_micro_batches(scenario, 10, 4), 3u);
}

TEST(FabricRules, LostRanksAreReplacedOnlyWhereNobodyDecides) {
  const Needs assigns{.actions = Kinds<Action>::of<Assign>(), .settings = {}};
  Scenario scenario = built_in();
  EXPECT_EQ(loss_response(scenario, {}, true).response, LossResponse::replace);
  EXPECT_EQ(loss_response(scenario, assigns, true).response, LossResponse::go_on);
  EXPECT_EQ(loss_response(scenario, assigns, false).response, LossResponse::replace)
      << "nothing that is decided is applied";
  scenario.mutable_survival()->set_on_loss("hold");
  EXPECT_EQ(loss_response(scenario, {}, true).response, LossResponse::hold);
}

}  // namespace
}  // namespace orrery

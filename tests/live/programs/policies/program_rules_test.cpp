#include "live/programs/policies/program_rules.hpp"

#include <gtest/gtest.h>

#include "policies/run/policy_bench.hpp"
#include "policies/seam/static_policy.hpp"

namespace orrery::live {
namespace {

const ProgramFeatures kPlain{.no_saves = "no trainer", .no_codes = "no buckets"};
const ProgramFeatures kWhole{.has_state = true, .is_whole = true, .has_saves = true, .every = 5};
const ProgramFeatures kShared{.share = 8};

/// Job with four ranks of which rank 2 is lost.
struct Loss {
  PolicyBench bench{1, 4};
  JobId id = bench.start_job(4);
  ProgramSituation now{
      .ranks = 4, .members = {0, 1, 3}, .can_restart = true, .replacements_left = 1};

  Loss() {
    StaticPolicy nobody;
    bench.observe(nobody, {bench.loss_of(id, {{2}})});
  }
  std::string refusal(const ProgramFeatures& features, Action what, Step at_step = 0) const {
    return program_refusal(features, now, bench.world().jobs()[id],
                           Decision{.what = std::move(what), .at_step = at_step});
  }
  Assign assign(const std::vector<std::uint32_t>& ranks, StateFrom state) const {
    Assign all{.job = id, .gpus = {}, .layout = {}, .state = state};
    for (const std::uint32_t rank : ranks) all.gpus.push_back({rank});
    all.layout.data = static_cast<std::uint32_t>(ranks.size());
    return all;
  }
};

TEST(ProgramRules, ThePartsOfAProgramAreItsCapabilities) {
  EXPECT_EQ(kPlain.capabilities().actions, Kinds<Action>::of<Assign>());
  EXPECT_TRUE(kWhole.capabilities().settings.has<CheckpointPlan>());
  EXPECT_FALSE(kWhole.capabilities().settings.has<Shares>());
  EXPECT_TRUE(kShared.capabilities().settings.has<Shares>());
  const ProgramFeatures features =
      features_of({"ready", "7", "sharded", "20", "0", "no sampler", "no DDP", "0", "0", "0", "0",
                   "no loader", "", "no NCCL", "0"});
  EXPECT_TRUE(features.has_state && features.has_saves);
  EXPECT_FALSE(features.is_whole);
  EXPECT_EQ(features.every, 20u);
  EXPECT_FALSE(common_features(kWhole, features).is_whole);
  EXPECT_EQ(common_features(kShared, kPlain).share, 0u);
  EXPECT_EQ(features.no_prefetch, "no loader");
}

TEST(ProgramRules, ReadersOfDataAreTheSameOnAllRanks) {
  const ProgramFeatures reads =
      features_of({"ready", "7", "", "0", "0", "", "", "2", "4", "8", "100", "", "", "", "0"});
  EXPECT_EQ(reads.prefetch, (Prefetch{2, 4}));
  EXPECT_TRUE(reads.capabilities().settings.has<Prefetch>());
  ProgramFeatures other = reads;
  other.most_prefetch = {6, 200};
  const JobSpec spec = program_job("train.py", 2, common_features(reads, other));
  EXPECT_EQ(spec.max_workers, 6u);
  EXPECT_EQ(spec.max_prefetch, 100u);
  EXPECT_EQ(std::get<Prefetch>(spec.settings.back()), (Prefetch{2, 4}));
  other.prefetch = {3, 6};
  const ProgramFeatures both = common_features(reads, other);
  EXPECT_FALSE(both.capabilities().settings.has<Prefetch>());
  const Needs needs{.actions = {}, .settings = Kinds<Setting>::of<Prefetch>()};
  EXPECT_EQ(missing_features(both, needs),
            "readers of data: the ranks read their data differently");
  EXPECT_EQ(prefetch_text({4, 8}), "prefetch 4 8");
}

TEST(ProgramRules, AMissingFeatureIsNamed) {
  const Needs plans{.actions = Kinds<Action>::of<Configure>(),
                    .settings = Kinds<Setting>::of<CheckpointPlan>()};
  EXPECT_EQ(missing_features(kWhole, plans), "");
  EXPECT_EQ(missing_features(kPlain, plans), "snapshots: no trainer");
  const Needs others{.actions = Kinds<Action>::of<Configure>(),
                     .settings = Kinds<Setting>::of<CodecRules, Batch, Shares>()};
  const ProgramFeatures no_shares{.no_shares = "BatchNorm", .no_codes = "no DDP"};
  EXPECT_EQ(
      missing_features(no_shares, others),
      "shares: BatchNorm; codes of gradients: no DDP; the setting Batch, which no program has");
}

TEST(ProgramRules, CodesNeedBucketsAndNoMatrix) {
  const Loss loss;
  const CodecRules int8{{.codec = Codec::int8, .parameter = 64}};
  EXPECT_EQ(loss.refusal(kWhole, Configure{loss.id, int8}), "");
  EXPECT_NE(loss.refusal(kPlain, Configure{loss.id, int8}).find("no buckets"), std::string::npos);
  const CodecRules factors{{.codec = Codec::power_sgd}};
  EXPECT_NE(loss.refusal(kWhole, Configure{loss.id, factors}).find("power_sgd"), std::string::npos);
  EXPECT_TRUE(kWhole.capabilities().settings.has<CodecRules>());
  EXPECT_FALSE(kPlain.capabilities().settings.has<CodecRules>());
  EXPECT_FALSE(common_features(kWhole, kPlain).capabilities().settings.has<CodecRules>());
  EXPECT_EQ(codec_text(int8), "codecs int8 64 1");
  EXPECT_EQ(codec_text({}), "codecs none 0 1");
}

TEST(ProgramRules, TheTierOfTheProgramDecidesAboutARecovery) {
  const Loss loss;
  const Assign survivors = loss.assign({0, 1, 3}, StateFrom::peer);
  const Assign all = loss.assign({0, 1, 2, 3}, StateFrom::peer);
  EXPECT_EQ(loss.refusal(kPlain, survivors), "");
  EXPECT_NE(loss.refusal(kPlain, all).find("calls orrery.torch.state()"), std::string::npos);
  EXPECT_EQ(loss.refusal(kWhole, all), "");
  EXPECT_NE(loss.refusal(kWhole, loss.assign({0, 1}, StateFrom::peer)), "");
  EXPECT_EQ(loss.refusal(kPlain, loss.assign({0, 1, 2, 3}, StateFrom::none)), "");
  EXPECT_NE(loss.refusal(kPlain, loss.assign({0, 1, 3}, StateFrom::none)), "");
  EXPECT_NE(loss.refusal(kWhole, Assign{.job = loss.id}), "");
}

TEST(ProgramRules, CheckpointsOfATrainerFollowAPlanAndReplaceNoRankOfAShardedModel) {
  const Loss loss;
  const ProgramFeatures own =
      features_of({"ready", "0", "own", "50", "0", "", "", "0", "0", "0", "0", "", "", "", "0"});
  EXPECT_EQ(loss.refusal(own, Save{loss.id, Tier::local_disk}), "");
  EXPECT_EQ(std::get<CheckpointPlan>(program_job("train.py", 4, own).settings.front()).every_steps,
            50u);
  EXPECT_NE(loss.refusal(own, loss.assign({0, 1, 2, 3}, StateFrom::peer))
                .find("calls orrery.torch.state()"),
            std::string::npos);
  const ProgramFeatures none = features_of(
      {"ready", "0", "", "0", "0", "", "", "0", "0", "0", "0", "", "no steps", "", "0"});
  EXPECT_EQ(loss.refusal(common_features(own, none), Save{loss.id, Tier::local_disk}),
            "no snapshots: no steps");
}

TEST(ProgramRules, ALostRankOfATrainerIsReplacedIfAProcessCanJoinItsLoop) {
  const Loss loss;
  const Assign all = loss.assign({0, 1, 2, 3}, StateFrom::peer);
  const ProgramFeatures joins = features_of(
      {"ready", "0", "", "0", "0", "", "", "0", "0", "0", "0", "", "no steps", "", "1"});
  EXPECT_EQ(loss.refusal(joins, all), "");
  EXPECT_EQ(loss.refusal(joins, Save{loss.id, Tier::local_disk}), "no snapshots: no steps");
  EXPECT_NE(loss.refusal(common_features(joins, kPlain), all), "");
}

TEST(ProgramRules, ATableOfCollectivesNeedsNcclAndComesFirstWithoutPyTorch) {
  Loss loss;
  const auto table = [&](const ProgramFeatures& features) {
    return loss.refusal(features, Configure{loss.id, CollectiveTable{}}, 0);
  };
  const ProgramFeatures with_nccl =
      features_of({"ready", "0", "", "0", "0", "", "", "0", "0", "0", "0", "", "", "", "0"});
  EXPECT_EQ(table(with_nccl), "");
  EXPECT_TRUE(with_nccl.capabilities().settings.has<CollectiveTable>());
  EXPECT_EQ(table(common_features(with_nccl, kPlain)), "no table of collectives: no NCCL");
  const Needs needs{.actions = Kinds<Action>::of<Configure>(),
                    .settings = Kinds<Setting>::of<CollectiveTable>()};
  EXPECT_EQ(missing_features(kPlain, needs), "table of collectives: no NCCL");
  EXPECT_EQ(missing_features(bare_features(""), needs), "");
  loss.now.has_table = true;
  EXPECT_EQ(table(with_nccl), "") << "ranks with PyTorch agree on a later step";
  EXPECT_NE(table(bare_features("")).find("before the first communicator"), std::string::npos);
  EXPECT_NE(missing_features(bare_features(""),
                             Needs{.actions = Kinds<Action>::of<Save>(), .settings = {}})
                .find("a program that loads NCCL alone"),
            std::string::npos);
}

TEST(ProgramRules, TheLimitsOfTheRunCount) {
  Loss loss;
  loss.now.replacements_left = 0;
  loss.now.can_restart = false;
  EXPECT_NE(loss.refusal(kWhole, loss.assign({0, 1, 2, 3}, StateFrom::peer)).find("--replace"),
            std::string::npos);
  EXPECT_NE(loss.refusal(kWhole, loss.assign({0, 1, 2, 3}, StateFrom::none)).find("--restart"),
            std::string::npos);
}

TEST(ProgramRules, SnapshotsAreFilesAndSharesHaveAStep) {
  const Loss loss;
  EXPECT_EQ(loss.refusal(kWhole, Save{loss.id, Tier::local_disk}), "");
  EXPECT_NE(loss.refusal(kWhole, Save{loss.id, Tier::memory}), "");
  EXPECT_NE(loss.refusal(kPlain, Save{loss.id, Tier::storage}), "");
  EXPECT_EQ(loss.refusal(kShared, Configure{loss.id, Shares{{9, 9, 0, 14}}}, 5), "");
  EXPECT_NE(loss.refusal(kShared, Configure{loss.id, Shares{{9, 9, 0, 14}}}), "");
  EXPECT_NE(loss.refusal(kShared, Configure{loss.id, Shares{{16, 16, 0, 0}}}, 5), "");
  EXPECT_EQ(share_text({13, 0, 3}, {{0, true}, {1, false}, {3, true}}), "shares 0:13 3:3");
}

TEST(ProgramRules, AMicroBatchIsAnExampleWhereSharesCanBeSet) {
  EXPECT_EQ(program_job("train.py", 4, kShared).micro_batches, 32u);
  EXPECT_EQ(program_job("train.py", 4, kShared).max_micro_batches, 16u);
  EXPECT_EQ(program_job("train.py", 4, kWhole).micro_batches, 4u);
  EXPECT_TRUE(program_job("train.py", 4, kWhole).can.has<CheckpointPlan>());
}

}  // namespace
}  // namespace orrery::live

#include "policies/compression/fixed_codec.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "tests/policies/compression/codec_rig.hpp"

namespace orrery {
namespace {

using test::CodecRig;

FixedCodecParameters int4_for_matrices(Step warm_up) {
  FixedCodecParameters out;
  auto& matrices = *out.add_rules();
  matrices.set_bucket_class("matrices");
  matrices.set_codec("int4");
  matrices.set_parameter(64);
  matrices.set_error_feedback(true);
  auto& vectors = *out.add_rules();
  vectors.set_bucket_class("vectors");
  vectors.set_codec("none");
  out.set_warm_up_steps(warm_up);
  return out;
}

void start(FixedCodec& policy, const FixedCodecParameters& parameters) {
  Rng rng(1);
  Context context{rng, {}};
  policy.start(context, test::codec_cluster(), &parameters);
}

TEST(FixedCodec, SetsTheScenariosCodesOnceAndTheyHoldAfterTheWarmUp) {
  CodecRig rig;
  FixedCodec policy;
  start(policy, int4_for_matrices(2));
  const auto decided = rig.show_events(policy);
  ASSERT_EQ(decided.size(), 1u);
  EXPECT_EQ(decided[0].at_step, 2u);
  EXPECT_TRUE(rig.is_resting());
  rig.show_events(policy, {StepsDone{{0}, 0}});
  EXPECT_TRUE(rig.codecs().empty());
  EXPECT_TRUE(rig.show_events(policy, {StepsDone{{0}, 1}}).empty());
  EXPECT_EQ(rule_for(rig.codecs(), kMatrices).codec, Codec::int4);
  EXPECT_EQ(rule_for(rig.codecs(), kMatrices).parameter, 64);
  EXPECT_EQ(rule_for(rig.codecs(), kVectors).codec, Codec::none);
}

TEST(FixedCodec, AsksAgainWhereTheRanksDidNotAgreeButNotForEver) {
  CodecRig rig;
  rig.leave_open = true;
  FixedCodec policy;
  start(policy, int4_for_matrices(0));
  auto decided = rig.show_events(policy);
  int asked = 0;
  for (; !decided.empty(); ++asked) {
    ASSERT_LT(asked, 10);
    EXPECT_TRUE(rig.show_events(policy, {Tick{}}).empty());
    decided = rig.show_events(policy, {rig.refusal(decided[0])});
  }
  EXPECT_EQ(asked, 4);
}

TEST(FixedCodec, TakesOnlyARefusalOfItsOwn) {
  CodecRig rig;
  rig.leave_open = true;
  FixedCodec policy;
  start(policy, int4_for_matrices(0));
  const auto decided = rig.show_events(policy);
  ASSERT_EQ(decided.size(), 1u);
  const Decision other{.id = 77, .what = Save{{0}}};
  rig.world.announce_decision(other);
  EXPECT_TRUE(rig.show_events(policy, {CodecRig::refusal(other)}).empty()) << "somebody else's";
  EXPECT_EQ(rig.show_events(policy, {CodecRig::refusal(decided[0])}).size(), 1u);
}

TEST(FixedCodec, SaysItAgainToAJobThatHasLeftAndComeBack) {
  CodecRig rig;
  FixedCodec policy;
  start(policy, int4_for_matrices(0));
  EXPECT_EQ(rig.show_events(policy).size(), 1u);
  EXPECT_TRUE(rig.show_events(policy, {JobStopped{{0}, 0}}).empty());
  EXPECT_EQ(rig.show_events(policy, {toy::started(rig.world, 0, toy::standing(0, 4))}).size(), 1u);
}

TEST(FixedCodec, RemembersWhomItTold) {
  CodecRig rig;
  FixedCodec policy;
  start(policy, int4_for_matrices(5));
  rig.show_events(policy);
  Archive saved;
  policy.save(saved);
  start(policy, int4_for_matrices(5));
  policy.load(saved);
  EXPECT_TRUE(rig.show_events(policy).empty());
  EXPECT_THROW(policy.load(saved + "x"), Error);
}

TEST(FixedCodec, ACodeThatNoCodecHasIsRefusedInWords) {
  FixedCodecParameters odd = int4_for_matrices(0);
  odd.mutable_rules(0)->set_parameter(7);
  try {
    rules_of(odd);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_NE(error.message().find("a block of 7 values"), std::string::npos);
  }
  odd.mutable_rules(0)->set_codec("power-sgd");
  EXPECT_EQ(rules_of(odd)[0].codec, Codec::power_sgd);
}

}  // namespace
}  // namespace orrery

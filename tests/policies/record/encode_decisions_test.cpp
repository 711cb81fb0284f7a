#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/error.hpp"
#include "policies/record/encoding.hpp"
#include "tests/policies/random_seam.hpp"
#include "tests/policies/toy.hpp"

namespace orrery {
namespace {

RC_GTEST_PROP(DecisionCodec, DecodingAndEncodingAgainGivesTheSameBytes, (std::uint64_t seed)) {
  toy::Dice dice(seed);
  for (std::size_t kind = 0; kind < toy::kDecisionKinds; ++kind) {
    const Decision decision = toy::random_decision(dice, kind);
    DecisionRecord record, again;
    encode(decision, record);
    const Decision decoded = decode(record);
    encode(decoded, again);
    RC_ASSERT(decoded.what.index() == decision.what.index());
    RC_ASSERT(decoded.group == decision.group);
    RC_ASSERT(record.SerializeAsString() == again.SerializeAsString());
    RC_ASSERT(decoded.why == decision.why);
    RC_ASSERT(decoded.if_epoch == decision.if_epoch);
    RC_ASSERT(trace_line(decoded) == trace_line(decision));
  }
}

TEST(DecisionCodec, AnnotationsKeepTheirKind) {
  for (const Note& note : {Note{"number", 0.0}, Note{"text", std::string()}}) {
    NoteRecord record;
    encode(note, record);
    EXPECT_EQ(decode(record).key, note.key);
    EXPECT_EQ(decode(record).value, note.value);
  }
}

TEST(DecisionCodec, UnknownKindsAndNumbersAreRefused) {
  DecisionRecord record;
  EXPECT_THROW(decode(record), Error);
  AssignRecord& assign = *record.mutable_assign();
  EXPECT_TRUE(std::get<Assign>(decode(record).what).is_release());
  assign.set_state(static_cast<StateFromRecord>(3));
  EXPECT_THROW(decode(record), Error);
  assign.set_state(STATE_CHECKPOINT);
  EXPECT_EQ(std::get<Assign>(decode(record).what).state, StateFrom::checkpoint);
  EXPECT_EQ(std::get<Assign>(decode(record).what).layout.data, 1u);
  assign.add_gpus();
  EXPECT_THROW(decode(record), Error) << "a run of no GPU";
  assign.mutable_gpus(0)->set_count(~0u);
  EXPECT_THROW(decode(record), Error);
  assign.mutable_gpus(0)->set_count(2);
  EXPECT_EQ(std::get<Assign>(decode(record).what).gpus, toy::gpus(0, 2));
  assign.mutable_layout()->set_data(0);
  EXPECT_EQ(std::get<Assign>(decode(record).what).layout.data, 0u) << "not 1";
  EXPECT_EQ(std::get<Assign>(decode(record).what).layout.tensor, 1u);
  assign.mutable_layout()->set_data(~0u);
  EXPECT_THROW(decode(record), Error);
  SettingRecord& what = *record.mutable_configure()->mutable_what();
  EXPECT_THROW(decode(record), Error);
  what.mutable_codec_rules()->add_rules()->set_codec(static_cast<CodecNameRecord>(7));
  EXPECT_THROW(decode(record), Error);
  what.mutable_checkpoint_plan()->set_tier(static_cast<TierRecord>(77));
  EXPECT_THROW(decode(record), Error);
  what.mutable_on_loss()->set_response(static_cast<LossResponseRecord>(3));
  EXPECT_THROW(decode(record), Error);
}

Decision shift() {
  return {.what = Configure{{0}, Shares{{13, 13, 1, 13}}}, .at_step = 12};
}

TEST(TraceLine, SaysWhatButNotWhenOrWhy) {
  Decision decision = shift();
  EXPECT_EQ(trace_line(decision), "Configure{job 0: shares 13 13 1 13, step 12}");
  decision.id = 9;
  decision.group = 2;
  decision.expires = 5;
  decision.if_epoch = Epoch{1};
  decision.why = "late";
  EXPECT_EQ(trace_line(decision), trace_line(shift()));
  decision.at_step = 13;
  EXPECT_NE(trace_line(decision), trace_line(shift()));
}

TEST(TraceLine, WhereAJobWithoutStepsStandsCarriesTheTraceSecond) {
  const Cluster cluster = toy::cluster();
  World world(cluster);
  world.apply(JobSubmitted{toy::job(0)}, 0);
  world.apply(JobSubmitted{toy::plain(1, 2)}, 0);
  NoSamples samples;
  const Observation seen = toy::seen_of(world, {}, samples, 61 * kNanosPerSecond + 5);
  const auto line = [&seen](Action what) {
    return trace_line(Decision{.what = std::move(what)}, seen);
  };
  EXPECT_EQ(line(Assign{{1}, toy::gpus(0, 2)}),
            "Assign{job 1: gpus 0-1 layout tensor 1 context 1 pipeline 1 data 1, step 0} at 61 s");
  EXPECT_EQ(line(Assign{{1}, {}}), "Assign{job 1: nothing, step 0} at 61 s");
  EXPECT_EQ(line(Assign{{0}, {}}), "Assign{job 0: nothing, step 0}");
  EXPECT_EQ(line(Save{{1}}), "Save{job 1: tier storage, step 0}");
}

TEST(TraceLine, EveryKindHasOneAndTellsParametersApart) {
  toy::Dice dice(3);
  for (std::size_t kind = 0; kind < toy::kDecisionKinds; ++kind) {
    const std::string one = trace_line(Decision{.what = toy::random_action(dice, kind)});
    const std::string other = trace_line(Decision{.what = toy::random_action(dice, kind)});
    EXPECT_NE(one, other);
  }
}

}  // namespace
}  // namespace orrery

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/error.hpp"
#include "policies/codec.hpp"
#include "tests/policies/random_seam.hpp"

namespace orrery {
namespace {

RC_GTEST_PROP(DecisionCodec, DecodingAndEncodingAgainGivesTheSameBytes, (std::uint64_t seed)) {
  toy::Dice dice(seed);
  for (std::size_t kind = 0; kind < std::variant_size_v<Action>; ++kind) {
    const Decision decision = toy::random_decision(dice, kind);
    DecisionRecord record, again;
    encode(decision, record);
    const Decision decoded = decode(record);
    encode(decoded, again);
    RC_ASSERT(decoded.what.index() == kind);
    RC_ASSERT(record.SerializeAsString() == again.SerializeAsString());
    RC_ASSERT(decoded.why == decision.why);
    RC_ASSERT(decoded.if_epoch == decision.if_epoch);
    RC_ASSERT(trace_line(decoded) == trace_line(decision));
  }
}

TEST(DecisionCodec, UnknownKindsAndNumbersAreRefused) {
  DecisionRecord record;
  EXPECT_THROW(decode(record), Error);
  record.mutable_recover()->set_how(4);
  EXPECT_THROW(decode(record), Error);
  record.mutable_recover()->set_how(3);
  EXPECT_EQ(decode(record).what.index(), 10u);
  record.mutable_set_codec()->add_rules()->set_codec(7);
  EXPECT_THROW(decode(record), Error);
}

Decision shift() {
  Decision decision{.what = ShiftMicrobatches{{0}, {13, 13, 1, 13}}};
  decision.effective_at_step = 12;
  return decision;
}

TEST(TraceLine, SaysWhatButNotWhenOrWhy) {
  Decision decision = shift();
  EXPECT_EQ(trace_line(decision), "ShiftMicrobatches{job 0: 13 13 1 13, step 12}");
  decision.number = 9;
  decision.expires = 5;
  decision.if_epoch = Epoch{1};
  decision.why = "late";
  EXPECT_EQ(trace_line(decision, 7), trace_line(shift(), 8));
  decision.effective_at_step = 13;
  EXPECT_NE(trace_line(decision, 7), trace_line(shift(), 7));
}

TEST(TraceLine, DecisionsOnWholeJobsCarryTheTraceSecond) {
  const Decision place{.what = PlaceJob{{3}, {{0}, {1}}}};
  EXPECT_EQ(trace_line(place, 61 * kNanosPerSecond), "PlaceJob{job 3: 0 1, step 0} at 61 s");
  EXPECT_EQ(trace_line(Decision{.what = WakeMe{5}}, 0), "");
}

TEST(TraceLine, EveryKindHasOneAndTellsParametersApart) {
  toy::Dice dice(3);
  for (std::size_t kind = 0; kind < std::variant_size_v<Action>; ++kind) {
    const std::string one = trace_line(Decision{.what = toy::random_action(dice, kind)});
    const std::string other = trace_line(Decision{.what = toy::random_action(dice, kind)});
    EXPECT_NE(one, other);
  }
}

}  // namespace
}  // namespace orrery

#include "core/schema/convert.hpp"

#include "core/schema/options.pb.h"

#include "tests/core/schema/load_sample.hpp"

namespace orrery {
namespace {

TEST(Convert, FillsEveryKindOfField) {
  const Sample sample = load_sample(R"(
title: NO
small: 0
inner: {count: 3, rate: 8 Gbps}
many:
  - count: 1
  - count: 2
numbers: [4, 5]
words: [a, "b c", 010]
)");
  EXPECT_EQ(sample.title(), "NO") << "a string keeps its text";
  EXPECT_TRUE(sample.has_small()) << "a written 0 is not absent";
  EXPECT_FALSE(sample.has_share()) << "defaults are filled in later";
  EXPECT_EQ(sample.inner().rate(), 1e9);
  EXPECT_EQ(sample.many(1).count(), 2u);
  EXPECT_EQ(sample.numbers(1), 5u);
  EXPECT_EQ(sample.words(2), "010");
}

TEST(Convert, UnknownKeysNameTheNearest) {
  EXPECT_EQ(refusal("title: a\nsmal: 1"), "2:1: unknown key 'smal'; did you mean 'small'?");
  EXPECT_EQ(refusal("title: a\ninner: {count: 1, rat: 1}"),
            "2:19: unknown key 'rat' in inner; did you mean 'rate'?");
  EXPECT_EQ(refusal("title: a\ntuning: {other: 1}"),
            "2:10: unknown key 'other' in tuning; known here: depth, deep");
}

TEST(Convert, OneOfAChoiceIsWritten) {
  const Sample sample = load_sample("title: a\nchoices: [{at_step: 0}, {at_time: 1 s, part: 30%}]");
  EXPECT_TRUE(sample.choices(0).has_at_step()) << "a written 0 is a choice";
  EXPECT_EQ(sample.choices(0).until_case(), SampleChoice::UNTIL_NOT_SET);
  EXPECT_EQ(sample.choices(1).part(), 0.3);
  EXPECT_EQ(refusal("title: a\nchoices: [{name: b}]"),
            "2:11: expected exactly one of at_step and at_time in choices[0], got none: add one");
  EXPECT_EQ(refusal("title: a\nchoices:\n  - at_step: 1\n    name: b\n    at_time: 1 s"),
            "5:5: expected exactly one of at_step and at_time in choices[0], got 'at_time' beside "
            "'at_step' of line 3: leave one of them out");
  EXPECT_EQ(refusal("title: a\nchoices: [{at_step: 1, never: true, part: 1%}]"),
            "2:37: expected exactly one of never, part and tuned in choices[0], got 'part' beside "
            "'never' of line 2: leave one of them out");
}

TEST(Convert, ATruthValueOfAChoiceIsTrueOrNotThere) {
  EXPECT_TRUE(load_sample("title: a\nchoices: [{at_step: 1, never: true}]").choices(0).never());
  EXPECT_EQ(refusal("title: a\nchoices: [{at_step: 1, never: false}]"),
            "2:31: 'never' can only be true; leave the key out for another choice");
}

TEST(Convert, APartialMessageMayLackItsChoice) {
  EXPECT_TRUE(load_sample("title: a\nhalf: {name: b}").has_half());
  EXPECT_NE(refusal("title: a\nhalf: {at_step: 1, at_time: 1 s}"), "accepted");
}

TEST(Convert, DuplicateKeysNameTheFirst) {
  EXPECT_EQ(refusal("title: a\nsmall: 1\nsmall: 1"),
            "3:1: duplicate key 'small': it is on line 2 already");
  EXPECT_EQ(refusal("title: a\ninner: {count: 1, \"count\": 2}"),
            "2:19: duplicate key 'count': it is on line 2 already");
}

TEST(Convert, MissingKeysAreNamed) {
  EXPECT_EQ(refusal("small: 1"), "1:1: missing key 'title'");
  EXPECT_EQ(refusal("title: a\nmany:\n  - rate: 1 B/s"), "3:5: missing key 'count' in many[0]");
  EXPECT_EQ(refusal("title: a\npart: {rate: 1 B/s}"), "accepted") << "partial by the schema";
}

TEST(Convert, WrongKindsAreRefused) {
  EXPECT_EQ(refusal("title: [a]"), "1:8: 'title' must be a single value, not a list");
  EXPECT_EQ(refusal("title: a\ninner: 3"),
            "2:8: 'inner' must be a map (key: value), not a single value");
  EXPECT_EQ(refusal("title: a\nmany: {count: 1}"),
            "2:7: 'many' must be a list, not a map (key: value)");
  EXPECT_EQ(refusal("- title"), "1:1: the file must be a map (key: value), not a list");
  EXPECT_EQ(refusal("title: a\nsmall:"),
            "2:1: 'small' has no value; leave the key out for its default, or write a value");
  EXPECT_EQ(refusal("title: ~"),
            "1:1: 'title' has no value; leave the key out for its default, or write a value");
}

TEST(Convert, ListsHaveLengths) {
  EXPECT_EQ(refusal("title: a\nnumbers: [1]"),
            "2:10: 'numbers' must have at least 2 entries, not 1");
  const std::string one = "{count: 1}";
  EXPECT_EQ(refusal("title: a\nmany: [" + one + "," + one + "," + one + "," + one + "]"),
            "2:7: 'many' must have at most 3 entries, not 4");
}

TEST(Convert, ParametersFollowTheNameBesideThem) {
  const Sample sample =
      load_sample("title: a\npolicies:\n  - parameters: {tick: 7}\n    name: test-fast");
  TestFastParameters parameters;
  ASSERT_TRUE(sample.policies(0).parameters().UnpackTo(&parameters));
  EXPECT_EQ(parameters.tick(), 7u);
  EXPECT_FALSE(parameters.has_gain());
}

TEST(Convert, ParametersAreCheckedByTheirType) {
  const std::string head = "title: a\npolicies:\n  - name: ";
  EXPECT_EQ(refusal(head + "test-fast\n    parameters: {tik: 7}"),
            "4:18: unknown key 'tik' in policies[0].parameters; did you mean 'tick'?");
  EXPECT_EQ(refusal(head + "test-fast\n    parameters: {tick: 101}"),
            "4:24: 'tick' must be between 1 and 100, not 101");
  EXPECT_EQ(refusal(head + "test-fats\n    parameters: {tick: 1}"),
            "4:17: no parameters are known for 'test-fats'; is the name right?");
  EXPECT_EQ(refusal("title: a\npolicies:\n  - parameters: {tick: 1}"),
            "3:5: missing key 'name' in policies[0]");
}

TEST(KeyHint, FindsAKeyByOneOfItsWords) {
  EXPECT_EQ(key_hint("tunning", *Sample::descriptor()), "; did you mean 'tuning'?");
  EXPECT_EQ(key_hint("itmes", *FieldRule::descriptor()).substr(0, 12), "; known here")
      << "two keys have this part: neither is guessed";
  EXPECT_EQ(key_hint("fraction_digit", *FieldRule::descriptor()).substr(0, 12), "; known here");
}

}  // namespace
}  // namespace orrery

// fill_defaults and check_whole.
#include "tests/core/schema/load_sample.hpp"

namespace orrery {
namespace {

TEST(FillDefaults, FillsWhatIsAbsentOnly) {
  Sample sample = load_sample("title: a\non: false\nbig: 0\n");
  fill_defaults(sample);
  EXPECT_FALSE(sample.on()) << "written false stays";
  EXPECT_EQ(sample.big(), 0u) << "written 0 stays";
  EXPECT_EQ(sample.share(), 0.5);
  EXPECT_EQ(sample.color(), "red");
  EXPECT_FALSE(sample.has_small()) << "no default, no value";
}

TEST(FillDefaults, CreatesMessagesThatAreAllDefaults) {
  Sample sample = load_sample("title: a\nmany: [{count: 2}]");
  fill_defaults(sample);
  EXPECT_TRUE(sample.has_tuning());
  EXPECT_EQ(sample.tuning().depth(), 3u);
  EXPECT_FALSE(sample.has_inner()) << "count has no default";
  EXPECT_EQ(sample.many(0).rate(), 1e9) << "present messages are filled, in lists too";
}

TEST(FillDefaults, MakesNoChoice) {
  Sample sample = load_sample("title: a\nchoices: [{at_step: 1}]");
  fill_defaults(sample);
  EXPECT_EQ(sample.choices(0).until_case(), SampleChoice::UNTIL_NOT_SET);
}

TEST(CheckWhole, MissesAChoiceThatMustBeMade) {
  Sample sample;
  const SourceMap places =
      load_yaml("title: a\nhalf:\n  name: b\npart: {count: 1}", "s.yaml", sample);
  try {
    check_whole(sample, places, "");
    ADD_FAILURE() << "whole";
  } catch (const Error& error) {
    EXPECT_EQ(error.source_place()->line, 3);
    EXPECT_EQ(error.message(), "expected exactly one of at_step and at_time in half, got none");
  }
  sample.mutable_half()->set_at_step(0);
  EXPECT_NO_THROW(check_whole(sample, places, ""));
}

TEST(FillDefaults, ParametersAreWhole) {
  Sample sample = load_sample(
      "title: a\npolicies:\n  - name: test-fast\n    parameters: {tick: 7}\n  - name: test-slow\n"
      "  - name: unheard-of\n");
  fill_defaults(sample);
  TestFastParameters fast;
  ASSERT_TRUE(sample.policies(0).parameters().UnpackTo(&fast));
  EXPECT_EQ(fast.tick(), 7u);
  EXPECT_EQ(fast.gain(), 0.25);
  TestSlowParameters slow;
  ASSERT_TRUE(sample.policies(1).parameters().UnpackTo(&slow)) << "absent: made from defaults";
  EXPECT_EQ(slow.patience(), 11u);
  EXPECT_FALSE(sample.policies(2).has_parameters());
}

TEST(FillDefaults, TwiceIsOnce) {
  Sample once = load_sample("title: a\npolicies: [{name: test-fast}]");
  fill_defaults(once);
  Sample twice = once;
  fill_defaults(twice);
  EXPECT_EQ(once.SerializeAsString(), twice.SerializeAsString());
}

TEST(CheckWhole, NamesWhatIsMissing) {
  Sample sample = load_sample("title: a\npart: {rate: 1 B/s}");
  try {
    check_whole(sample, SourceMap(), "sample");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "error: sample.part: missing key 'count' in sample.part");
  }
  sample.mutable_part()->set_count(1);
  EXPECT_NO_THROW(check_whole(sample, SourceMap(), "sample"));
}

}  // namespace
}  // namespace orrery

#include "tests/core/schema/load_sample.hpp"

namespace orrery {
namespace {

Sample sample_with_policy() {
  return load_sample("title: a\nmany: [{count: 1}, {count: 2}]\npolicies: [{name: test-fast}]");
}

std::string refusal_of(const std::string& path, const std::string& text) {
  Sample sample = sample_with_policy();
  try {
    set_field(sample, path, text, "--set");
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::bad_input || !error.source_place())
      return "an error of another kind";
    return std::to_string(error.source_place()->column) + ": " + error.message();
  }
  return "accepted";
}

TEST(SetField, ReplacesTheChoiceThatWasMade) {
  Sample sample = load_sample("title: a\nchoices: [{at_step: 1, never: true}]");
  set_field(sample, "choices[0].at_time", "2 s", "--set");
  set_field(sample, "choices[0].part", "50%", "--set");
  EXPECT_FALSE(sample.choices(0).has_at_step());
  EXPECT_EQ(sample.choices(0).at_time(), 2 * 1'000'000'000LL);
  EXPECT_EQ(sample.choices(0).part(), 0.5);
  EXPECT_THROW(set_field(sample, "choices[0].never", "false", "--set"), Error);
}

TEST(SetField, ReachesEveryKindOfPath) {
  Sample sample = sample_with_policy();
  set_field(sample, "small", "9", "--set");
  set_field(sample, "title", "b: [c", "--set");
  set_field(sample, "inner.rate", "2 GB/s", "--set");
  set_field(sample, "many[1].count", "5", "--set");
  set_field(sample, "numbers", "[7, 8]", "--set");
  set_field(sample, "tuning", "{depth: 1}", "--set");
  set_field(sample, "policies[0].parameters.tick", "42", "--set");
  EXPECT_EQ(sample.small(), 9u);
  EXPECT_EQ(sample.title(), "b: [c") << "a single value is no YAML";
  EXPECT_EQ(sample.inner().rate(), 2e9);
  EXPECT_EQ(sample.many(1).count(), 5u);
  EXPECT_EQ(sample.numbers(0), 7u);
  EXPECT_EQ(sample.tuning().depth(), 1u);
  TestFastParameters parameters;
  ASSERT_TRUE(sample.policies(0).parameters().UnpackTo(&parameters));
  EXPECT_EQ(parameters.tick(), 42u);
}

TEST(SetField, WholeNumbersMayHaveAnExponent) {
  Sample sample = sample_with_policy();
  const auto big = [&sample](const std::string& text) {
    set_field(sample, "big", text, "--set");
    return sample.big();
  };
  EXPECT_EQ(big("2e12"), 2'000'000'000'000u);
  EXPECT_EQ(big("1.25E3"), 1250u);
  EXPECT_EQ(big("4e0"), 4u);
  for (const char* text : {"1.25e1", "2e-3", "e3", "2e", "2e19", "1e99", "2e1.5", "0x2e1"}) {
    EXPECT_THROW(big(text), Error) << text;
  }
}

TEST(SetField, ListsAreReplaced) {
  Sample sample = sample_with_policy();
  set_field(sample, "many", "[{count: 9}]", "--set");
  ASSERT_EQ(sample.many_size(), 1);
  EXPECT_EQ(sample.many(0).count(), 9u);
}

TEST(SetField, AnotherNameTakesItsOwnDefaults) {
  Sample sample = sample_with_policy();
  set_field(sample, "policies[0].parameters.tick", "42", "--set");
  set_field(sample, "policies[0].name", "test-slow", "--set");
  fill_defaults(sample);
  TestSlowParameters parameters;
  ASSERT_TRUE(sample.policies(0).parameters().UnpackTo(&parameters));
  EXPECT_EQ(parameters.patience(), 11u);
}

TEST(SetField, BadPathsAreRefusedWithTheirPlace) {
  EXPECT_EQ(refusal_of("smal", "1"), "1: unknown key 'smal'; did you mean 'small'?");
  EXPECT_EQ(refusal_of("inner.cuont", "1"), "7: unknown key 'cuont'; did you mean 'count'?");
  EXPECT_EQ(refusal_of("many[2].count", "1"), "5: 'many' has 2 entries, counted from 0");
  EXPECT_EQ(refusal_of("many[-1].count", "1"), "5: 'many' has 2 entries, counted from 0");
  EXPECT_EQ(refusal_of("many.count", "1"), "5: 'many' is a list: say which entry, as in many[0]");
  EXPECT_EQ(refusal_of("small.x", "1"), "6: 'small' is a single value and has no keys");
  EXPECT_EQ(refusal_of("small[0].x", "1"), "6: 'small' is not a list of maps");
  for (const char* path : {"", ".", "many[", "many[0", "many[0]", "many[0]x", "many[]", "inner.",
                           "[0]", "many[0].", "policies[0].parameters.", "many[99999999999].a"}) {
    EXPECT_NE(refusal_of(path, "1"), "accepted") << path;
  }
}

TEST(SetField, BadValuesAreRefusedByTheSameRules) {
  EXPECT_EQ(refusal_of("inner.count", "65"), "13: 'count' must be between 1 and 64, not 65");
  EXPECT_EQ(refusal_of("wait", "5"), "6: 'wait' needs a unit: write for example 50 ms");
  EXPECT_NE(refusal_of("numbers", "[1]"), "accepted");
  EXPECT_NE(refusal_of("tuning", "{depht: 1}"), "accepted");
  EXPECT_NE(refusal_of("title", std::string("a\x1B", 2)), "accepted");
  EXPECT_NE(refusal_of("policies[0].parameters.tick", "0"), "accepted");
}

}  // namespace
}  // namespace orrery

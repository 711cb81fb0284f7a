#include "core/schema/field_rules.hpp"

#include <gtest/gtest.h>

#include "tests/core/schema/sample.pb.h"

namespace orrery {
namespace {

const google::protobuf::FieldDescriptor& field_of(const std::string& name) {
  return *Sample::descriptor()->FindFieldByName(name);
}

std::string put(Sample& sample, const std::string& name, const std::string& text,
                bool plain = true) {
  return put_scalar(sample, field_of(name), text, plain);
}
std::string problem(const std::string& name, const std::string& text, bool plain = true) {
  Sample sample;
  return put(sample, name, text, plain);
}

TEST(PutScalar, StoresWhatIsWritten) {
  Sample sample;
  EXPECT_EQ(put(sample, "small", "4294967295"), "");
  EXPECT_EQ(put(sample, "temperature", "-40"), "");
  EXPECT_EQ(put(sample, "big", "1000000000000000000"), "");
  EXPECT_EQ(put(sample, "share", "2.5e-1"), "");
  EXPECT_EQ(put(sample, "on", "false"), "");
  EXPECT_EQ(put(sample, "color", "green", false), "");
  EXPECT_EQ(sample.small(), 4294967295u);
  EXPECT_EQ(sample.temperature(), -40);
  EXPECT_EQ(sample.big(), 1'000'000'000'000'000'000u);
  EXPECT_EQ(sample.share(), 0.25);
  EXPECT_TRUE(sample.has_on() && !sample.on());
  EXPECT_EQ(sample.color(), "green");
}

TEST(PutScalar, UnitsBecomeBaseUnits) {
  Sample sample;
  EXPECT_EQ(put(sample, "wait", "50 ms"), "");
  EXPECT_EQ(put(sample, "pause", "2 min"), "");
  EXPECT_EQ(put(sample, "room", "1.5 KiB", false), "") << "a quantity may stand in quotes";
  EXPECT_EQ(sample.wait(), 50'000'000) << "whole nanoseconds in an int64";
  EXPECT_EQ(sample.pause(), 120.0) << "seconds in a double";
  EXPECT_EQ(sample.room(), 1536.0);
}

TEST(PutScalar, LargeNumbersMayHaveSuffixes) {
  Sample sample;
  const auto big_of = [&sample](const std::string& text, bool plain = true) {
    EXPECT_EQ(put(sample, "big", text, plain), "");
    return sample.big();
  };
  EXPECT_EQ(big_of("10k"), 10'000u);
  EXPECT_EQ(big_of("1.5M"), 1'500'000u);
  EXPECT_EQ(big_of("300B"), 300'000'000'000u);
  EXPECT_EQ(big_of("2T", false), 2'000'000'000'000u) << "in quotes";
  EXPECT_EQ(big_of("2e12"), 2'000'000'000'000u);
  for (const char* text : {"2t", "2 T", "T", "2TT", "2e3k", "0.5", "1.2345k", "-2T", "02T"}) {
    EXPECT_NE(problem("big", text), "") << text;
  }
  EXPECT_NE(problem("big", "2", false), "") << "a number in quotes is text";
  EXPECT_NE(problem("big", "2000000T"), "") << "above the largest value";
  EXPECT_EQ(problem("small", "2k"), "'small' must be a whole number, not '2k'")
      << "2000 or 2048? Such numbers are written in full";
  EXPECT_EQ(problem("big", "2t"),
            "'big' must be a whole number, such as 1500, 10k, 300B or 2T, not '2t'");
}

// An exponent spares the twelve zeros of 2e12 tokens.
TEST(PutScalar, NumbersHaveOneSpellingButAnExponent) {
  for (const char* text : {"010", "+1", "1.0", "0x10", "1_000", "", " 1", "-", "1 "}) {
    EXPECT_NE(problem("small", text), "") << text;
  }
  for (const char* text : {".5", "1.", "+0.5", "00.5", "inf", "nan", "1e", "0x1p-1", "0,5", ""}) {
    EXPECT_NE(problem("share", text), "") << text;
  }
  for (const char* text : {"050 ms", "50", "50 GB", "ms", "50  ms", "1e400 s", "inf s", "+5 ms"}) {
    EXPECT_NE(problem("wait", text), "") << text;
  }
  for (const char* text : {"True", "yes", "on", "1", "TRUE", ""}) {
    EXPECT_NE(problem("on", text), "") << text;
  }
}

TEST(PutScalar, RangesHoldAtBothEnds) {
  EXPECT_EQ(problem("temperature", "40"), "");
  EXPECT_EQ(problem("temperature", "41"), "'temperature' must be between -40 and 40, not 41");
  EXPECT_EQ(problem("share", "1"), "");
  EXPECT_EQ(problem("share", "1.01"), "'share' must be between 0 and 1, not 1.01");
  EXPECT_EQ(problem("small", "-1"), "'small' must be at least 0, not -1");
  EXPECT_NE(problem("small", "4294967296"), "") << "beyond the type";
  EXPECT_NE(problem("big", "99999999999999999999"), "") << "beyond 64 bits";
  EXPECT_EQ(problem("pause", "2 h"), "'pause' must be between 0 and 3600 s, not 2 h");
  EXPECT_NE(problem("wait", "1e12 s"), "") << "beyond 64-bit nanoseconds";
}

TEST(PutScalar, MessagesSayWhatToWrite) {
  EXPECT_EQ(problem("wait", "50"), "'wait' needs a unit: write for example 50 ms");
  EXPECT_EQ(problem("wait", "50 GB"), "'wait' cannot be '50 GB'; write for example 50 ms");
  EXPECT_EQ(problem("wait", "50 MS"),
            "'wait' cannot be '50 MS'; write for example 50 ms; did you mean 50 ms?");
  EXPECT_EQ(problem("room", "3 gib"),
            "'room' cannot be '3 gib'; write for example 80 GiB; did you mean 3 GiB?");
  EXPECT_EQ(problem("room", "3gb"),
            "'room' cannot be '3gb'; write for example 80 GiB; did you mean 3GB?");
  EXPECT_EQ(problem("small", "64", false), "'small' must be a number; \"64\" in quotes is text");
  EXPECT_EQ(problem("on", "yes"), "'on' must be true or false, not 'yes'");
  EXPECT_EQ(problem("color", "gren"),
            "'color' must be one of red, green, not 'gren'; did you mean 'green'?");
  EXPECT_EQ(problem("title", ""), "'title' is empty");
  EXPECT_EQ(problem("title", std::string("a\0b", 3)), "'title' holds a control character");
}

TEST(PutScalar, AppendsToLists) {
  Sample sample;
  EXPECT_EQ(put(sample, "numbers", "1"), "");
  EXPECT_EQ(put(sample, "numbers", "2"), "");
  EXPECT_EQ(sample.numbers_size(), 2);
}

TEST(ParametersType, FollowsTheName) {
  SamplePolicy policy;
  policy.set_name("test-fast");
  EXPECT_EQ(parameters_type(policy), TestFastParameters::descriptor());
  for (const char* name : {"", "test-Fast", "nothing", "test fast", "../x"}) {
    policy.set_name(name);
    EXPECT_EQ(parameters_type(policy), nullptr) << name;
  }
}

}  // namespace
}  // namespace orrery

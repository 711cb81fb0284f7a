#include "core/schema/yaml_writer.hpp"

#include <gtest/gtest.h>

#include "tests/core/schema/load_sample.hpp"

namespace orrery {
namespace {

Sample full() {
  Sample sample;
  sample.set_title("a \"title\": with\ta tab, # no comment");
  sample.set_small(0);
  sample.set_temperature(-3);
  sample.set_big(1'000'000'000'000'000'000);
  sample.set_share(0.1);
  sample.set_on(false);
  sample.set_color("green");
  sample.set_wait(1'500'000);
  sample.set_pause(0.25);
  sample.set_room(80e9);
  sample.mutable_inner()->set_count(3);
  sample.mutable_inner()->set_rate(1.0 / 3 * 1e11);
  for (const std::uint32_t count : {1u, 2u}) sample.add_many()->set_count(count);
  for (const std::uint32_t number : {7u, 8u}) sample.add_numbers(number);
  sample.add_words("no");
  sample.mutable_tuning();
  sample.add_choices()->set_at_step(0);
  sample.mutable_choices(0)->set_part(0.25);
  sample.add_choices()->set_at_time(3);
  sample.mutable_choices(1)->set_never(true);
  return sample;
}

TEST(YamlWriter, WhatIsWrittenReadsBackTheSame) {
  const Sample sample = full();
  const Sample back = load_sample(to_yaml(sample));
  EXPECT_EQ(back.SerializeAsString(), sample.SerializeAsString()) << to_yaml(sample);
}

// Nanoseconds of four years have more digits than a double.
TEST(YamlWriter, LongTimesReadBackToTheNanosecond) {
  for (const std::int64_t wait : {126'230'400'000'000'000, 86'400'000'000'001, 12'000'000'000}) {
    Sample sample = full();
    sample.set_wait(wait);
    EXPECT_EQ(load_sample(to_yaml(sample)).wait(), wait) << to_yaml(sample);
  }
}

TEST(YamlWriter, UnitsStandBesideTheirNumbers) {
  Sample sample;
  sample.set_title("t");
  sample.set_wait(1'500'000);
  sample.add_many()->set_count(1);
  EXPECT_EQ(to_yaml(sample), "title: \"t\"\nwait: 1500000 ns\nmany:\n  - count: 1\n");
}

TEST(YamlJson, WhatIsWrittenReadsBackTheSame) {
  Sample sample = full();
  *sample.add_policies() =
      load_sample("title: a\npolicies: [{name: test-fast, parameters: {tick: 3}}]").policies(0);
  const std::string text = to_yaml_json(sample).dump(1);
  EXPECT_EQ(load_sample(text).SerializeAsString(), sample.SerializeAsString()) << text;
}

TEST(YamlJson, HoldsNumbersTextsWithUnitsAndNothingThatIsAbsent) {
  Sample sample;
  sample.set_title("t");
  sample.set_wait(1'500'000);
  sample.set_share(0.5);
  EXPECT_EQ(to_yaml_json(sample).dump(), R"({"title":"t","share":0.5,"wait":"1500000 ns"})");
}

}  // namespace
}  // namespace orrery

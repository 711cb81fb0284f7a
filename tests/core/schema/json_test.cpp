#include "core/schema/json.hpp"

#include <limits>

#include "tests/core/schema/load_sample.hpp"

namespace orrery {
namespace {

TEST(ToJson, AbsentIsNullAndNumbersAreNumbers) {
  const Sample sample = load_sample("title: a\nbig: 1000000000000000000\nnumbers: [1, 2]\n");
  const auto json = to_json(sample);
  EXPECT_TRUE(json["small"].is_null());
  EXPECT_TRUE(json["inner"].is_null());
  EXPECT_EQ(json["big"].dump(), "1000000000000000000");
  EXPECT_EQ(json["numbers"].dump(), "[1,2]");
  EXPECT_EQ(json["words"].dump(), "[]");
  EXPECT_EQ(json.begin().key(), "title") << "in the order of the fields";
  EXPECT_EQ(json.size(), static_cast<std::size_t>(Sample::descriptor()->field_count()));
}

TEST(ToJson, OnlyTheChosenKeyOfAChoiceIsThere) {
  const Sample sample = load_sample("title: a\nchoices: [{at_step: 0}]");
  EXPECT_EQ(to_json(sample)["choices"][0].dump(), R"({"name":"","at_step":0})");
}

TEST(ToJson, WhatIsNoNumberIsNull) {
  Sample sample;
  sample.set_share(std::numeric_limits<double>::quiet_NaN());
  sample.set_room(std::numeric_limits<double>::infinity());
  EXPECT_TRUE(to_json(sample)["share"].is_null());
  EXPECT_TRUE(to_json(sample)["room"].is_null());
}

TEST(ToJson, ParametersAreShownAsWhatTheyAre) {
  const Sample sample =
      load_sample("title: a\npolicies: [{name: test-fast, parameters: {tick: 3}}]");
  EXPECT_EQ(to_json(sample)["policies"][0]["parameters"].dump(),
            R"({"tick":3,"gain":null,"rules":[]})");
  Sample odd = sample;
  odd.mutable_policies(0)->mutable_parameters()->set_type_url("x/orrery.Nothing");
  EXPECT_TRUE(to_json(odd)["policies"][0]["parameters"].is_null());
}

TEST(CanonicalHash, IsOfTheMeaningNotTheSpelling) {
  const std::string hash = canonical_hash(load_sample("title: a\nwait: 1 s\n"));
  EXPECT_EQ(hash.size(), 64u);
  EXPECT_EQ(hash, canonical_hash(load_sample("wait: 1000 ms\ntitle: 'a'\nshare: 0.5 # default\n")));
  EXPECT_NE(hash, canonical_hash(load_sample("title: a\nwait: 2 s\n")));
  EXPECT_NE(hash, canonical_hash(load_sample("title: a\nwait: 1 s\non: false\n")));
}

TEST(CanonicalHash, ParametersCount) {
  const auto with = [](const std::string& parameters) {
    return canonical_hash(load_sample("title: a\npolicies: [{name: test-fast" + parameters + "}]"));
  };
  EXPECT_EQ(with(""), with(", parameters: {tick: 5}")) << "5 is the default";
  EXPECT_NE(with(""), with(", parameters: {tick: 6}"));
}

}  // namespace
}  // namespace orrery

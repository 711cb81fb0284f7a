#include <regex>

#include "core/schema/json.hpp"
#include "tests/core/schema/load_sample.hpp"

namespace orrery {
namespace {

TEST(JsonSchema, SaysWhatTheLoaderEnforces) {
  const auto schema = json_schema(*Sample::descriptor());
  EXPECT_EQ(schema["additionalProperties"], false);
  EXPECT_EQ(schema["required"].dump(), R"(["title"])");
  const auto& properties = schema["properties"];
  EXPECT_EQ(properties.size(), static_cast<std::size_t>(Sample::descriptor()->field_count()));
  EXPECT_EQ(properties["temperature"].dump(), R"({"type":"integer","minimum":-40,"maximum":40})");
  EXPECT_EQ(properties["color"]["enum"].dump(), R"(["red","green"])");
  EXPECT_EQ(properties["on"]["default"], true);
  EXPECT_EQ(properties["share"]["default"], 0.5);
  EXPECT_EQ(properties["many"]["maxItems"], 3);
  EXPECT_EQ(properties["numbers"]["minItems"], 2);
}

TEST(JsonSchema, PartialMessagesRequireNothing) {
  const auto schema = json_schema(*Sample::descriptor());
  EXPECT_EQ(schema["properties"]["inner"]["$ref"], "#/$defs/SampleInner");
  EXPECT_EQ(schema["properties"]["part"]["$ref"], "#/$defs/SampleInner_partial");
  EXPECT_EQ(schema["$defs"]["SampleInner"]["required"].dump(), R"(["count"])");
  EXPECT_FALSE(schema["$defs"]["SampleInner_partial"].contains("required"));
}

TEST(JsonSchema, AChoiceIsOneOfItsKeys) {
  const auto schema = json_schema(*Sample::descriptor());
  const auto& whole = schema["$defs"]["SampleChoice"];
  EXPECT_EQ(whole["allOf"][0].dump(),
            R"({"oneOf":[{"required":["at_step"]},{"required":["at_time"]}]})");
  EXPECT_EQ(whole["allOf"][1]["oneOf"].size(), 4u) << "or none of the three";
  EXPECT_EQ(whole["allOf"][1]["oneOf"][3].dump(),
            R"({"not":{"anyOf":[{"required":["never"]},{"required":["part"]},)"
            R"({"required":["tuned"]}]}})");
  EXPECT_EQ(whole["properties"]["never"].dump(), R"({"const":true})");
  const auto& partial = schema["$defs"]["SampleChoice_partial"];
  EXPECT_EQ(partial["allOf"][0]["oneOf"].size(), 3u) << "it may lack its choice";
}

TEST(JsonSchema, QuantitiesAreTextWithAUnit) {
  const auto schema = json_schema(*Sample::descriptor())["properties"]["wait"];
  EXPECT_EQ(schema["type"], "string");
  const std::regex pattern(schema["pattern"].get<std::string>());
  for (const char* good : {"50 ms", "1.5e3 GB/s", "80GiB", "2.5 USD/h", "30%"}) {
    EXPECT_TRUE(std::regex_search(good, pattern)) << good;
  }
  for (const char* bad : {"50", "050 ms", "ms", ".5 s", "50  ms"}) {
    EXPECT_FALSE(std::regex_search(bad, pattern)) << bad;
  }
}

TEST(JsonSchema, LargeNumbersAreTextWithASuffixToo) {
  const auto schema = json_schema(*Sample::descriptor())["properties"]["big"];
  EXPECT_EQ(schema["type"].dump(), R"(["integer","string"])");
  const std::regex pattern(schema["pattern"].get<std::string>());
  for (const char* good : {"2T", "1.5M", "300B", "10k"}) {
    EXPECT_TRUE(std::regex_search(good, pattern)) << good;
  }
  for (const char* bad : {"2", "2t", "2 T", "T", "02T"}) {
    EXPECT_FALSE(std::regex_search(bad, pattern)) << bad;
  }
}

TEST(JsonSchema, EveryReferenceIsDefined) {
  const auto schema = json_schema(*Sample::descriptor());
  const std::string text = schema.dump();
  const std::regex reference("#/\\$defs/(\\w+)");
  int found = 0;
  for (auto it = std::sregex_iterator(text.begin(), text.end(), reference);
       it != std::sregex_iterator(); ++it, ++found) {
    EXPECT_TRUE(schema["$defs"].contains((*it)[1].str())) << (*it)[1];
  }
  EXPECT_GT(found, 3);
}

}  // namespace
}  // namespace orrery

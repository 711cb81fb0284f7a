// Keys of a scenario that have moved to the top of the file (core/schema/moved_keys.hpp): files,
// overrides and stored messages of earlier versions mean the same as present ones.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include <fmt/format.h>
#include <google/protobuf/unknown_field_set.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/schema/format_conversion.hpp"
#include "core/schema/moved_keys.hpp"
#include "core/schema/yaml_loader.hpp"
#include "core/schema/yaml_writer.hpp"
#include "traces/scenario/scenario.hpp"

namespace orrery {
namespace {

namespace fs = std::filesystem;

constexpr int kFormerField = 6;  // field of the checkpoints in Live

constexpr const char* kKillOneRank = ORRERY_SOURCE_DIR "/examples/kill-one-rank.yaml";

std::string text_of(const fs::path& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

Scenario read(const std::string& text) {
  Scenario scenario;
  load_yaml(text, "a.yaml", scenario);
  return scenario;
}

/// Returns the shipped scenarios with checkpoints, as text.
std::vector<std::string> shipped_texts() {
  std::vector<std::string> texts;
  for (const auto& entry : fs::recursive_directory_iterator(ORRERY_SOURCE_DIR "/examples")) {
    if (entry.path().extension() != ".yaml") continue;
    const std::string text = text_of(entry.path());
    Scenario scenario;
    if (!check_yaml(text, entry.path(), scenario).empty()) continue;  // a cluster or a replay
    if (scenario.has_checkpoints()) texts.push_back(text);
  }
  return texts;
}

/// Returns the scenario as JSON with the checkpoints at their earlier place.
std::string earlier_json(const Scenario& scenario) {
  nlohmann::ordered_json values = to_yaml_json(scenario);
  const nlohmann::ordered_json checkpoints = values["checkpoints"];
  values.erase("checkpoints");
  values["live"]["checkpoints"] = checkpoints;
  // A recorded program states its sequences: 0 is not written in a scenario.
  if (values["job"].value("sequence_length", 1) == 0) values["job"].erase("sequence_length");
  return values.dump();
}

/// Returns the text with the lines of `checkpoints` at their earlier place, in an own map `live`.
std::string earlier_text(const std::string& text) {
  std::string out, line;
  bool inside = false;
  for (std::istringstream stream(text); std::getline(stream, line);) {
    const bool begins = line.starts_with("checkpoints:");
    if (begins) out += "live:\n";
    inside = begins || (inside && line.starts_with(' '));
    out += (inside ? "  " : "") + line + "\n";
  }
  return out;
}

TEST(MovedKeys, EveryShippedScenarioMeansTheSameInItsEarlierForm) {
  const std::vector<std::string> texts = shipped_texts();
  ASSERT_GE(texts.size(), 10u);
  for (const std::string& text : texts) {
    const Scenario now = read(text);
    for (const std::string& earlier : {earlier_json(now), earlier_text(text)}) {
      ASSERT_EQ(read(earlier).SerializeAsString(), now.SerializeAsString()) << earlier;
      const ConvertedText done = convert_text(earlier, "a.yaml", "orrery.Scenario", {1, 0});
      EXPECT_EQ(done.changes.size(), 1u);
      EXPECT_EQ(read(done.text).SerializeAsString(), now.SerializeAsString()) << done.text;
    }
    const ConvertedText back =
        convert_text(earlier_text(text), "a.yaml", "orrery.Scenario", {1, 0});
    EXPECT_EQ(back.text, convert_text(text, "a.yaml", "orrery.Scenario", {1, 0}).text)
        << "comments and layout";
  }
}

/// Returns the scenario of examples/kill-one-rank.yaml with overrides.
Scenario with(const std::vector<std::string>& overrides) {
  return load_scenario(kKillOneRank, overrides).scenario;
}

TEST(MovedKeys, OverridesReachTheKeyByBothPaths) {
  const std::vector<std::string> now = {"checkpoints.folder=kept", "checkpoints.every=7"};
  const Scenario expected = with(now);
  EXPECT_EQ(expected.checkpoints().every(), 7u);
  const std::vector<std::string> forms[] = {
      {"live.checkpoints.folder=kept", "live.checkpoints.every=7"},
      {"live.checkpoints={folder: kept, every: 7}"},
      {"live={checkpoints: {folder: kept, every: 7}}"},
      {"live={checkpoints: {folder: old, write: 3 s}}", "checkpoints={folder: kept, every: 7}"},
      {"checkpoints={folder: kept, every: 9}", "live.checkpoints.every=7"},
  };
  for (const std::vector<std::string>& earlier : forms) {
    EXPECT_EQ(scenario_hash(with(earlier)), scenario_hash(expected)) << earlier.front();
  }
  EXPECT_FALSE(with({"live={tls: false, checkpoints: {folder: kept}}"}).live().tls());
}

/// Returns column and message of the refusal of an override.
std::string refusal_of(const std::string& override) {
  try {
    with({override});
  } catch (const Error& error) {
    const auto place = error.source_place();
    return fmt::format("{}: {} [{}]", place ? place->column : 0, error.message(),
                       place ? place->line_text : "");
  }
  return "accepted";
}

TEST(MovedKeys, MisspeltKeysAreNamedAtTheirPlaceWithTheNearestName) {
  EXPECT_EQ(refusal_of("checkpoints.evry=3"),
            "13: unknown key 'evry'; did you mean 'every'? [checkpoints.evry=3]");
  EXPECT_EQ(refusal_of("live.checkpoints.evry=3"),
            "18: unknown key 'evry'; did you mean 'every'? [live.checkpoints.evry=3]");
  EXPECT_EQ(refusal_of("live.checkpoints.every=x").substr(0, 4), "24: ");
  EXPECT_EQ(refusal_of("live.chekpoints.every=3"),
            "6: unknown key 'chekpoints'; did you mean 'checkpoints' at the top of the file? "
            "[live.chekpoints.every=3]");
  EXPECT_EQ(refusal_of("checkpoint.every=3"),
            "1: unknown key 'checkpoint'; did you mean 'checkpoints'? [checkpoint.every=3]");
}

TEST(MovedKeys, ProblemsOfAnEarlierPlaceAreShownThere) {
  const std::string text = text_of(kKillOneRank) + "\nlive: {checkpoints: {every: 3}}\n";
  const std::vector<Error> problems = check_scenario(text, "a.yaml");
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].message(), "missing key 'folder' in checkpoints");
  EXPECT_EQ(problems[0].source_place()->line_text, "live: {checkpoints: {every: 3}}");
  EXPECT_EQ(problems[0].source_place()->column, 21);
}

TEST(MovedKeys, StoredMessagesOfEarlierProgramsHaveTheirValues) {
  const Scenario now = with({"checkpoints={folder: kept, every: 7}"});
  Scenario earlier = now;
  earlier.clear_checkpoints();
  Live& live = *earlier.mutable_live();
  live.GetReflection()->MutableUnknownFields(&live)->AddLengthDelimited(
      kFormerField, now.checkpoints().SerializeAsString());
  Scenario stored;
  ASSERT_TRUE(stored.ParseFromString(earlier.SerializeAsString()));
  EXPECT_FALSE(stored.has_checkpoints());
  convert_stored(stored);
  EXPECT_EQ(stored.SerializeAsString(), now.SerializeAsString());
  convert_stored(stored);
  EXPECT_EQ(stored.SerializeAsString(), now.SerializeAsString());

  live.GetReflection()->MutableUnknownFields(&live)->AddLengthDelimited(kFormerField, "\xFF");
  EXPECT_THROW(convert_stored(earlier), Error);
  Scenario bare;
  convert_stored(bare);
  EXPECT_FALSE(bare.has_live());
}

}  // namespace
}  // namespace orrery

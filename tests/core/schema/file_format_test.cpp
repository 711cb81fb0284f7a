#include "core/schema/file_format.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"

namespace orrery {
namespace {

constexpr std::string_view kScenario = "orrery.Scenario";

std::string refusal(const std::string& text) {
  try {
    YamlNode root = parse_yaml_tree(text, "a.yaml");
    convert_tree(root, kScenario, text, "a.yaml");
  } catch (const Error& error) {
    return std::string(error.what()).substr(0, std::string(error.what()).find('\n'));
  }
  return {};
}

TEST(FileFormat, TheNewestVersionIsReadWithoutAChange) {
  const std::string text = "format: \"1.0\"\nname: a\nfailures: {scale: 1}\n";
  YamlNode root = parse_yaml_tree(text, "a.yaml");
  convert_tree(root, kScenario, text, "a.yaml");
  ASSERT_EQ(root.keys.size(), 2u);
  EXPECT_EQ(root.keys[0].name, "name");
  EXPECT_EQ(root.items[1].keys.size(), 1u);
}

TEST(FileFormat, AnEarlierVersionGetsItsDefaults) {
  const std::string text = "name: a\nformat: 0.9\nfailures:\n  scale: 1\n";
  YamlNode root = parse_yaml_tree(text, "a.yaml");
  convert_tree(root, kScenario, text, "a.yaml");
  ASSERT_EQ(root.keys.size(), 2u);
  ASSERT_EQ(root.items[1].keys.size(), 2u);
  EXPECT_EQ(root.items[1].keys[1].name, "until");
  EXPECT_EQ(root.items[1].items[1].text, "60 d");
}

TEST(FileFormat, AKeyThatTheFileStatesStays) {
  const std::string text = "format: 0.9\nfailures: {until: 3 d}\n";
  YamlNode root = parse_yaml_tree(text, "a.yaml");
  convert_tree(root, kScenario, text, "a.yaml");
  ASSERT_EQ(root.items[0].keys.size(), 1u);
  EXPECT_EQ(root.items[0].items[0].text, "3 d");
}

TEST(FileFormat, OtherVersionsAreRefusedByNameWithTheirPlace) {
  EXPECT_EQ(refusal("name: a\nformat: 2.0\n"),
            "a.yaml:2:9: error: expected format 0.9 to 1.0, found '2.0'; the file needs a newer "
            "orrery");
  EXPECT_EQ(refusal("format: \"1.1\"\n").substr(0, 60),
            "a.yaml:1:9: error: expected format 0.9 to 1.0, found '1.1'; ");
  EXPECT_NE(refusal("format: 0.8\n").find("no orrery has written this format"), std::string::npos);
  for (const char* text : {"format: 1\n", "format: one\n", "format: 1.0.0\n", "format: -1.0\n",
                           "format: [1, 0]\n", "format:\n"}) {
    EXPECT_NE(refusal(text).find("write MAJOR.MINOR"), std::string::npos) << text;
  }
}

TEST(FileFormat, AMessageThatIsNoFileKeepsItsKey) {
  const std::string text = "format: 7\n";
  YamlNode root = parse_yaml_tree(text, "a.yaml");
  convert_tree(root, "orrery.Layout", text, "a.yaml");
  EXPECT_EQ(root.keys.size(), 1u);
}

TEST(FileFormat, TextKeepsCommentsAndOrder) {
  const std::string text = "# a run\nname: a  # short\nfailures:\n  scale: 1  # all\n";
  const ConvertedText now = convert_text(text, "a.yaml", kScenario, kFileFormat);
  EXPECT_EQ(now.text, "# a run\nformat: \"1.0\"\nname: a  # short\nfailures:\n  scale: 1  # all\n");
  EXPECT_TRUE(now.changes.empty());
  const ConvertedText earlier = convert_text(text, "a.yaml", kScenario, {0, 9});
  EXPECT_EQ(earlier.text,
            "# a run\nformat: \"1.0\"\nname: a  # short\nfailures:\n"
            "  until: \"60 d\"\n  scale: 1  # all\n");
  EXPECT_EQ(earlier.changes, std::vector<std::string>{"failures.until: 60 d"});
  const ConvertedText again = convert_text(earlier.text, "a.yaml", kScenario, {0, 9});
  EXPECT_EQ(again.text, earlier.text);
  EXPECT_EQ(again.from, kFileFormat);
}

TEST(FileFormat, TextInFlowStyleIsConvertedToo) {
  const std::string text = R"({"format": "0.9", "failures": {"scale": 1}})";
  const ConvertedText now = convert_text(text, "a.json", kScenario, kFileFormat);
  EXPECT_EQ(now.text, R"({"format": "1.0", "failures": {"until": "60 d", "scale": 1}})");
  EXPECT_EQ(convert_text("{name: a}", "a.yaml", kScenario, kFileFormat).text,
            R"({"format": "1.0", name: a})");
  EXPECT_THROW(convert_text("- a\n", "a.yaml", kScenario, kFileFormat), Error);
}

}  // namespace
}  // namespace orrery

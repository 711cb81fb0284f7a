#include "core/schema/format_conversion.hpp"

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

TEST(FormatConversion, TheNewestVersionIsReadWithoutAChange) {
  const std::string text = "format: \"1.1\"\nname: a\nfailures: {scale: 1}\n";
  YamlNode root = parse_yaml_tree(text, "a.yaml");
  convert_tree(root, kScenario, text, "a.yaml");
  ASSERT_EQ(root.keys.size(), 2u);
  EXPECT_EQ(root.keys[0].name, "name");
  EXPECT_EQ(root.items[1].keys.size(), 1u);
}

TEST(FormatConversion, AnEarlierVersionGetsItsDefaults) {
  const std::string text = "name: a\nformat: 0.9\nfailures:\n  scale: 1\n";
  YamlNode root = parse_yaml_tree(text, "a.yaml");
  convert_tree(root, kScenario, text, "a.yaml");
  ASSERT_EQ(root.keys.size(), 2u);
  ASSERT_EQ(root.items[1].keys.size(), 2u);
  EXPECT_EQ(root.items[1].keys[1].name, "until");
  EXPECT_EQ(root.items[1].items[1].text, "60 d");
}

TEST(FormatConversion, AKeyThatTheFileStatesStays) {
  const std::string text = "format: 0.9\nfailures: {until: 3 d}\n";
  YamlNode root = parse_yaml_tree(text, "a.yaml");
  convert_tree(root, kScenario, text, "a.yaml");
  ASSERT_EQ(root.items[0].keys.size(), 1u);
  EXPECT_EQ(root.items[0].items[0].text, "3 d");
}

TEST(FormatConversion, AMessageThatIsNoFileKeepsItsKey) {
  const std::string text = "format: 7\n";
  YamlNode root = parse_yaml_tree(text, "a.yaml");
  convert_tree(root, "orrery.Layout", text, "a.yaml");
  EXPECT_EQ(root.keys.size(), 1u);
}

TEST(FormatConversion, TextKeepsCommentsAndOrder) {
  const std::string text = "# a run\nname: a  # short\nfailures:\n  scale: 1  # all\n";
  const ConvertedText now = convert_text(text, "a.yaml", kScenario, kFileFormat);
  EXPECT_EQ(now.text, "# a run\nformat: \"1.1\"\nname: a  # short\nfailures:\n  scale: 1  # all\n");
  EXPECT_TRUE(now.changes.empty());
  const ConvertedText earlier = convert_text(text, "a.yaml", kScenario, {0, 9});
  EXPECT_EQ(earlier.text,
            "# a run\nformat: \"1.1\"\nname: a  # short\nfailures:\n"
            "  until: \"60 d\"\n  scale: 1  # all\n");
  EXPECT_EQ(earlier.changes,
            std::vector<std::string>{"added failures.until: 60 d (the default before)"});
  const ConvertedText again = convert_text(earlier.text, "a.yaml", kScenario, {0, 9});
  EXPECT_EQ(again.text, earlier.text);
  EXPECT_EQ(again.from, kFileFormat);
}

TEST(FormatConversion, TextInFlowStyleIsConvertedToo) {
  const std::string text = R"({"format": "0.9", "failures": {"scale": 1}})";
  const ConvertedText now = convert_text(text, "a.json", kScenario, kFileFormat);
  EXPECT_EQ(now.text, R"({"format": "1.1", "failures": {"until": "60 d", "scale": 1}})");
  EXPECT_EQ(convert_text("{name: a}", "a.yaml", kScenario, kFileFormat).text,
            R"({"format": "1.1", name: a})");
  EXPECT_THROW(convert_text("- a\n", "a.yaml", kScenario, kFileFormat), Error);
}

/// Returns the keys of the root after the conversion, and those of `live` after a colon.
std::string keys_after(const std::string& text) {
  YamlNode root = parse_yaml_tree(text, "a.yaml");
  convert_tree(root, kScenario, text, "a.yaml");
  std::string keys;
  for (std::size_t i = 0; i < root.keys.size(); ++i) {
    keys += root.keys[i].name + " ";
    for (const YamlKey& each : root.items[i].keys) {
      if (root.keys[i].name == "live") keys += ":" + each.name + " ";
    }
  }
  return keys;
}

TEST(FormatConversion, AMovedKeyIsReadAtBothPlacesInEveryVersion) {
  for (const char* version : {"", "format: 0.9\n", "format: \"1.0\"\n", "format: \"1.1\"\n"}) {
    const std::string head = version;
    EXPECT_EQ(keys_after(head + "live: {tls: false, checkpoints: {folder: a}}\n"),
              "live :tls checkpoints ");
    EXPECT_EQ(keys_after(head + "checkpoints: {folder: a}\n"), "checkpoints ");
    EXPECT_EQ(keys_after(head + "live: {checkpoints: {every: 2, folder: a}}\n"
                                "checkpoints:\n  folder: 'a'\n  every: 2\n"),
              "checkpoints ");
  }
  EXPECT_EQ(keys_after("live: 3\n"), "live ");
  EXPECT_EQ(keys_after("live: {checkpoints: 1, checkpoints: 2}\n"),
            "checkpoints checkpoints ")
      << "the loader refuses a key that is there twice";
}

TEST(FormatConversion, TwoValuesOfAMovedKeyAreRefusedAtTheEarlierPlace) {
  const std::string text =
      "name: a\nlive:\n  checkpoints: {folder: a, every: 2}\ncheckpoints: {folder: a, every: 3}\n";
  const std::string said =
      "a.yaml:3:3: error: expected 'checkpoints' once, found another value at the top of the file, "
      "on line 4; leave 'checkpoints' out here";
  EXPECT_EQ(refusal(text), said);
  EXPECT_NE(refusal("checkpoints: {folder: a}\nlive: {checkpoints: {folder: a, every: 3}}\n"), "");
  EXPECT_THROW(convert_text(text, "a.yaml", kScenario, kFileFormat), Error);
}

/// Text with a moved key, and the text after the conversion without its first line, the format.
struct MovedText {
  const char *before, *after;
};
constexpr MovedText kMovedTexts[] = {
    {"live:\n  checkpoints:\n    folder: a  # c\n\n    every: 2\nrun: {steps: 1}\n",
     "checkpoints:\n  folder: a  # c\n\n  every: 2\nrun: {steps: 1}\n"},
    {"live:  # one\n  # two\n  checkpoints: {folder: a}  # three\n\n# four\nrun: {steps: 1}\n",
     "# one\n# two\ncheckpoints: {folder: a}  # three\n\n# four\nrun: {steps: 1}\n"},
    {"live:\n  tls: false\n  # c\n  checkpoints:\n    folder: a\n    # deep\n  # listen\n"
     "  listen: b\n\nrun: {steps: 1}",
     "live:\n  tls: false\n  # listen\n  listen: b\n# c\ncheckpoints:\n  folder: a\n  # deep\n"
     "\nrun: {steps: 1}"},
    {"run: {steps: 1}\nlive:\n    checkpoints:\n        folder: a\n    tls: true",
     "run: {steps: 1}\nlive:\n    tls: true\ncheckpoints:\n    folder: a\n"},
    {"live:\n  tls: true\n  checkpoints: {\n    folder: a,\n  }\nrun: {steps: 1}\n",
     "live:\n  tls: true\ncheckpoints: {\n  folder: a,\n}\nrun: {steps: 1}\n"},
    {"live: {checkpoints: {folder: 'it''s, {a}', every: 2}}  # c\nrun: {steps: 1}\n",
     "checkpoints: {folder: 'it''s, {a}', every: 2}  # c\nrun: {steps: 1}\n"},
    {"live: {tls: true, checkpoints: {folder: \"a\\\"}\"}, listen: b}  # c\nrun: {steps: 1}\n",
     "live: {tls: true, listen: b}  # c\ncheckpoints: {folder: \"a\\\"}\"}\nrun: {steps: 1}\n"},
    {"live: {tls: true, checkpoints: {folder: a}}",
     "live: {tls: true}\ncheckpoints: {folder: a}\n"},
    {"live: {checkpoints: {folder: a}}\ncheckpoints: {folder: a}\n",
     "checkpoints: {folder: a}\n"},
    {"live:\n  checkpoints: {folder: a}\n  tls: true\ncheckpoints:\n  folder: a\n",
     "live:\n  tls: true\ncheckpoints:\n  folder: a\n"},
};

TEST(FormatConversion, TextOfAMovedKeyKeepsCommentsAndLayout) {
  for (const MovedText& each : kMovedTexts) {
    const ConvertedText now = convert_text(each.before, "a.yaml", kScenario, kFileFormat);
    // The key `format` is before the first key.
    std::string expected = each.after;
    expected.insert(expected.starts_with("# one") ? std::string("# one\n# two\n").size() : 0,
                    "format: \"1.1\"\n");
    EXPECT_EQ(now.text, expected);
    EXPECT_EQ(now.changes, std::vector<std::string>{"moved live.checkpoints to checkpoints"});
    const ConvertedText again = convert_text(now.text, "a.yaml", kScenario, {1, 0});
    EXPECT_EQ(again.text, now.text);
    EXPECT_TRUE(again.changes.empty());
  }
  const std::string json =
      R"({"name": "a", "live": {"checkpoints": {"folder": "a"}, "tls": true}, "run": {}})";
  EXPECT_EQ(convert_text(json, "a.json", kScenario, {1, 0}).text,
            R"({"format": "1.1", "name": "a", "checkpoints": {"folder": "a"}, )"
            R"("live": {"tls": true}, "run": {}})");
  const std::string both = "format: 0.9\nlive: {checkpoints: {folder: a}}\nfailures: {scale: 1}\n";
  const ConvertedText two = convert_text(both, "a.yaml", kScenario, kFileFormat);
  EXPECT_EQ(two.text,
            "format: \"1.1\"\ncheckpoints: {folder: a}\n"
            "failures: {\"until\": \"60 d\", scale: 1}\n");
  EXPECT_EQ(two.changes.size(), 2u);
}

TEST(FormatConversion, ALayoutThatCannotBeMovedIsRefusedWithTheRemedy) {
  try {
    convert_text("? live\n: checkpoints: {folder: a}\n", "a.yaml", kScenario, kFileFormat);
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("move 'checkpoints' to the top of the file by hand"),
              std::string::npos);
    EXPECT_TRUE(error.source_place().has_value());
  }
}

}  // namespace
}  // namespace orrery

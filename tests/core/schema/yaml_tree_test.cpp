#include "core/schema/yaml_tree.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace orrery {
namespace {

using Kind = YamlNode::Kind;

std::string repeated(const std::string& part, std::size_t count) {
  std::string all;
  for (std::size_t i = 0; i < count; ++i) all += part;
  return all;
}

/// "line:column: message" of the Error that `text` is refused with.
std::string refusal(const std::string& text) {
  try {
    parse_yaml_tree(text, "f.yaml");
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::bad_input || !error.source_place())
      return "an error of another kind";
    return std::to_string(error.source_place()->line) + ":" +
           std::to_string(error.source_place()->column) + ": " + error.message();
  }
  return "accepted";
}

bool refused_with(const std::string& text, const std::string& part) {
  const std::string answer = refusal(text);
  EXPECT_NE(answer.find(part), std::string::npos) << text.substr(0, 60) << " -> " << answer;
  return answer.find(part) != std::string::npos;
}

TEST(YamlTree, KeepsStructureTextAndPlaces) {
  const YamlNode root = parse_yaml_tree("a: 010\nb:\n  - 'x'\n  - {c: NO}\n", "f.yaml");
  ASSERT_EQ(root.kind, Kind::map);
  ASSERT_EQ(root.items.size(), 2u);
  EXPECT_EQ(root.keys[1].name, "b");
  EXPECT_EQ(root.items[0].text, "010");
  EXPECT_TRUE(root.items[0].plain);
  EXPECT_EQ(root.items[0].line, 1);
  EXPECT_EQ(root.items[0].column, 4);
  const YamlNode& list = root.items[1];
  ASSERT_EQ(list.kind, Kind::sequence);
  EXPECT_EQ(list.items[0].text, "x");
  EXPECT_FALSE(list.items[0].plain);
  EXPECT_EQ(list.items[1].items[0].text, "NO");
  EXPECT_EQ(list.items[1].items[0].line, 4);
  EXPECT_EQ(list.items[1].items[0].column, 9);
}

TEST(YamlTree, ATabInTheIndentationIsNamed) {
  EXPECT_EQ(refusal("a:\n\tb: 1\n"), "2:1: a tab in the indentation: YAML indents with spaces");
  EXPECT_TRUE(refused_with("a: 1: 2\n", "not valid YAML: illegal map value"));
}

TEST(YamlTree, EmptyTextIsNull) {
  EXPECT_EQ(parse_yaml_tree("", "f.yaml").kind, Kind::null);
  EXPECT_EQ(parse_yaml_tree("# only a comment\n", "f.yaml").kind, Kind::null);
}

TEST(YamlTree, ByteOrderMarkIsSkipped) {
  EXPECT_EQ(parse_yaml_tree("\xEF\xBB\xBF" "a: 1", "f.yaml").items.at(0).column, 4);
}

TEST(YamlTree, MissingValueStandsAtItsKey) {
  const YamlNode root = parse_yaml_tree("a: 1\nb:\n", "f.yaml");
  EXPECT_EQ(root.items.at(1).kind, Kind::null);
  EXPECT_EQ(root.items.at(1).line, 2);
}

TEST(YamlTree, WhatHidesMeaningIsRefusedWithItsPlace) {
  EXPECT_TRUE(refused_with("a: &x 1", "1:4: anchors"));
  EXPECT_TRUE(refused_with("a: &x\nb: 1", "1:4: anchors"));
  EXPECT_TRUE(refused_with("b: {a: &x {c: 1}}", "1:8: anchors"));
  EXPECT_TRUE(refused_with("a: *x", "1:4: aliases"));
  EXPECT_TRUE(refused_with("a: 1\n<<: {b: 2}", "2:1: merge keys"));
  EXPECT_TRUE(refused_with("a: !!int 1", "1:4: tags"));
  EXPECT_TRUE(refused_with("a: ! 1", "1:4: tags"));
  EXPECT_TRUE(refused_with("a: !own [1]", "1:4: tags"));
  EXPECT_TRUE(refused_with("a: 1\n---\nb: 2", "2:1: a file holds one document"));
  EXPECT_TRUE(refused_with("? {a: 1}\n: b", "a key must be a name"));
  EXPECT_TRUE(refused_with(": 1", "1:1: a key is missing"));
}

TEST(YamlTree, BrokenTextIsRefusedWithItsPlace) {
  EXPECT_TRUE(refused_with("a: [1, 2\nb: c", "2:2: not valid YAML"));
  EXPECT_TRUE(refused_with("a: 1\n}", "2:1: not valid YAML"));
  EXPECT_TRUE(refused_with("a: \"open", "not valid YAML"));
  EXPECT_TRUE(refused_with("a: \"\\ud800\"", "not valid YAML"));
  EXPECT_TRUE(refused_with("%YAML 9.0\n---\na: 1", "not valid YAML"));
  EXPECT_TRUE(refused_with(std::string("a: \0", 4), "1:4: byte 0x00 is not text"));
  EXPECT_TRUE(refused_with("a: 1\nb: \xFF", "2:4: byte 0xFF is not text"));
}

TEST(YamlTree, DepthIsBounded) {
  const auto nested = [](std::size_t depth) { return repeated("[", depth).append(depth, ']'); };
  EXPECT_EQ(refusal(nested(200)), "accepted");
  EXPECT_TRUE(refused_with(nested(201), "nested deeper than 200 levels"));
  std::string maps;
  for (std::size_t i = 0; i < 300; ++i) maps.append(std::string(i, ' ')).append("a:\n");
  EXPECT_TRUE(refused_with(maps, "nested deeper than 200 levels"));
  EXPECT_TRUE(refused_with(repeated("- ", 300), "nested deeper than 200 levels"));
}

TEST(YamlTree, HostileNestingDoesNotOverflowTheStack) {
  for (const char* part : {"[", "{", "[a,", "{a: ", "- ", "? ", "[\n", "[1,", "[a: ", "\"a\": "}) {
    EXPECT_NE(refusal(repeated(part, 100'000)), "accepted") << part;
  }
}

TEST(YamlTree, BracketsInTextDoNotCount) {
  EXPECT_EQ(refusal(fmt::format("a: '{}'", repeated("[", 500))), "accepted");
  EXPECT_EQ(refusal(fmt::format("# {}\na: 1", repeated("{", 500))), "accepted");
}

TEST(YamlTree, SizeIsBounded) {
  std::string most = "a: ";
  most.resize(kMaxYamlBytes, 'x');
  EXPECT_EQ(refusal(most), "accepted");
  EXPECT_EQ(refusal(most + "x"), "1:1: larger than 16 MiB");
  EXPECT_TRUE(refused_with(repeated("- 1\n", kMaxYamlValues), "more than 1000000 values"));
}

}  // namespace
}  // namespace orrery

#include "core/schema/plain_yaml.hpp"

#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/random.hpp"

namespace orrery {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolders[] = {"/topologies/catalog", "/traces/catalog", "/examples",
                                    "/tests/topologies/samples"};

/// Texts of the shipped YAML files.
std::vector<std::string> shipped_texts() {
  std::vector<std::string> texts;
  for (const char* folder : kFolders) {
    for (const auto& entry : fs::directory_iterator(std::string(ORRERY_SOURCE_DIR) + folder)) {
      if (entry.path().extension() != ".yaml") continue;
      std::ostringstream text;
      text << std::ifstream(entry.path()).rdbuf();
      texts.push_back(text.str());
    }
  }
  return texts;
}

bool is_equal(const YamlNode& a, const YamlNode& b) {
  if (a.kind != b.kind || a.plain != b.plain || a.line != b.line || a.column != b.column) {
    return false;
  }
  if (a.text != b.text || a.keys.size() != b.keys.size() || a.items.size() != b.items.size()) {
    return false;
  }
  for (std::size_t i = 0; i < a.keys.size(); ++i) {
    const YamlKey &one = a.keys[i], &other = b.keys[i];
    if (one.name != other.name || one.line != other.line || one.column != other.column) {
      return false;
    }
  }
  for (std::size_t i = 0; i < a.items.size(); ++i) {
    if (!is_equal(a.items[i], b.items[i])) return false;
  }
  return true;
}

/// Returns true if a text is plain, and then expects the general parser's tree of it.
bool agrees(const std::string& text) {
  if (first_bad_byte(text) != std::string::npos) return false;
  const std::optional<YamlNode> plain = parse_plain_yaml(text);
  if (!plain) return false;
  try {
    EXPECT_TRUE(is_equal(*plain, parse_general_yaml(text, "f.yaml"))) << text;
  } catch (const Error& error) {
    ADD_FAILURE() << error.message() << " in\n" << text;
  }
  return true;
}

TEST(PlainYaml, ReadsTheCataloguesOfAPrediction) {
  for (const char* name : {"/topologies/catalog/gpus.yaml", "/topologies/catalog/kernels.yaml",
                           "/traces/catalog/stacks.yaml", "/traces/catalog/models.yaml"}) {
    std::ostringstream text;
    text << std::ifstream(std::string(ORRERY_SOURCE_DIR) + name).rdbuf();
    EXPECT_TRUE(agrees(text.str())) << name << " is not plain: a prediction begins slowly";
  }
}

TEST(PlainYaml, GivesTheGeneralParsersTreeOfAllShippedFiles) {
  for (const std::string& text : shipped_texts()) agrees(text);
}

TEST(PlainYaml, LeavesOtherTextsToTheGeneralParser) {
  EXPECT_TRUE(agrees("a: 1\nb:\n  - c: x y\n    d: [1, 2]\n  - c: \"q: r\"\n"));
  for (const char* text : {"",
                           "a",
                           "a:\n",
                           "a: b\n  c\n",
                           "a: 'x'\n",
                           "a: {b: 1}\n",
                           "a: \"x\\n\"\n",
                           "a:\n- b\n",
                           "- - a\n",
                           "a: null\n",
                           "a: b: c\n",
                           "a:\tb\n",
                           "a: &x b\n",
                           "- a\n  b\n",
                           "a: [b,\n c]\n",
                           "a: |\n  b\n",
                           "? a\n",
                           "a: b\n b: c\n",
                           "- a: b\n c: d\n",
                           "a: \"b # c\"\n",
                           "a: []\n",
                           "a: 1\r\nb: 2\r\n",
                           "---\na: 1\n",
                           "<<: a\n",
                           "a: b\n...\n",
                           "- a: 1\n- b\n - c\n"}) {
    EXPECT_FALSE(parse_plain_yaml(text)) << text;
  }
}

/// Lines of shipped files with a few changed characters.
TEST(PlainYaml, AgreesWithTheGeneralParserOnChangedTexts) {
  constexpr int kDraws = 20'000, kLines = 12;
  const std::string signs = "  \n\n--::#[],\"'ab1.&*{}|>?!%@`~\\\t";
  std::vector<std::string> lines;
  for (const std::string& text : shipped_texts()) {
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
  }
  Rng random(7);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random.below(n)); };
  int plain = 0;
  for (int draw = 0; draw < kDraws; ++draw) {
    std::string text;
    const std::size_t first = below(lines.size() - kLines);
    for (std::size_t i = 0; i < 1 + below(kLines); ++i) text += lines[first + i] + "\n";
    for (std::size_t i = below(4); i > 0; --i) {
      const std::size_t at = below(text.size());
      if (below(2) == 0) {
        text.insert(at, 1, signs[below(signs.size())]);
      } else {
        text.erase(at, 1 + below(3));
      }
      if (text.empty()) text = "a";
    }
    plain += agrees(text);
    if (HasFailure()) return;
  }
  EXPECT_GT(plain, kDraws / 20) << "too few texts were plain for a comparison";
}

}  // namespace
}  // namespace orrery

// Every shipped example, broken at random, through the loader: the outcome is a scenario or an
// error with a place; never a crash, never another error. ORRERY_SEED and ORRERY_MUTATIONS (for
// each example; 10,000 by default) are read from the environment.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "core/random.hpp"
#include "policies/parameters.pb.h"
#include "traces/scenario.hpp"

namespace orrery {
namespace {

constexpr std::array<std::string_view, 24> kTokens = {
    "&a ",   "*a",   "<<: ", "!!int ", "---\n", "...\n", "1e999", "nan",
    "-1",    "0",    "[",    "{",      "]",     "}",     ": ",    "- ",
    "#",     "\"",   "'",    "|\n",    "\t",    "\xff",  "\r\n",  "99999999999999999999"};

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
    lines.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return lines;
}

// Repeats, drops, swaps or indents whole lines: the text stays YAML more often than not.
std::string mutate_lines(const std::string& text, Rng& rng) {
  std::vector<std::string> lines = lines_of(text);
  const auto here = static_cast<std::ptrdiff_t>(rng.below(lines.size()));
  const auto there = static_cast<std::size_t>(rng.below(lines.size()));
  const std::string line = lines[static_cast<std::size_t>(here)];
  switch (rng.below(4)) {
    case 0: lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(there), line); break;
    case 1: lines.erase(lines.begin() + here); break;
    case 2: std::swap(lines[static_cast<std::size_t>(here)], lines[there]); break;
    default: lines[there].insert(0, "  ");
  }
  std::string mutated;
  for (const std::string& kept : lines) mutated += kept;
  return mutated;
}

std::string mutate_bytes(std::string text, Rng& rng) {
  const std::size_t here = rng.below(text.size());
  switch (rng.below(4)) {
    case 0: text[here] = static_cast<char>(rng.below(256)); break;
    case 1: text.erase(here, 1 + rng.below(20)); break;
    case 2: text.insert(here, kTokens.at(rng.below(kTokens.size()))); break;
    default: text.insert(here, text.substr(rng.below(text.size()), rng.below(200)));
  }
  return text;
}

std::string mutate(std::string text, Rng& rng) {
  const std::uint64_t changes = 1 + rng.below(4);
  for (std::uint64_t i = 0; i < changes && !text.empty(); ++i) {
    text = rng.below(2) == 0 ? mutate_lines(text, rng) : mutate_bytes(std::move(text), rng);
  }
  return text;
}

/// Whether the text is a scenario; anything but that and a placed error fails the test.
bool is_accepted(const std::string& text) {
  try {
    parse_scenario(text, "mutated.yaml", {});
    return true;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input) << error.what() << "\n" << text;
    EXPECT_TRUE(error.place()) << error.what() << "\n" << text;
    if (error.place()) {
      const auto lines = std::count(text.begin(), text.end(), '\n') + 1;
      EXPECT_GE(error.place()->line, 1) << error.what();
      EXPECT_LE(error.place()->line, lines) << error.what() << "\n" << text;
      EXPECT_GE(error.place()->column, 1) << error.what();
    }
    return false;
  }
}

TEST(Mutation, OfEveryExampleIsAScenarioOrAPlacedError) {
  PredictiveRebalanceParameters::descriptor();  // links the policies' parameters in
  const std::uint64_t seed = setting("ORRERY_SEED", 1);
  const std::uint64_t count = setting("ORRERY_MUTATIONS", 10'000);
  std::cout << "seed " << seed << std::endl;
  std::vector<std::filesystem::path> examples;
  for (const auto& entry : std::filesystem::directory_iterator(ORRERY_SOURCE_DIR "/examples")) {
    if (entry.path().extension() == ".yaml") examples.push_back(entry.path());
  }
  std::sort(examples.begin(), examples.end());
  ASSERT_FALSE(examples.empty());
  for (const auto& path : examples) {
    std::ifstream file(path);
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    ASSERT_TRUE(is_accepted(text)) << path << " itself is refused";
    Rng rng = Rng(seed).split(path.filename().string());
    std::uint64_t accepted = 0;
    for (std::uint64_t i = 0; i < count && !HasFailure(); ++i) {
      accepted += is_accepted(mutate(text, rng)) ? 1 : 0;
    }
    ASSERT_FALSE(HasFailure()) << path << ", seed " << seed;
    // Were everything refused, or nothing, the mutations would be no test.
    EXPECT_GT(accepted, count / 100) << path;
    EXPECT_LT(accepted, count * 9 / 10) << path;
  }
}

}  // namespace
}  // namespace orrery

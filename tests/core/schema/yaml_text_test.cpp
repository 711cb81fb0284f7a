#include <gtest/gtest.h>

#include "core/schema/yaml_tree.hpp"

namespace orrery {
namespace {

constexpr std::size_t kNone = std::string_view::npos;

TEST(FirstBadByte, TextOfAnyLanguageIsGood) {
  EXPECT_EQ(first_bad_byte("plain\ttext\nand \xC3\xBC \xE2\x82\xAC \xF0\x9F\x98\x80\r\n"), kNone);
  EXPECT_EQ(first_bad_byte(""), kNone);
}

TEST(FirstBadByte, ControlCharactersAreFound) {
  EXPECT_EQ(first_bad_byte(std::string_view("ab\0c", 4)), 2u);
  EXPECT_EQ(first_bad_byte("a\x1B[31m"), 1u);
  EXPECT_EQ(first_bad_byte("abc\rdef"), 3u);
  EXPECT_EQ(first_bad_byte("\x7F"), 0u);
  EXPECT_EQ(first_bad_byte("ab\xC2\x85"), 2u) << "C1 control characters act on terminals too";
  EXPECT_EQ(first_bad_byte("a\xE2\x80\xAE"), 1u) << "right-to-left override";
}

TEST(FirstBadByte, BrokenUtf8IsFound) {
  EXPECT_EQ(first_bad_byte("a\xFF"), 1u);
  EXPECT_EQ(first_bad_byte("a\xC3"), 1u) << "cut short";
  EXPECT_EQ(first_bad_byte("\xC0\xAF"), 0u) << "overlong";
  EXPECT_EQ(first_bad_byte("\xE0\x80\xAF"), 0u) << "overlong";
  EXPECT_EQ(first_bad_byte("\xED\xA0\x80"), 0u) << "surrogate";
  EXPECT_EQ(first_bad_byte("\xF4\x90\x80\x80"), 0u) << "above U+10FFFF";
}

TEST(Shown, IsShortAndHarmless) {
  EXPECT_EQ(shown("nodes"), "nodes");
  EXPECT_EQ(shown("a\x1B[31m\xFF"), "a?[31m?");
  EXPECT_EQ(shown(std::string(100, 'x')), std::string(60, 'x') + "...");
}

TEST(PlaceIn, ShowsTheLineByteForByte) {
  const SourcePlace place = place_in("one\ntwo \x1B!\nthree", "f.yaml", 2, 5);
  EXPECT_EQ(place.file, "f.yaml");
  EXPECT_EQ(place.line, 2);
  EXPECT_EQ(place.column, 5);
  EXPECT_EQ(place.line_text, "two ?!");
}

}  // namespace
}  // namespace orrery

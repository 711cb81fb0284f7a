#include "core/schema/file_format.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"

namespace orrery {
namespace {

std::string refusal(const std::string& text) {
  try {
    stated_format(parse_yaml_tree(text, "a.yaml"), text, "a.yaml");
  } catch (const Error& error) {
    return std::string(error.what()).substr(0, std::string(error.what()).find('\n'));
  }
  return {};
}

TEST(FileFormat, OtherVersionsAreRefusedByNameWithTheirPlace) {
  EXPECT_EQ(refusal("name: a\nformat: 2.0\n"),
            "a.yaml:2:9: error: expected format 0.9 to 1.1, found '2.0'; the file needs a newer "
            "orrery");
  EXPECT_EQ(refusal("format: \"1.2\"\n").substr(0, 60),
            "a.yaml:1:9: error: expected format 0.9 to 1.1, found '1.2'; ");
  EXPECT_NE(refusal("format: 0.8\n").find("no orrery has written this format"), std::string::npos);
  for (const char* text : {"format: 1\n", "format: one\n", "format: 1.0.0\n", "format: -1.0\n",
                           "format: [1, 0]\n", "format:\n"}) {
    EXPECT_NE(refusal(text).find("write MAJOR.MINOR"), std::string::npos) << text;
  }
}

TEST(FileFormat, AVersionIsReadFromTheTopOfTheFileOnly) {
  const auto stated = [](const std::string& text) {
    return stated_format(parse_yaml_tree(text, "a.yaml"), text, "a.yaml");
  };
  EXPECT_EQ(stated("name: a\nformat: \"1.0\"\n"), (FormatVersion{1, 0}));
  EXPECT_EQ(stated("format: 0.9\n"), kOldestFileFormat);
  EXPECT_FALSE(stated("name: a\nlive: {format: 0.9}\n").has_value());
  EXPECT_FALSE(stated("- format: 0.9\n").has_value());
}

}  // namespace
}  // namespace orrery

// Versions of the formats of YAML files (scenario, topology, replay of a job log), and the
// conversion of files of earlier versions. A file states its version with the key `format` at its
// top; a file without the key has the newest version. A version is MAJOR.MINOR as in semantic
// versioning: keys are added with MINOR, and change their meaning or are removed with MAJOR. Called
// by yaml_loader.cpp and `orrery convert`. Pure functions; thread-safe.
//
//   version  since        difference
//   0.9      2026-11-21   first version
//   1.0      2026-11-26   failures have no end without `failures.until`; before: 60 days
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/schema/yaml_tree.hpp"

namespace orrery {

/// Version of a format, for example 1.0.
struct FormatVersion {
  std::uint32_t major = 0, minor = 0;
  auto operator<=>(const FormatVersion&) const = default;
};
/// Returns the version as text, for example "1.0".
std::string format_text(FormatVersion version);

/// Version that files of all kinds have if they state none, and that `orrery convert` writes.
inline constexpr FormatVersion kFileFormat{1, 0};
/// Oldest version that is converted.
inline constexpr FormatVersion kOldestFileFormat{0, 9};

/// Key that states the version of a file.
inline constexpr std::string_view kFormatKey = "format";

/// Returns the name of the kind of file of a message, for example "scenario" for "orrery.Scenario";
/// nothing for a message that is no file with a format.
std::optional<std::string_view> kind_of_file(std::string_view message);

/// Returns the version that the root of a file states; nothing without the key `format`. `text` and
/// `file` are for messages. Throws bad_input with the place for a value that is no version, and for
/// a version that is newer than kFileFormat or older than kOldestFileFormat.
std::optional<FormatVersion> stated_format(const YamlNode& root, std::string_view text,
                                           const std::string& file);

/// Converts the tree of a file to kFileFormat, and removes the key `format`: every key that the
/// version of the file did not need gets its earlier default. Does nothing for a message without a
/// format. Throws as stated_format().
void convert_tree(YamlNode& root, std::string_view message, std::string_view text,
                  const std::string& file);

/// Text of a file after its conversion.
struct ConvertedText {
  std::string text;
  FormatVersion from;                ///< version of the file
  std::vector<std::string> changes;  ///< for example "failures.until: 60 d"
};

/// Returns the text of a file, converted to kFileFormat, with the key `format`. Comments, order and
/// all other bytes stay. `assumed`: version of a file that states none. Throws as stated_format(),
/// and bad_input for a text that is no YAML map.
ConvertedText convert_text(std::string_view text, const std::string& file, std::string_view message,
                           FormatVersion assumed);

}  // namespace orrery

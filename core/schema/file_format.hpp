// Versions of the formats of YAML files (scenario, topology, replay of a job log). A file states
// its version with the key `format` at its top; a file without the key has the newest version. A
// version is MAJOR.MINOR as in semantic versioning: keys are added with MINOR, and change their
// meaning or are removed with MAJOR. A key that moved to the top of the file is read at its earlier
// place too, in every version of the same MAJOR (moved_keys.hpp); format_conversion.hpp converts
// files of earlier versions. Called by format_conversion.cpp, the writers of YAML and of JSON
// schemas, and `orrery convert`. Pure functions; thread-safe.
//
//   version  since        difference
//   0.9      2026-11-21   first version
//   1.0      2026-11-26   failures have no end without `failures.until`; before: 60 days
//   1.1      2026-11-29   `live.checkpoints` is `checkpoints`
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/schema/yaml_tree.hpp"

namespace orrery {

/// Version of a format, for example 1.0.
struct FormatVersion {
  std::uint32_t major = 0, minor = 0;
  auto operator<=>(const FormatVersion&) const = default;
};
/// Returns the version as text, for example "1.0".
std::string format_text(FormatVersion version);

/// All versions, the oldest first.
inline constexpr std::array<FormatVersion, 3> kFileFormats{{{0, 9}, {1, 0}, {1, 1}}};
/// Version that files of all kinds have if they state none, and that `orrery convert` writes.
inline constexpr FormatVersion kFileFormat = kFileFormats.back();
/// Oldest version that is converted.
inline constexpr FormatVersion kOldestFileFormat = kFileFormats.front();

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

}  // namespace orrery

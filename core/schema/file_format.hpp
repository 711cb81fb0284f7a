// Versions of the formats of YAML files (scenario, topology, replay of a job log), and the
// conversion of files of earlier versions. A file states its version with the key `format` at its
// top; a file without the key has the newest version. A version is MAJOR.MINOR as in semantic
// versioning: keys are added with MINOR, and change their meaning or are removed with MAJOR. A key
// that moved to the top of the file is read at its earlier place too, in every version of the same
// MAJOR. Called by yaml_loader.cpp, set_field.cpp, the reader of logs and `orrery convert`. Pure
// functions; thread-safe.
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
#include <vector>

#include <google/protobuf/message.h>

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

/// Converts the tree of a file to kFileFormat, and removes the key `format`: every key that the
/// version of the file did not need gets its earlier default, and a key that moved to the top of
/// the file is moved. Does nothing for a message without a format. Throws as stated_format(), and
/// bad_input for a file that has a moved key at both places, with different values.
void convert_tree(YamlNode& root, std::string_view message, std::string_view text,
                  const std::string& file);

/// Key of a map with its value.
struct YamlEntry {
  YamlKey key;
  YamlNode value;
};
/// Removes from `map`, the value at `path` of a file of `message`, the keys that have moved to the
/// top of the file, and returns them. For example, the map {tls: false, checkpoints: {every: 5}} at
/// "live" of a scenario loses its second key.
std::vector<YamlEntry> take_moved_keys(YamlNode& map, std::string_view message,
                                       std::string_view path);

/// Returns the present path for a path of a message, or for an override "path=value". For example,
/// "live.checkpoints.every=5" of a scenario is "checkpoints.every=5"; other texts stay as they are.
std::string_view present_path(std::string_view message, std::string_view path);

/// Returns the keys that have moved from maps of the message type `map` to the top of the file.
std::vector<std::string> keys_moved_from(std::string_view map);

/// Moves the moved keys of a stored message, which an earlier program wrote, to their present
/// fields. Does nothing for a message without such keys. Throws bad_input for a damaged value.
void convert_stored(google::protobuf::Message& message);

/// Text of a file after its conversion.
struct ConvertedText {
  std::string text;
  FormatVersion from;                ///< version of the file
  /// sentences, for example "moved live.checkpoints to checkpoints"
  std::vector<std::string> changes;
};

/// Returns the text of a file, converted to kFileFormat, with the key `format`. Comments, order and
/// all other bytes stay, except for the indentation of a moved key. `assumed`: version of a file
/// that states none. Throws as convert_tree(), and bad_input for a text that is no YAML map, or
/// whose moved key has a layout that this function cannot move.
ConvertedText convert_text(std::string_view text, const std::string& file, std::string_view message,
                           FormatVersion assumed);

}  // namespace orrery

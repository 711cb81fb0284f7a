// Conversion of files of earlier formats to the present one: as a tree before it is read, and as a
// text that keeps its comments (`orrery convert`). A conversion is a row of a table: an earlier
// default of an absent key (format_conversion.cpp), or a moved key (moved_keys.hpp). Called by
// yaml_loader.cpp and `orrery convert`. Pure functions; thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/schema/file_format.hpp"
#include "core/schema/yaml_tree.hpp"

namespace orrery {

/// Converts the tree of a file to kFileFormat, and removes the key `format`: every key that the
/// version of the file did not need gets its earlier default, and a key that moved to the top of
/// the file is moved. Does nothing for a message without a format. Throws as stated_format(), and
/// bad_input for a file that has a moved key at both places, with different values.
void convert_tree(YamlNode& root, std::string_view message, std::string_view text,
                  const std::string& file);

/// Text of a file after its conversion.
struct ConvertedText {
  std::string text;
  FormatVersion from;  ///< version of the file
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

// Edits of a YAML text that keep its comments, its order and all bytes beside the edit. The places
// come from the tree of the text. Called by format_conversion.cpp. Pure functions; thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/schema/yaml_tree.hpp"

namespace orrery {

/// Returns the offset of a line and column, both from 1. The text must have that line.
std::size_t offset_of(std::string_view text, int line, int column);

/// Replacement of `length` bytes at `at`.
struct TextEdit {
  std::size_t at = 0, length = 0;
  std::string text;
};

/// Returns the edit that puts an entry before the first key of a map. `value` is put in quotes in
/// the text. A map in block style must have a key.
TextEdit entry_before(std::string_view text, const YamlNode& map, std::string_view key,
                      std::string_view value);

/// Entry of a map that belongs to the top of the file.
struct MovedPlace {
  const YamlNode& root;
  std::size_t map = 0, key = 0;  ///< indices of the map in the root, and of the entry in the map
  bool repeated = false;         ///< the root has the entry too
};

/// Returns the text with an entry of a map at the top of the file: of a map in block style behind
/// the map, of a map in flow style in place of the map, behind its line, or before it. Leaves the
/// entry out if it is repeated, and the map if the entry is its only one. The caller parses the
/// result and compares its values: some layouts, such as explicit keys (`? key`), do not survive.
std::string with_moved_entry(std::string_view text, const MovedPlace& at);

}  // namespace orrery

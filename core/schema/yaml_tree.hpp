// YAML text as a tree with places, before any schema, for yaml_loader.cpp. Refuses all constructs
// that would give a file a hidden meaning: anchors, aliases, merge keys, tags, second documents,
// control characters, bytes that are not UTF-8. Thread-safe: no state between calls.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"

namespace orrery {

inline constexpr std::size_t kMaxYamlBytes = 16u << 20;
inline constexpr int kMaxYamlDepth = 200;
inline constexpr std::size_t kMaxYamlValues = 1'000'000;

/// Key of a map with its place.
struct YamlKey {
  std::string name;
  int line = 1, column = 1;
};

/// Node of the tree, with its place. Lines and columns count from 1.
struct YamlNode {
  enum class Kind { null, scalar, sequence, map };
  Kind kind = Kind::null;
  bool plain = true;  ///< true: a scalar without quotes
  int line = 1, column = 1;
  std::string text;             ///< text of a scalar
  std::vector<YamlKey> keys;    ///< keys of a map, one for each item
  std::vector<YamlNode> items;  ///< items of a sequence or map
};

/// Returns the tree of one document; an empty document is a null node. Throws bad_input, with the
/// place, for text that is not valid or has a refused construct.
YamlNode parse_yaml_tree(std::string_view text, const std::string& file);

/// Returns the place of a line and column of `text`, with at most 200 bytes of the line; characters
/// that a terminal cannot show become '?'.
SourcePlace place_in(std::string_view text, const std::string& file, int line, int column);

/// Returns `text` for a message: at most 60 bytes, then "...", without control sequences.
std::string shown(std::string_view text);

/// Returns the offset of the first forbidden character (a control character other than tab and line
/// end, a character that reverses the reading order, or broken UTF-8); npos if `text` has none.
std::size_t first_bad_byte(std::string_view text);

}  // namespace orrery

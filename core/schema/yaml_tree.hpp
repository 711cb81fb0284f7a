// YAML text as a tree with places, before any schema: what yaml_loader.cpp converts. Refuses all
// that would make a file mean more than it shows: anchors, aliases, merge keys, tags, second
// documents, control characters, bytes that are not UTF-8. Thread-safe: no state between calls.
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

struct YamlKey {
  std::string name;
  int line = 1, column = 1;
};

struct YamlNode {
  enum class Kind { null, scalar, sequence, map };
  Kind kind = Kind::null;
  bool plain = true;  ///< a scalar without quotes
  int line = 1, column = 1;
  std::string text;             ///< of a scalar
  std::vector<YamlKey> keys;    ///< of a map, one per item
  std::vector<YamlNode> items;  ///< of a sequence or map
};

/// Parses one document; an empty one is a null node. Throws bad_input with the place.
YamlNode parse_yaml_tree(std::string_view text, const std::string& file);

/// The place of a line and column of `text`; what cannot be shown on a terminal becomes '?'.
SourcePlace place_in(std::string_view text, const std::string& file, int line, int column);

/// `text` for a message: at most 60 bytes of it, nothing that a terminal would act on.
std::string shown(std::string_view text);

/// Offset of the first byte that is not allowed (a control character other than tab and line
/// end, or broken UTF-8); npos if there is none.
std::size_t first_bad_byte(std::string_view text);

}  // namespace orrery

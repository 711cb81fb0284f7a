// Fast reader of plain YAML: maps and sequences in blocks, scalars and lists of scalars on a line.
// Catalogues and most scenarios are written like this; a prediction would otherwise spend a sixth
// of its time in the general parser. Thread-safe: no state between calls.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/schema/yaml_tree.hpp"

namespace orrery {

/// Returns the tree that parse_general_yaml() returns for a text whose constructs are all plain,
/// for example "a: 1\nb:\n  - c: x\n    d: [1, 2]\n". Returns nothing for any other text, valid or
/// not: quotes with escapes, maps in braces, values of several lines, absent values, tabs,
/// characters beyond ASCII outside of comments.
std::optional<YamlNode> parse_plain_yaml(std::string_view text);

/// Returns what parse_yaml_tree() returns, by the general parser alone. The text must have no byte
/// order mark and no forbidden characters.
YamlNode parse_general_yaml(std::string_view text, const std::string& file);

}  // namespace orrery

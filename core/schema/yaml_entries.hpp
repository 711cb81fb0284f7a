// Entries of maps in the tree of a YAML text: search, removal and comparison. Called by the
// conversion of earlier formats (moved_keys.cpp, format_conversion.cpp). Pure functions;
// thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "core/schema/yaml_tree.hpp"

namespace orrery {

/// Key of a map with its value.
struct YamlEntry {
  YamlKey key;
  YamlNode value;
};

/// Returns the index of the first entry of `map` with the key `key`; nothing if there is none, or
/// if `map` is a node of another kind.
std::optional<std::size_t> index_of_key(const YamlNode& map, std::string_view key);

/// Removes an entry of a map. `index` must be less than the number of entries.
void erase_entry(YamlNode& map, std::size_t index);

/// Returns true if two nodes have the same values, in any style and with keys in any order.
bool have_same_values(const YamlNode& a, const YamlNode& b);

}  // namespace orrery

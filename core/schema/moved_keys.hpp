// Keys that have moved to the top of their file, which is read with them at both places. The table
// serves files (as trees), paths of overrides, and messages that earlier programs stored. Called by
// format_conversion.cpp, set_field.cpp, convert.cpp, readers of scenarios and the reader of logs.
// Pure functions; thread-safe.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <google/protobuf/message.h>

#include "core/schema/yaml_entries.hpp"
#include "core/schema/yaml_tree.hpp"

namespace orrery {

/// Key that was in the map `map` of a file, and is at its top now. Both places are read.
struct MovedKey {
  std::string_view message, map, key;
  std::string_view map_type;  ///< message type of the map
  int number;                 ///< former field of the key in messages of that type
};
/// All moved keys, the oldest first.
inline constexpr std::array kMovedKeys{
    MovedKey{"orrery.Scenario", "live", "checkpoints", "orrery.Live", 6},
};

/// Moves the moved keys of the root of a file to the top of the file, and removes a map that then
/// has no keys. A key that is at the top too, with the same value, is removed from its earlier
/// place. `text` and `file` are for messages. Throws bad_input with the earlier place for a key
/// that has another value at the top.
void move_keys(YamlNode& root, std::string_view message, std::string_view text,
               const std::string& file);

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

}  // namespace orrery

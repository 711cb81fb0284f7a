#include "core/schema/format_conversion.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/schema/moved_keys.hpp"
#include "core/schema/yaml_edits.hpp"
#include "core/schema/yaml_entries.hpp"

namespace orrery {
namespace {

/// Default of earlier versions: a file from before `since` that has the map `map` without `key`
/// means `value`.
struct EarlierDefault {
  std::string_view message;
  FormatVersion since;
  std::string_view map, key, value;
};
constexpr std::array kEarlierDefaults{
    EarlierDefault{"orrery.Scenario", {1, 0}, "failures", "until", "60 d"},
};

/// Returns the map of an earlier default that applies to the file; null if none does.
YamlNode* map_without_key(YamlNode& root, const EarlierDefault& earlier, std::string_view message,
                          FormatVersion found) {
  if (earlier.message != message || !(found < earlier.since)) return nullptr;
  const auto index = index_of_key(root, earlier.map);
  if (!index || root.items[*index].kind != YamlNode::Kind::map) return nullptr;
  YamlNode& map = root.items[*index];
  return index_of_key(map, earlier.key) ? nullptr : &map;
}

void add_defaults(YamlNode& root, std::string_view message, FormatVersion found) {
  for (const EarlierDefault& earlier : kEarlierDefaults) {
    YamlNode* const map = map_without_key(root, earlier, message, found);
    if (map == nullptr) continue;
    YamlNode value;
    value.kind = YamlNode::Kind::scalar;
    value.line = map->line;
    value.column = map->column;
    value.text = std::string(earlier.value);
    map->keys.push_back({std::string(earlier.key), map->line, map->column});
    map->items.push_back(std::move(value));
  }
}

/// Gives the root of a file of version `found` the meaning of kFileFormat.
void convert_root(YamlNode& root, std::string_view message, FormatVersion found,
                  std::string_view text, const std::string& file) {
  add_defaults(root, message, found);
  move_keys(root, message, text, file);
}

TextEdit stated_edit(std::string_view text, const YamlNode& root) {
  const std::string now = format_text(kFileFormat);
  const auto index = index_of_key(root, kFormatKey);
  if (!index) return entry_before(text, root, kFormatKey, now);
  const YamlNode& value = root.items[*index];
  return {offset_of(text, value.line, value.column), value.text.size() + (value.plain ? 0 : 2),
          fmt::format("\"{}\"", now)};
}

/// Moves the moved keys of a text to the top of the file; `root` is the tree of the text before and
/// after. Throws bad_input if the text then does not have the values of `meant`.
void move_text(YamlNode& root, std::string_view message, const std::string& file,
               const YamlNode& meant, ConvertedText& out) {
  for (const MovedKey& moved : kMovedKeys) {
    const auto map = index_of_key(root, moved.map);
    if (moved.message != message || !map) continue;
    const YamlNode& node = root.items[*map];
    const auto key = index_of_key(node, moved.key);
    if (!key) continue;
    const Error immovable(
        place_in(out.text, file, node.keys[*key].line, node.keys[*key].column),
        fmt::format("expected '{0}' on lines of its own or in braces, found another layout; move "
                    "'{0}' to the top of the file by hand",
                    moved.key));
    const MovedPlace place{root, *map, *key, index_of_key(root, moved.key).has_value()};
    out.text = with_moved_entry(out.text, place);
    try {
      root = parse_yaml_tree(out.text, file);
      YamlNode found = root;
      convert_root(found, message, out.from, out.text, file);
      if (!have_same_values(found, meant)) throw immovable;
    } catch (const Error&) {
      throw immovable;
    }
    out.changes.push_back(fmt::format("moved {0}.{1} to {1}", moved.map, moved.key));
  }
}

}  // namespace

void convert_tree(YamlNode& root, std::string_view message, std::string_view text,
                  const std::string& file) {
  if (!kind_of_file(message)) return;
  const auto found = stated_format(root, text, file);
  convert_root(root, message, found.value_or(kFileFormat), text, file);
  if (found) erase_entry(root, *index_of_key(root, kFormatKey));
}

ConvertedText convert_text(std::string_view text, const std::string& file, std::string_view message,
                           FormatVersion assumed) {
  YamlNode root = parse_yaml_tree(text, file);
  if (root.kind != YamlNode::Kind::map || root.keys.empty()) {
    throw Error(place_in(text, file, root.line, root.column),
                "expected a map with the keys of a file of Orrery, found none");
  }
  ConvertedText out{.text = std::string(text),
                    .from = stated_format(root, text, file).value_or(assumed),
                    .changes = {}};
  YamlNode meant = root;
  convert_root(meant, message, out.from, text, file);
  move_text(root, message, file, meant, out);
  std::vector<TextEdit> edits{stated_edit(out.text, root)};
  for (const EarlierDefault& earlier : kEarlierDefaults) {
    const YamlNode* const map = map_without_key(root, earlier, message, out.from);
    if (map == nullptr) continue;
    edits.push_back(entry_before(out.text, *map, earlier.key, earlier.value));
    out.changes.push_back(fmt::format("added {}.{}: {} (the default before)", earlier.map,
                                      earlier.key, earlier.value));
  }
  // From the end, so that the places of earlier edits stay valid.
  std::stable_sort(edits.begin(), edits.end(),
                   [](const TextEdit& a, const TextEdit& b) { return a.at > b.at; });
  for (const TextEdit& edit : edits) out.text.replace(edit.at, edit.length, edit.text);
  return out;
}

}  // namespace orrery

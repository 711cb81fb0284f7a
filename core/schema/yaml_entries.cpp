#include "core/schema/yaml_entries.hpp"

#include <cstddef>

namespace orrery {

std::optional<std::size_t> index_of_key(const YamlNode& map, std::string_view key) {
  for (std::size_t i = 0; i < map.keys.size(); ++i) {
    if (map.keys[i].name == key) return i;
  }
  return {};
}

void erase_entry(YamlNode& map, std::size_t index) {
  const auto at = static_cast<std::ptrdiff_t>(index);
  map.keys.erase(map.keys.begin() + at);
  map.items.erase(map.items.begin() + at);
}

bool have_same_values(const YamlNode& a, const YamlNode& b) {
  if (a.kind != b.kind || a.text != b.text || a.items.size() != b.items.size()) return false;
  for (std::size_t i = 0; i < a.items.size(); ++i) {
    const auto other = a.kind == YamlNode::Kind::map ? index_of_key(b, a.keys[i].name) : i;
    if (!other || !have_same_values(a.items[i], b.items[*other])) return false;
  }
  return true;
}

}  // namespace orrery

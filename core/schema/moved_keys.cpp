#include "core/schema/moved_keys.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <google/protobuf/unknown_field_set.h>

#include "core/error.hpp"

namespace orrery {

void move_keys(YamlNode& root, std::string_view message, std::string_view text,
               const std::string& file) {
  if (root.kind != YamlNode::Kind::map) return;
  std::vector<YamlEntry> moved;
  for (std::size_t i = 0; i < root.keys.size();) {
    std::vector<YamlEntry> taken = take_moved_keys(root.items[i], message, root.keys[i].name);
    const bool emptied = !taken.empty() && root.items[i].items.empty();
    std::move(taken.begin(), taken.end(), std::back_inserter(moved));
    if (emptied) erase_entry(root, i);
    if (!emptied) ++i;
  }
  const std::size_t own = root.keys.size();
  for (YamlEntry& each : moved) {
    const auto index = index_of_key(root, each.key.name);
    if (!index || *index >= own) {  // a second moved key stays for the message about duplicates
      root.keys.push_back(each.key);
      root.items.push_back(std::move(each.value));
    } else if (!have_same_values(root.items[*index], each.value)) {
      throw Error(place_in(text, file, each.key.line, each.key.column),
                  fmt::format("expected '{0}' once, found another value at the top of the file, on "
                              "line {1}; leave '{0}' out here",
                              each.key.name, root.keys[*index].line));
    }
  }
}

std::vector<YamlEntry> take_moved_keys(YamlNode& map, std::string_view message,
                                       std::string_view path) {
  std::vector<YamlEntry> taken;
  for (const MovedKey& moved : kMovedKeys) {
    if (moved.message != message || moved.map != path || map.kind != YamlNode::Kind::map) continue;
    while (const auto index = index_of_key(map, moved.key)) {
      taken.push_back({map.keys[*index], std::move(map.items[*index])});
      erase_entry(map, *index);
    }
  }
  return taken;
}

std::string_view present_path(std::string_view message, std::string_view path) {
  for (const MovedKey& moved : kMovedKeys) {
    const std::string earlier = fmt::format("{}.{}", moved.map, moved.key);
    if (moved.message != message || !path.starts_with(earlier)) continue;
    const std::string_view rest = path.substr(earlier.size());
    if (rest.empty() || std::string_view(".[=").find(rest.front()) != std::string_view::npos) {
      return path.substr(moved.map.size() + 1);
    }
  }
  return path;
}

std::vector<std::string> keys_moved_from(std::string_view map) {
  std::vector<std::string> keys;
  for (const MovedKey& moved : kMovedKeys) {
    if (moved.map_type == map) keys.emplace_back(moved.key);
  }
  return keys;
}

void convert_stored(google::protobuf::Message& message) {
  const google::protobuf::Descriptor& type = *message.GetDescriptor();
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  for (const MovedKey& moved : kMovedKeys) {
    if (moved.message != type.full_name()) continue;
    const auto* const map = type.FindFieldByName(std::string(moved.map));
    const auto* const key = type.FindFieldByName(std::string(moved.key));
    ensure(map != nullptr && key != nullptr, "a moved key is a field");
    if (!reflection.HasField(message, map)) continue;
    google::protobuf::Message& holder = *reflection.MutableMessage(&message, map);
    auto& unknown = *holder.GetReflection()->MutableUnknownFields(&holder);
    for (int i = 0; i < unknown.field_count(); ++i) {
      const google::protobuf::UnknownField& field = unknown.field(i);
      if (field.number() != moved.number) continue;
      if (field.type() != google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED ||
          !reflection.MutableMessage(&message, key)->MergeFromString(field.length_delimited())) {
        throw Error(ErrorKind::bad_input, fmt::format("{}.{} is damaged", moved.map, moved.key));
      }
    }
    unknown.DeleteByNumber(moved.number);
  }
}

}  // namespace orrery

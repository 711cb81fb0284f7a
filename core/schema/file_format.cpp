#include "core/schema/file_format.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kKinds{{
    {"orrery.Scenario", "scenario"},
    {"orrery.Topology", "topology"},
    {"orrery.JobReplay", "replay of a job log"},
}};

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

std::optional<std::size_t> index_of(const YamlNode& map, std::string_view key) {
  for (std::size_t i = 0; i < map.keys.size(); ++i) {
    if (map.keys[i].name == key) return i;
  }
  return {};
}

std::optional<std::uint32_t> whole_number(std::string_view digits) {
  std::uint32_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value);
  if (error != std::errc{} || stop != end) return {};
  return value;
}

std::optional<FormatVersion> parse_version(std::string_view text) {
  const std::size_t dot = text.find('.');
  if (dot == std::string_view::npos) return {};
  const auto major = whole_number(text.substr(0, dot)), minor = whole_number(text.substr(dot + 1));
  if (!major || !minor) return {};
  return FormatVersion{*major, *minor};
}

/// Returns the map of an earlier default that applies to the file; null if none does.
YamlNode* map_without_key(YamlNode& root, const EarlierDefault& earlier, std::string_view message,
                          FormatVersion found) {
  if (earlier.message != message || !(found < earlier.since)) return nullptr;
  const auto index = index_of(root, earlier.map);
  if (!index || root.items[*index].kind != YamlNode::Kind::map) return nullptr;
  YamlNode& map = root.items[*index];
  return index_of(map, earlier.key) ? nullptr : &map;
}

/// Returns the offset of a line and column, both from 1.
std::size_t offset_of(std::string_view text, int line, int column) {
  std::size_t at = 0;
  for (int i = 1; i < line; ++i) at = text.find('\n', at) + 1;
  return at + static_cast<std::size_t>(column - 1);
}

/// Replacement of `length` bytes at `at`.
struct Edit {
  std::size_t at = 0, length = 0;
  std::string text;
};

/// Returns the edit that puts an entry before the first key of a map.
Edit entry_before(std::string_view text, const YamlNode& map, std::string_view key,
                  std::string_view value) {
  if (text[offset_of(text, map.line, map.column)] == '{') {
    const std::size_t at = offset_of(text, map.line, map.column) + 1;
    return {at, 0, fmt::format("\"{}\": \"{}\"{}", key, value, map.keys.empty() ? "" : ", ")};
  }
  const YamlKey& first = map.keys.front();
  const std::string indent(static_cast<std::size_t>(first.column - 1), ' ');
  return {offset_of(text, first.line, first.column), 0,
          fmt::format("{}: \"{}\"\n{}", key, value, indent)};
}

Edit stated_edit(std::string_view text, const YamlNode& root) {
  const std::string now = format_text(kFileFormat);
  const auto index = index_of(root, kFormatKey);
  if (!index) return entry_before(text, root, kFormatKey, now);
  const YamlNode& value = root.items[*index];
  return {offset_of(text, value.line, value.column), value.text.size() + (value.plain ? 0 : 2),
          fmt::format("\"{}\"", now)};
}

}  // namespace

std::string format_text(FormatVersion version) {
  return fmt::format("{}.{}", version.major, version.minor);
}

std::optional<std::string_view> kind_of_file(std::string_view message) {
  for (const auto& [name, kind] : kKinds) {
    if (name == message) return kind;
  }
  return {};
}

std::optional<FormatVersion> stated_format(const YamlNode& root, std::string_view text,
                                           const std::string& file) {
  if (root.kind != YamlNode::Kind::map) return {};
  const auto index = index_of(root, kFormatKey);
  if (!index) return {};
  const YamlNode& value = root.items[*index];
  const auto refuse = [&](const std::string& remedy) {
    return Error(
        place_in(text, file, value.line, value.column),
        fmt::format("expected format {} to {}, found '{}'; {}", format_text(kOldestFileFormat),
                    format_text(kFileFormat), shown(value.text), remedy));
  };
  const auto version = parse_version(value.text);
  if (!version) throw refuse("write MAJOR.MINOR, or leave the key out for the newest");
  if (*version > kFileFormat) throw refuse("the file needs a newer orrery");
  if (*version < kOldestFileFormat) throw refuse("no orrery has written this format");
  return version;
}

void convert_tree(YamlNode& root, std::string_view message, std::string_view text,
                  const std::string& file) {
  if (!kind_of_file(message)) return;
  const auto found = stated_format(root, text, file);
  if (!found) return;
  for (const EarlierDefault& earlier : kEarlierDefaults) {
    YamlNode* const map = map_without_key(root, earlier, message, *found);
    if (map == nullptr) continue;
    YamlNode value;
    value.kind = YamlNode::Kind::scalar;
    value.line = map->line;
    value.column = map->column;
    value.text = std::string(earlier.value);
    map->keys.push_back({std::string(earlier.key), map->line, map->column});
    map->items.push_back(std::move(value));
  }
  const auto index = static_cast<std::ptrdiff_t>(*index_of(root, kFormatKey));
  root.keys.erase(root.keys.begin() + index);
  root.items.erase(root.items.begin() + index);
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
  std::vector<Edit> edits{stated_edit(text, root)};
  for (const EarlierDefault& earlier : kEarlierDefaults) {
    const YamlNode* const map = map_without_key(root, earlier, message, out.from);
    if (map == nullptr) continue;
    edits.push_back(entry_before(text, *map, earlier.key, earlier.value));
    out.changes.push_back(fmt::format("{}.{}: {}", earlier.map, earlier.key, earlier.value));
  }
  // From the end, so that the places of earlier edits stay valid.
  std::stable_sort(edits.begin(), edits.end(),
                   [](const Edit& a, const Edit& b) { return a.at > b.at; });
  for (const Edit& edit : edits) out.text.replace(edit.at, edit.length, edit.text);
  return out;
}

}  // namespace orrery

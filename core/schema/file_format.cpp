#include "core/schema/file_format.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <google/protobuf/unknown_field_set.h>

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

/// Key that was in the map `map` of a file, and is at its top now. Both places are read.
struct MovedKey {
  std::string_view message, map, key;
  std::string_view map_type;  ///< message type of the map
  int number;                 ///< former field of the key in messages of that type
};
constexpr std::array kMovedKeys{
    MovedKey{"orrery.Scenario", "live", "checkpoints", "orrery.Live", 6},
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

void erase_entry(YamlNode& map, std::size_t index) {
  const auto at = static_cast<std::ptrdiff_t>(index);
  map.keys.erase(map.keys.begin() + at);
  map.items.erase(map.items.begin() + at);
}

/// Returns true if two nodes have the same values, in any style and with keys in any order.
bool have_same_values(const YamlNode& a, const YamlNode& b) {
  if (a.kind != b.kind || a.text != b.text || a.items.size() != b.items.size()) return false;
  for (std::size_t i = 0; i < a.items.size(); ++i) {
    const auto other = a.kind == YamlNode::Kind::map ? index_of(b, a.keys[i].name) : i;
    if (!other || !have_same_values(a.items[i], b.items[*other])) return false;
  }
  return true;
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

/// Moves the moved keys to the top of the file, and removes a map that then has no keys. A key that
/// is at the top too, with the same value, is removed from its earlier place.
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
    const auto index = index_of(root, each.key.name);
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

/// Gives the root of a file of version `found` the meaning of kFileFormat.
void convert_root(YamlNode& root, std::string_view message, FormatVersion found,
                  std::string_view text, const std::string& file) {
  add_defaults(root, message, found);
  move_keys(root, message, text, file);
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


constexpr std::string_view kBlank = " \t\r\n";

/// Entry of a map that belongs to the top of the file.
struct MovedPlace {
  const YamlNode& root;
  std::size_t map = 0, key = 0;  ///< indices of the map in the root, and of the entry in the map
  bool repeated = false;         ///< the root has the entry too
};

/// Returns the lines of a text, each with its line end.
std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t length = std::min(text.find('\n'), text.size() - 1) + 1;
    lines.emplace_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return lines;
}

/// Returns true for a line that is not part of an entry whose key is `indent` deep: it is blank,
/// ends the document, or has only a comment that is not deeper.
bool is_between_entries(std::string_view line, std::size_t indent) {
  const std::size_t at = line.find_first_not_of(kBlank);
  return at == std::string_view::npos || line.starts_with("...") ||
         (line[at] == '#' && at <= indent);
}

/// Lines from `begin` to before `end`, counted from 0.
struct LineRange {
  std::size_t begin = 0, end = 0;
};

/// Returns the lines of an entry of a map in block style, which ends before line `end`.
LineRange lines_of_entry(const std::vector<std::string>& lines, const YamlNode& map,
                         std::size_t index, std::size_t end) {
  const auto begin = static_cast<std::size_t>(map.keys[index].line - 1);
  const auto indent = static_cast<std::size_t>(map.keys[index].column - 1);
  if (index + 1 < map.keys.size()) end = static_cast<std::size_t>(map.keys[index + 1].line - 1);
  while (end > begin + 1 && is_between_entries(lines[end - 1], indent)) --end;
  return {begin, end};
}

/// Returns the text with an entry of a map in block style at the top of the file, behind the map.
std::string with_moved_lines(std::string_view text, const MovedPlace& at) {
  const std::vector<std::string> lines = lines_of(text);
  const YamlNode& map = at.root.items[at.map];
  const YamlKey &map_key = at.root.keys[at.map], &key = map.keys[at.key];
  const auto indent = static_cast<std::size_t>(key.column - 1);
  const auto shift = indent - static_cast<std::size_t>(map_key.column - 1);
  const LineRange whole = lines_of_entry(lines, at.root, at.map, lines.size());
  LineRange entry = lines_of_entry(lines, map, at.key, whole.end);
  const bool alone = map.keys.size() == 1;
  if (alone) entry = {whole.begin + 1, whole.end};
  // The comments before a key belong to the key.
  while (entry.begin > whole.begin + 1 && lines[entry.begin - 1].find('#') == indent) {
    --entry.begin;
  }
  std::string out;
  for (std::size_t i = 0; i < whole.end; ++i) {
    const bool is_map_key = alone && i == whole.begin;
    const bool is_moved = i >= entry.begin && i < entry.end;
    if (!is_map_key && !is_moved) out += lines[i];
  }
  const std::size_t comment = alone ? lines[whole.begin].find('#') : std::string::npos;
  if (comment != std::string::npos) out += lines[whole.begin].substr(comment);
  if (!out.empty() && !out.ends_with('\n')) out += '\n';
  for (std::size_t i = entry.begin; i < entry.end && !at.repeated; ++i) {
    out += lines[i].substr(std::min({shift, lines[i].find_first_not_of(' '), lines[i].size()}));
  }
  if (!out.empty() && !out.ends_with('\n')) out += '\n';
  for (std::size_t i = whole.end; i < lines.size(); ++i) out += lines[i];
  return out;
}

/// Returns the offset behind the quoted text that begins at `at`.
std::size_t end_of_quotes(std::string_view text, std::size_t at) {
  const char quote = text[at++];
  while (at < text.size()) {
    const bool escape = quote == '"' && text[at] == '\\';
    const bool doubled = quote == '\'' && text.substr(at, 2) == "''";
    if (!escape && !doubled && text[at] == quote) return at + 1;
    at += escape || doubled ? 2 : 1;
  }
  return text.size();
}

/// Returns the offset behind the value in flow style that begins at `at`.
std::size_t end_of_flow(std::string_view text, std::size_t at) {
  constexpr std::string_view kOpening = "{[,:";
  const auto is_one_of = [](std::string_view set, char c) { return set.find(c) != set.npos; };
  int depth = 0;
  char before = ',';  // the last character that is not blank
  std::size_t end = at;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '#' && at > 0 && is_one_of(kBlank, text[at - 1])) {
      at = std::min(text.find('\n', at), text.size());
      continue;
    }
    const bool quoted = (c == '"' || c == '\'') && is_one_of(kOpening, before);
    const bool closing = c == '}' || c == ']';
    if (depth == 0 && (closing || c == ',')) return end;
    if (c == '{' || c == '[') ++depth;
    if (closing && --depth == 0) return at + 1;
    at = quoted ? end_of_quotes(text, at) : at + 1;
    if (is_one_of(kBlank, c)) continue;
    before = c;
    end = at;
  }
  return end;
}

/// Returns the text with an entry of a map in flow style at the top of the file, in place of the
/// map, behind its line, or before it.
std::string with_moved_flow(std::string_view text, const MovedPlace& at) {
  const YamlNode& map = at.root.items[at.map];
  const YamlKey &map_key = at.root.keys[at.map], &key = map.keys[at.key];
  const YamlNode& value = map.items[at.key];
  const std::size_t map_begin = offset_of(text, map_key.line, map_key.column);
  const std::size_t map_end = end_of_flow(text, offset_of(text, map.line, map.column));
  const std::size_t begin = offset_of(text, key.line, key.column);
  const std::size_t end = end_of_flow(text, offset_of(text, value.line, value.column));
  const std::string entry(text.substr(begin, end - begin));
  const bool alone = map.keys.size() == 1;
  const bool flow_root = text[offset_of(text, at.root.line, at.root.column)] == '{';
  std::string out(text);
  if (alone && !at.repeated) return out.replace(map_begin, map_end - map_begin, entry);
  if (alone && !flow_root) return with_moved_lines(text, at);
  // The entry, or a map without another entry, is removed with one comma.
  std::size_t cut = alone ? map_begin : begin, rest = alone ? map_end : end;
  const std::size_t after = text.find_first_not_of(kBlank, rest);
  const std::size_t before = text.find_last_not_of(kBlank, cut - 1);
  if (after != std::string_view::npos && text[after] == ',') {
    rest = std::min(text.find_first_not_of(' ', after + 1), text.size());
  } else if (before != std::string_view::npos && text[before] == ',') {
    cut = before;
  }
  if (!at.repeated && !flow_root) {
    const std::string line(static_cast<std::size_t>(map_key.column - 1), ' ');
    const std::size_t line_end = out.find('\n', map_end);
    if (line_end == std::string::npos) out += '\n';
    out.insert(std::min(line_end, out.size() - 1) + 1, line + entry + '\n');
  }
  out.erase(cut, rest - cut);
  if (!at.repeated && flow_root) out.insert(map_begin, entry + ", ");
  return out;
}

/// Moves the moved keys of a text to the top of the file; `root` is the tree of the text before and
/// after. Throws bad_input if the text then does not have the values of `meant`.
void move_text(YamlNode& root, std::string_view message, const std::string& file,
               const YamlNode& meant, ConvertedText& out) {
  for (const MovedKey& moved : kMovedKeys) {
    const auto map = index_of(root, moved.map);
    if (moved.message != message || !map) continue;
    const YamlNode& node = root.items[*map];
    const auto key = index_of(node, moved.key);
    if (!key) continue;
    const Error immovable(
        place_in(out.text, file, node.keys[*key].line, node.keys[*key].column),
        fmt::format("expected '{0}' on lines of its own or in braces, found another layout; move "
                    "'{0}' to the top of the file by hand",
                    moved.key));
    const MovedPlace place{root, *map, *key, index_of(root, moved.key).has_value()};
    const bool flow = out.text[offset_of(out.text, node.line, node.column)] == '{';
    out.text = flow ? with_moved_flow(out.text, place) : with_moved_lines(out.text, place);
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
  convert_root(root, message, found.value_or(kFileFormat), text, file);
  if (found) erase_entry(root, *index_of(root, kFormatKey));
}

std::vector<YamlEntry> take_moved_keys(YamlNode& map, std::string_view message,
                                       std::string_view path) {
  std::vector<YamlEntry> taken;
  for (const MovedKey& moved : kMovedKeys) {
    if (moved.message != message || moved.map != path || map.kind != YamlNode::Kind::map) continue;
    while (const auto index = index_of(map, moved.key)) {
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
  std::vector<Edit> edits{stated_edit(out.text, root)};
  for (const EarlierDefault& earlier : kEarlierDefaults) {
    const YamlNode* const map = map_without_key(root, earlier, message, out.from);
    if (map == nullptr) continue;
    edits.push_back(entry_before(out.text, *map, earlier.key, earlier.value));
    out.changes.push_back(fmt::format("added {}.{}: {} (the default before)", earlier.map,
                                      earlier.key, earlier.value));
  }
  // From the end, so that the places of earlier edits stay valid.
  std::stable_sort(edits.begin(), edits.end(),
                   [](const Edit& a, const Edit& b) { return a.at > b.at; });
  for (const Edit& edit : edits) out.text.replace(edit.at, edit.length, edit.text);
  return out;
}

}  // namespace orrery

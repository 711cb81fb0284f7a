#include "core/schema/yaml_edits.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

namespace orrery {
namespace {

constexpr std::string_view kBlank = " \t\r\n";

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

}  // namespace

std::size_t offset_of(std::string_view text, int line, int column) {
  std::size_t at = 0;
  for (int i = 1; i < line; ++i) at = text.find('\n', at) + 1;
  return at + static_cast<std::size_t>(column - 1);
}

TextEdit entry_before(std::string_view text, const YamlNode& map, std::string_view key,
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

std::string with_moved_entry(std::string_view text, const MovedPlace& at) {
  const YamlNode& map = at.root.items[at.map];
  const bool flow = text[offset_of(text, map.line, map.column)] == '{';
  return flow ? with_moved_flow(text, at) : with_moved_lines(text, at);
}

}  // namespace orrery

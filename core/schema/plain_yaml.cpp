#include "core/schema/plain_yaml.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace orrery {
namespace {

/// Deeper texts are left to the general parser, which has limits of its own.
constexpr int kMostDepth = 60;

/// Part of a line without indentation and comment.
struct Line {
  int number = 1, column = 1;  ///< place of the first character, from 1
  std::string_view text;
};

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.';
}

std::string_view without_end(std::string_view text) {
  const std::size_t last = text.find_last_not_of(' ');
  return last == std::string_view::npos ? std::string_view{} : text.substr(0, last + 1);
}

/// Returns true if a text is a scalar without quotes in a block, or in a list if `in_list`.
bool is_scalar(std::string_view text, bool in_list) {
  if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL") {
    return false;
  }
  const bool begins = is_name(text[0]) || text[0] == '/' || text[0] == '+' || text[0] == '(';
  if (!begins || text == "-" || text.starts_with("- ")) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c <= ' ' && c != ' ') return false;
    if (c > '~' || std::string_view("\"'{}[]&*!|>%@`?\\#").find(c) != std::string_view::npos) {
      return false;
    }
    if (in_list && (c == ',' || c == ':')) return false;
    if (c == ':' && (i + 1 == text.size() || text[i + 1] == ' ')) return false;
  }
  return true;
}

/// Reader of the lines of one text. Every method that returns false has found a construct that is
/// not plain.
class PlainReader {
 public:
  bool split(std::string_view text);
  bool read(YamlNode& root) {
    return !lines_.empty() && read_block(root, 0) && next_ == lines_.size();
  }

 private:
  bool read_block(YamlNode& node, int depth);
  bool read_sequence(YamlNode& node, int depth);
  bool read_map(YamlNode& node, int depth);
  bool read_item(YamlNode& node, int column, int depth);
  bool read_value(const Line& value, YamlNode& node);
  bool read_list(const Line& value, YamlNode& node);
  /// Returns true if the next line is of a block that encloses one at `column`, or is absent: a
  /// line further right would continue the value before it.
  bool ends_value(int column) const {
    return next_ == lines_.size() || lines_[next_].column <= column;
  }

  std::vector<Line> lines_;
  std::size_t next_ = 0;
};

/// Splits a text into lines without comments and empty lines.
bool PlainReader::split(std::string_view text) {
  int number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    const std::size_t indent = line.find_first_not_of(' ');
    if (indent == std::string_view::npos || line[indent] == '#') continue;
    const std::size_t comment = line.find(" #");
    if (comment != std::string_view::npos) {
      const std::size_t quote = line.find('"');
      if (quote < comment) return false;  // the comment may be inside of quotes
      line = line.substr(0, comment);
    }
    lines_.push_back({number, static_cast<int>(indent) + 1, without_end(line.substr(indent))});
  }
  return true;
}

bool PlainReader::read_block(YamlNode& node, int depth) {
  if (depth > kMostDepth) return false;
  const Line& first = lines_[next_];
  node.line = first.number;
  node.column = first.column;
  return first.text.starts_with("- ") ? read_sequence(node, depth) : read_map(node, depth);
}

bool PlainReader::read_sequence(YamlNode& node, int depth) {
  node.kind = YamlNode::Kind::sequence;
  const int column = node.column;
  while (next_ < lines_.size() && lines_[next_].column == column) {
    Line& line = lines_[next_];
    if (!line.text.starts_with("- ")) return false;
    const std::size_t begin = line.text.find_first_not_of(' ', 1);
    line.column += static_cast<int>(begin);
    line.text.remove_prefix(begin);
    if (!read_item(node.items.emplace_back(), column, depth)) return false;
  }
  return ends_value(column);
}

/// Reads an item of a sequence at `column`, whose line begins behind the dash.
bool PlainReader::read_item(YamlNode& node, int column, int depth) {
  const Line& line = lines_[next_];
  const auto name = std::find_if_not(line.text.begin(), line.text.end(), is_name);
  const bool is_map = name != line.text.begin() && name != line.text.end() && *name == ':' &&
                      (name + 1 == line.text.end() || name[1] == ' ');
  if (is_map) return !line.text.starts_with('-') && read_block(node, depth + 1);
  return read_value(lines_[next_++], node) && ends_value(column);
}

bool PlainReader::read_map(YamlNode& node, int depth) {
  node.kind = YamlNode::Kind::map;
  const int column = node.column;
  while (next_ < lines_.size() && lines_[next_].column == column) {
    const Line line = lines_[next_++];
    const auto end = std::find_if_not(line.text.begin(), line.text.end(), is_name);
    const auto length = static_cast<std::size_t>(end - line.text.begin());
    if (length == 0 || end == line.text.end() || *end != ':' || line.text[0] == '-') return false;
    const std::string_view name = line.text.substr(0, length);
    if (!is_scalar(name, true)) return false;
    node.keys.push_back({std::string(name), line.number, line.column});
    YamlNode& value = node.items.emplace_back();
    const std::size_t begin = line.text.find_first_not_of(' ', length + 1);
    if (begin == std::string_view::npos) {
      const bool nested = next_ < lines_.size() && lines_[next_].column > column;
      if (!nested || !read_block(value, depth + 1)) return false;
    } else {
      const bool spaced = begin > length + 1;
      const Line rest{line.number, line.column + static_cast<int>(begin), line.text.substr(begin)};
      if (!spaced || !read_value(rest, value) || !ends_value(column)) return false;
    }
  }
  return ends_value(column);
}

bool PlainReader::read_value(const Line& value, YamlNode& node) {
  node.line = value.number;
  node.column = value.column;
  if (value.text[0] == '[') return read_list(value, node);
  node.kind = YamlNode::Kind::scalar;
  node.plain = value.text[0] != '"';
  std::string_view text = value.text;
  if (!node.plain) {
    text.remove_prefix(1);
    const bool closed = text.ends_with('"');
    if (!closed) return false;
    text.remove_suffix(1);
    const auto is_other = [](char c) { return c < ' ' || c > '~' || c == '"' || c == '\\'; };
    if (std::any_of(text.begin(), text.end(), is_other)) return false;
  } else if (!is_scalar(text, false)) {
    return false;
  }
  node.text = text;
  return true;
}

bool PlainReader::read_list(const Line& value, YamlNode& node) {
  node.kind = YamlNode::Kind::sequence;
  const std::string_view text = value.text;
  if (text.find(']') != text.size() - 1) return false;
  for (std::size_t begin = 1; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size() - 1);
    const std::size_t first = text.find_first_not_of(' ', begin);
    const std::string_view item = without_end(text.substr(first, end - std::min(first, end)));
    if (!is_scalar(item, true)) return false;
    YamlNode& entry = node.items.emplace_back();
    entry.kind = YamlNode::Kind::scalar;
    entry.line = value.number;
    entry.column = value.column + static_cast<int>(first);
    entry.text = item;
    begin = end + 1;
  }
  return true;
}

}  // namespace

std::optional<YamlNode> parse_plain_yaml(std::string_view text) {
  PlainReader reader;
  YamlNode root;
  if (!reader.split(text) || !reader.read(root)) return std::nullopt;
  return root;
}

}  // namespace orrery

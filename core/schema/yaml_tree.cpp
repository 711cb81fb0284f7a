#include "core/schema/yaml_tree.hpp"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

namespace orrery {
namespace {

const std::string kNoAliases = "aliases (*name) are not allowed; write the value out";

/// Builder of the tree from yaml-cpp's events. It checks depth and number of values at every event,
/// before yaml-cpp recurses further.
class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  YamlNode take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (documents_++ > 0) {
      fail(mark, "a file holds one document; here a second one (or stray text) begins");
    }
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    check(mark, "?", anchor);
    if (key_due()) fail(mark, "a key is missing before ':'");
    YamlNode& node = add(mark);
    if (open_.empty() || open_.back()->kind != YamlNode::Kind::map) return;
    // A missing value has no place, so the message shows its key.
    node.line = open_.back()->keys.back().line;
    node.column = open_.back()->keys.back().column;
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    fail(mark, kNoAliases);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    check(mark, tag, anchor);
    const bool plain = tag == "?";
    if (key_due()) return add_key(mark, value, plain);
    YamlNode& node = add(mark);
    node.kind = YamlNode::Kind::scalar;
    node.plain = plain;
    node.text = value;
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, YamlNode::Kind::sequence);
  }
  void OnSequenceEnd() override { open_.pop_back(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, YamlNode::Kind::map);
  }
  void OnMapEnd() override { open_.pop_back(); }
  void OnAnchor(const YAML::Mark& mark, const std::string&) override { refuse_anchor(mark); }

 private:
  [[noreturn]] void fail(const YAML::Mark& mark, const std::string& message) const {
    throw Error(place_in(text_, file_, mark.line + 1, mark.column + 1), message);
  }
  [[noreturn]] void refuse_anchor(const YAML::Mark& mark) const {
    fail(mark, "anchors (&name) are not allowed; write the value out where it is needed");
  }

  // yaml-cpp reports "?" and "!" for plain and quoted scalars without a tag; a bare "!" in the text
  // is distinguished by the character at its place.
  void check(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) const {
    if (anchor != YAML::NullAnchor) refuse_anchor(mark);
    const auto at = static_cast<std::size_t>(std::max(mark.pos, 0));
    const bool bare = at < text_.size() && text_[at] == '!';
    if (bare || (!tag.empty() && tag != "?" && tag != "!")) {
      fail(mark, "tags (!name) are not allowed; the schema decides the type");
    }
  }

  bool key_due() const {
    return !open_.empty() && open_.back()->kind == YamlNode::Kind::map &&
           open_.back()->keys.size() == open_.back()->items.size();
  }

  void add_key(const YAML::Mark& mark, const std::string& name, bool plain) {
    if (plain && name == "<<") fail(mark, "merge keys (<<) are not allowed; write the values out");
    open_.back()->keys.push_back({name, mark.line + 1, mark.column + 1});
  }

  YamlNode& add(const YAML::Mark& mark) {
    if (++values_ > kMaxYamlValues) {
      fail(mark, fmt::format("more than {} values", kMaxYamlValues));
    }
    YamlNode& node = open_.empty() ? root_ : open_.back()->items.emplace_back();
    node.line = mark.line + 1;
    node.column = mark.column + 1;
    return node;
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
            YamlNode::Kind kind) {
    check(mark, tag, anchor);
    if (key_due()) fail(mark, "a key must be a name; is a bracket left open?");
    if (open_.size() >= static_cast<std::size_t>(kMaxYamlDepth)) {
      fail(mark, fmt::format("nested deeper than {} levels", kMaxYamlDepth));
    }
    YamlNode& node = add(mark);
    node.kind = kind;
    // The parent does not grow while its child is open, so the pointer stays valid.
    open_.push_back(&node);
  }

  std::string_view text_;
  const std::string& file_;
  YamlNode root_;
  std::vector<YamlNode*> open_;
  std::size_t values_ = 0;
  int documents_ = 0;
};

void check_bytes(std::string_view text, const std::string& file) {
  if (text.size() > kMaxYamlBytes) {
    throw Error(place_in({}, file, 1, 1), "larger than 16 MiB");
  }
  const std::size_t bad = first_bad_byte(text);
  if (bad == std::string_view::npos) return;
  const std::string_view before = text.substr(0, bad);
  const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0: the first line
  const auto line = static_cast<int>(std::count(before.begin(), before.end(), '\n')) + 1;
  throw Error(place_in(text, file, line, static_cast<int>(bad - line_start) + 1),
              fmt::format("byte 0x{:02X} is not text: files are UTF-8 without control characters",
                          static_cast<unsigned char>(text[bad])));
}

// yaml-cpp reads ahead to the end of any bracket expression, so unclosed brackets are limited
// before yaml-cpp starts. Quotes are ignored: no valid text has so many unclosed brackets.
void check_brackets(std::string_view text, const std::string& file) {
  constexpr int kMostOpen = 10'000;
  int open = 0, line = 1, column = 0;
  for (const char c : text) {
    ++column;
    if (c == '\n') {
      ++line;
      column = 0;
    } else if (c == ']' || c == '}') {
      open = std::max(open - 1, 0);
    } else if ((c == '[' || c == '{') && ++open > kMostOpen) {
      throw Error(place_in(text, file, line, column),
                  fmt::format("nested deeper than {} levels", kMaxYamlDepth));
    }
  }
}

[[noreturn]] void rethrow(const YAML::Exception& problem, std::string_view text,
                          const std::string& file) {
  const int line = std::max(problem.mark.line, 0) + 1;
  const int column = std::max(problem.mark.column, 0) + 1;
  const auto at = static_cast<std::size_t>(std::max(problem.mark.pos, 0));
  const bool alias = at < text.size() && text[at] == '*';
  const std::size_t indent = line_of(text, line).find_first_not_of(" \t");
  const std::size_t tab = line_of(text, line).substr(0, indent).find('\t');
  if (tab != std::string::npos) {
    throw Error(place_in(text, file, line, static_cast<int>(tab) + 1),
                "a tab in the indentation: YAML indents with spaces");
  }
  throw Error(place_in(text, file, line, column),
              alias ? kNoAliases : "not valid YAML: " + shown(problem.msg));
}

}  // namespace

YamlNode parse_yaml_tree(std::string_view text, const std::string& file) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  check_bytes(text, file);
  check_brackets(text, file);
  TreeBuilder builder(text, file);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& problem) {
    rethrow(problem, text, file);
  }
  return builder.take();
}

}  // namespace orrery

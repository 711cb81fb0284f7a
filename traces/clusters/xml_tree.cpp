#include "traces/clusters/xml_tree.hpp"

#include <array>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

namespace orrery {
namespace {

constexpr std::size_t kMaxBytes = 64u << 20, kMaxElements = 1'000'000;
constexpr int kMaxDepth = 200;

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.' || c == ':';
}

constexpr std::array<std::pair<std::string_view, char>, 5> kEntities{
    {{"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}}};

/// Parser of one text, from left to right.
class XmlParser {
 public:
  explicit XmlParser(const ConfigText& source) : source_(source), text_(source.text) {}

  XmlElement parse() {
    if (text_.size() > kMaxBytes) throw_error("expected at most 64 MiB of XML");
    skip_to_element();
    if (is_over()) throw_error("expected an XML element, found the end of the file");
    XmlElement root = element(0);
    skip_to_element();
    if (!is_over()) throw_error("expected the end of the file behind the root element");
    return root;
  }

 private:
  bool is_over() const { return at_ >= text_.size(); }
  char peek() const { return is_over() ? '\0' : text_[at_]; }
  bool begins(std::string_view with) const { return text_.substr(at_).starts_with(with); }
  void advance(std::size_t count) {
    for (; count > 0 && !is_over(); --count, ++at_) {
      if (text_[at_] == '\n') {
        ++line_;
        column_ = 1;
      } else {
        ++column_;
      }
    }
  }
  [[noreturn]] void throw_error(const std::string& message) const {
    source_.throw_error(line_, column_, message);
  }
  void skip_blanks() {
    while (is_blank(peek())) advance(1);
  }
  void skip_behind(std::string_view end) {
    const std::size_t found = text_.find(end, at_);
    if (found == std::string_view::npos)
      throw_error(fmt::format("expected '{}' before the end", end));
    advance(found + end.size() - at_);
  }
  /// Moves to the next '<' that begins an element or ends one.
  void skip_to_element() {
    while (!is_over()) {
      if (peek() != '<') {
        advance(1);
      } else if (begins("<!--")) {
        skip_behind("-->");
      } else if (begins("<?")) {
        skip_behind("?>");
      } else if (begins("<!")) {
        skip_behind(">");
      } else {
        return;
      }
    }
  }
  std::string name() {
    std::string out;
    for (; is_name(peek()); advance(1)) out += peek();
    if (out.empty()) throw_error("expected a name of letters, digits, '_', '-', '.' and ':'");
    return out;
  }
  std::string unescaped(std::string_view raw) const {
    std::string out;
    for (std::size_t i = 0; i < raw.size(); ++i) {
      out += raw[i];
      if (raw[i] != '&') continue;
      for (const auto& [entity, c] : kEntities) {
        if (!raw.substr(i + 1).starts_with(entity)) continue;
        if (!raw.substr(i + 1 + entity.size()).starts_with(';')) continue;
        out.back() = c;
        i += entity.size() + 1;
        break;
      }
    }
    return out;
  }
  XmlAttribute attribute() {
    XmlAttribute out{.name = {}, .value = {}, .line = line_, .column = column_};
    out.name = name();
    skip_blanks();
    if (peek() != '=')
      throw_error(fmt::format("expected '=' behind the attribute '{}'", shown(out.name)));
    advance(1);
    skip_blanks();
    const char quote = peek();
    if (quote != '"' && quote != '\'') throw_error("expected the value of an attribute in quotes");
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) throw_error("expected the closing quote of a value");
    out.value = unescaped(text_.substr(at_ + 1, end - at_ - 1));
    advance(end + 1 - at_);
    return out;
  }
  /// Reads the attributes; returns true if the element has contents.
  bool attributes(XmlElement& out) {
    while (true) {
      skip_blanks();
      if (begins("/>")) {
        advance(2);
        return false;
      }
      if (peek() == '>') {
        advance(1);
        return true;
      }
      if (is_over())
        throw_error(fmt::format("expected the end of the element '{}'", shown(out.name)));
      out.attributes.push_back(attribute());
    }
  }
  XmlElement element(int depth) {
    if (depth >= kMaxDepth)
      throw_error(fmt::format("expected at most {} levels of elements", kMaxDepth));
    if (++elements_ > kMaxElements)
      throw_error(fmt::format("expected at most {} elements", kMaxElements));
    XmlElement out;
    out.line = line_;
    out.column = column_;
    advance(1);
    out.name = name();
    if (!attributes(out)) return out;
    while (true) {
      skip_to_element();
      if (is_over())
        throw_error(fmt::format("expected </{}> before the end of the file", shown(out.name)));
      if (!begins("</")) {
        out.children.push_back(element(depth + 1));
        continue;
      }
      advance(2);
      const int line = line_, column = column_;
      const std::string closed = name();
      if (closed != out.name) {
        source_.throw_error(line, column,
                            fmt::format("expected </{}> for the element of line {}, found </{}>",
                                        shown(out.name), out.line, shown(closed)));
      }
      skip_blanks();
      if (peek() != '>') throw_error("expected '>'");
      advance(1);
      return out;
    }
  }

  const ConfigText& source_;
  std::string_view text_;
  std::size_t at_ = 0, elements_ = 0;
  int line_ = 1, column_ = 1;
};

}  // namespace

const XmlAttribute* XmlElement::find(std::string_view attribute) const {
  for (const XmlAttribute& each : attributes) {
    if (each.name == attribute) return &each;
  }
  return nullptr;
}

std::string_view XmlElement::value(std::string_view attribute) const {
  const XmlAttribute* const found = find(attribute);
  return found == nullptr ? std::string_view() : std::string_view(found->value);
}

XmlElement parse_xml_tree(const ConfigText& source) { return XmlParser(source).parse(); }

}  // namespace orrery

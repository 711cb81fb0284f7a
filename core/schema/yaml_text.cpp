// Permitted bytes of a YAML file, and their display in messages.
#include <algorithm>

#include "core/schema/yaml_tree.hpp"

namespace orrery {
namespace {

struct Utf8Step {
  std::size_t length;  ///< bytes of the character; 0: not UTF-8
  char32_t code;
};

Utf8Step decode(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {1, lead};
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return {0, 0};
  char32_t code = lead & (0xFFu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {0, 0};
    code = code << 6 | (byte(i) & 0x3Fu);
  }
  constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (code < kSmallest[length] || code > 0x10FFFF || surrogate) return {0, 0};
  return {length, code};
}

// Returns true for control characters, and for characters that reverse the reading order (so that a
// file cannot look like another one).
bool acts_on_terminal(char32_t code) {
  return code < 0x20 || (code >= 0x7F && code < 0xA0) || (code >= 0x202A && code <= 0x202E) ||
         (code >= 0x2066 && code <= 0x2069);
}

std::string cleaned(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto [length, code] = decode(text);
    const std::size_t taken = std::max<std::size_t>(length, 1);
    const bool good = length > 0 && (code == '\t' || !acts_on_terminal(code));
    out += good ? std::string(text.substr(0, taken)) : std::string(taken, '?');
    text.remove_prefix(taken);
  }
  return out;
}

}  // namespace

std::size_t first_bad_byte(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto [length, code] = decode(text.substr(i));
    if (length == 0) return i;
    const bool line_end =
        code == '\n' || (code == '\r' && i + 1 < text.size() && text[i + 1] == '\n');
    if (acts_on_terminal(code) && code != '\t' && !line_end) return i;
    i += length;
  }
  return std::string_view::npos;
}

SourcePlace place_in(std::string_view text, const std::string& file, int line, int column) {
  return {file, line, column, cleaned(line_of(text, line))};
}

std::string shown(std::string_view text) {
  constexpr std::size_t kMost = 60;
  std::string out = cleaned(text.substr(0, kMost));
  std::replace(out.begin(), out.end(), '\t', ' ');
  return text.size() > kMost ? out + "..." : out;
}

}  // namespace orrery

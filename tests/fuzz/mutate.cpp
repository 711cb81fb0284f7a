#include "tests/fuzz/mutate.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace orrery {
namespace {

constexpr std::string_view kSpecials[] = {
    "&a ", "*a", "<<: ", "!!str ", "! ", "---\n", "...\n", "? ", ": ", "- ", "[", "]", "{", "}",
    "|\n", ">\n", "%YAML 1.2\n", "#", "\"", "'", "\t", "\r", "\n", "@", "`", ",", "~", "null",
    "\\x00", "\"\\0\"",
    "\"\\uD800\"", "\xEF\xBB\xBF", "\xFF\xFE", "\xC3", "\x1B[2J", "\xE2\x80\xAE"};

constexpr std::string_view kValues[] = {
    "99999999999999999999999999", "-1", "0", "1e308", "-1e308", "1e999", ".inf", ".nan", "0x10",
    "010", "1_000", "4294967296", "9223372036854775808", "131072", "true", "no", "\"64\"", "50 ms",
    "1e30 s", "9e18 ns", "80 GiB", "400 Gbps", "0 W", "1e-300 B", "[]", "{}", "[[]]", "{a: {}}",
    "predictive-rebalance", "dgx-h100", "language-model", "static", "../../etc/passwd"};

struct Span {
  std::size_t begin, end;
};

// Words as YAML readers see them: runs without blanks and structure.
std::vector<Span> tokens_of(const std::string& text) {
  std::vector<Span> tokens;
  constexpr std::string_view kBetween = " \t\r\n:,[]{}";
  for (std::size_t at = 0; at < text.size();) {
    at = text.find_first_not_of(kBetween, at);
    if (at == std::string::npos) break;
    const std::size_t end = std::min(text.find_first_of(kBetween, at), text.size());
    tokens.push_back({at, end});
    at = end;
  }
  return tokens;
}

Span line_at(const std::string& text, std::size_t at) {
  const std::size_t before = at == 0 ? std::string::npos : text.rfind('\n', at - 1);
  const std::size_t after = text.find('\n', at);
  return {before == std::string::npos ? 0 : before + 1,
          after == std::string::npos ? text.size() : after + 1};
}

std::string part(const std::string& text, Span span) {
  return text.substr(span.begin, span.end - span.begin);
}

std::size_t place(const std::string& text, Rng& rng) { return rng.below(text.size() + 1); }

void damage_bytes(std::string& text, Rng& rng) {
  const std::size_t at = rng.below(text.size());
  switch (rng.below(4)) {
    case 0: text[at] = static_cast<char>(text[at] ^ (1 << rng.below(8))); return;
    case 1: text.erase(at, 1 + rng.below(20)); return;
    case 2: text.insert(at, 1, static_cast<char>(rng.below(256))); return;
    default: text.resize(at); return;
  }
}

void damage_lines(std::string& text, Rng& rng) {
  const Span line = line_at(text, rng.below(text.size()));
  const std::string copy = part(text, line);
  switch (rng.below(4)) {
    case 0: text.insert(line.begin, std::string_view(copy)); return;
    case 1: text.erase(line.begin, copy.size()); return;
    case 2: text.insert(line_at(text, rng.below(text.size())).begin, copy); return;
    default: text.insert(line.begin, 1 + rng.below(5), ' '); return;
  }
}

void damage_tokens(std::string& text, Rng& rng) {
  const std::vector<Span> tokens = tokens_of(text);
  if (tokens.empty()) return;
  const Span one = tokens[rng.below(tokens.size())];
  const std::string copy = part(text, tokens[rng.below(tokens.size())]);
  const bool from_file = rng.below(2) == 0;
  const std::string_view value = kValues[rng.below(std::size(kValues))];
  text.erase(one.begin, one.end - one.begin);
  text.insert(one.begin, from_file ? std::string_view(copy) : value);
}

void insert_nesting(std::string& text, Rng& rng) {
  constexpr std::string_view kOpen[] = {"[", "{a: ", "- ", "? ", "[[1],", "{"};
  const std::string_view open = kOpen[rng.below(std::size(kOpen))];
  std::string nest;
  for (std::uint64_t depth = 1 + rng.below(400); depth > 0; --depth) nest += open;
  text.insert(place(text, rng), nest);
}

}  // namespace

std::string mutate(const std::string& original, Rng& rng) {
  std::string text = original;
  for (std::uint64_t count = 1 + rng.below(4); count > 0; --count) {
    if (text.empty()) text.assign(1, 'a');
    switch (rng.below(10)) {
      case 0:
      case 1: damage_bytes(text, rng); break;
      case 2:
      case 3: damage_lines(text, rng); break;
      case 4: text.insert(place(text, rng), kSpecials[rng.below(std::size(kSpecials))]); break;
      case 5: insert_nesting(text, rng); break;
      default: damage_tokens(text, rng); break;
    }
  }
  return text;
}

std::uint64_t mutation_seed() {
  const char* text = std::getenv("ORRERY_SEED");
  return text == nullptr ? 20261121 : std::strtoull(text, nullptr, 10);
}

std::vector<std::filesystem::path> yaml_files(const std::string& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace orrery

#include "live/nccl/tuner_table.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <tuple>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery::live {
namespace {

constexpr std::string_view kFirstLine = "orrery-collectives 1";
constexpr std::array<std::string_view, 5> kCollectives{"broadcast", "reduce", "all_gather",
                                                       "reduce_scatter", "all_reduce"};
constexpr std::array<std::string_view, 7> kAlgorithms{
    "tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat"};
constexpr std::array<std::string_view, 3> kProtocols{"ll", "ll128", "simple"};
constexpr std::size_t kMostRules = 100'000;

[[noreturn]] void refuse(int line, const std::string& what) {
  throw Error(ErrorKind::bad_input, fmt::format("line {}: {}", line, what));
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at < line.size();) {
    at = line.find_first_not_of(" \t\r", at);
    if (at == std::string_view::npos || line[at] == '#') break;
    const std::size_t end = std::min(line.find_first_of(" \t\r#", at), line.size());
    words.push_back(line.substr(at, end - at));
    at = end;
  }
  return words;
}

template <class Number>
Number number_of(std::string_view word, int line) {
  Number value{};
  const auto [end, problem] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (problem != std::errc() || end != word.data() + word.size()) {
    refuse(line, fmt::format("'{}' is not a number here", word));
  }
  return value;
}

constexpr std::string_view kAutomatic = "automatic";

std::string_view print_algorithm(NcclAlgorithm algorithm) {
  return algorithm == NcclAlgorithm::automatic ? kAutomatic
                                               : kAlgorithms[static_cast<std::size_t>(algorithm)];
}

template <class Enum, std::size_t N>
Enum name_of(std::string_view word, const std::array<std::string_view, N>& names, int line) {
  const auto found = std::find(names.begin(), names.end(), word);
  if (found == names.end()) refuse(line, fmt::format("there is no '{}'", word));
  return static_cast<Enum>(found - names.begin());
}

TunerRule rule_of(const std::vector<std::string_view>& words, int line) {
  if (words.size() < 4 || words.size() > 6) {
    refuse(line, "a rule is: collective bytes ranks algorithm [protocol [channels]]");
  }
  TunerRule rule{.collective = name_of<NcclCollective>(words[0], kCollectives, line),
                 .from_bytes = number_of<std::uint64_t>(words[1], line),
                 .from_ranks = number_of<std::uint32_t>(words[2], line),
                 .algorithm = words[3] == kAutomatic
                                  ? NcclAlgorithm::automatic
                                  : name_of<NcclAlgorithm>(words[3], kAlgorithms, line),
                 .protocol = std::nullopt};
  if (words.size() > 4) rule.protocol = name_of<NcclProtocol>(words[4], kProtocols, line);
  if (words.size() > 5) rule.channels = number_of<std::uint32_t>(words[5], line);
  return rule;
}

void take_line(TunerTable& table, const std::vector<std::string_view>& words, int line) {
  if (words[0] == "from") {
    if (words.size() != 2) refuse(line, "a section is: from CALL");
    const auto from = number_of<std::uint64_t>(words[1], line);
    if (!table.empty() && from <= table.back().from) refuse(line, "sections begin later and later");
    table.push_back({.from = from, .rules = {}});
    return;
  }
  if (table.empty()) refuse(line, "a rule before the first 'from'");
  table.back().rules.push_back(rule_of(words, line));
}

}  // namespace

std::string print_tuner_table(const TunerTable& table) {
  std::string text = fmt::format("{}\n", kFirstLine);
  for (const TunerSection& section : table) {
    text += fmt::format("from {}\n", section.from);
    for (const TunerRule& rule : section.rules) {
      text += fmt::format("{} {} {} {}", kCollectives[static_cast<std::size_t>(rule.collective)],
                          rule.from_bytes, rule.from_ranks,
                          print_algorithm(rule.algorithm));
      if (rule.protocol) {
        text += fmt::format(" {}", kProtocols[static_cast<std::size_t>(*rule.protocol)]);
        if (rule.channels > 0) text += fmt::format(" {}", rule.channels);
      }
      text += '\n';
    }
  }
  return text;
}

TunerTable parse_tuner_table(std::string_view text) {
  TunerTable table;
  int line = 0;
  std::size_t rules = 0;
  bool opened = false;
  while (!text.empty()) {
    ++line;
    const std::size_t end = std::min(text.find('\n'), text.size());
    const auto words = words_of(text.substr(0, end));
    if (!opened && text.substr(0, end) != kFirstLine) {
      refuse(line, fmt::format("a table begins with '{}'", kFirstLine));
    }
    if (opened && !words.empty()) take_line(table, words, line);
    if (++rules > kMostRules) refuse(line, "too many lines");
    opened = true;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (!opened) refuse(1, "the table is empty");
  return table;
}

const TunerRule* find_tuner_rule(const TunerTable& table, std::uint64_t call,
                                 NcclCollective collective, std::uint64_t bytes,
                                 std::uint32_t ranks) {
  const TunerRule* best = nullptr;
  const auto reach = [](const TunerRule& rule) {
    return std::tuple(rule.from_ranks, rule.from_bytes);
  };
  const auto later = std::find_if(table.begin(), table.end(),
                                  [call](const TunerSection& each) { return each.from > call; });
  if (later == table.begin()) return nullptr;
  for (const TunerRule& rule : std::prev(later)->rules) {
    const bool reached = rule.collective == collective && bytes >= rule.from_bytes &&
                         ranks >= rule.from_ranks;
    if (reached && (!best || reach(rule) >= reach(*best))) best = &rule;
  }
  return best;
}

bool prefer(const TunerRule& rule, std::span<float> costs, int protocols) {
  if (rule.algorithm == NcclAlgorithm::automatic) return false;
  const auto width = static_cast<std::size_t>(std::max(protocols, 0));
  const auto row = static_cast<std::size_t>(rule.algorithm) * width;
  if (width == 0 || row + width > costs.size()) return false;  // an NCCL without that algorithm
  float* best = nullptr;
  for (std::size_t i = 0; i < width; ++i) {
    if (rule.protocol && static_cast<std::size_t>(*rule.protocol) != i) continue;
    float* const cost = &costs[row + i];
    if (*cost >= 0 && (!best || *cost < *best)) best = cost;
  }
  if (!best) return false;
  *best = 0;
  return true;
}

}  // namespace orrery::live

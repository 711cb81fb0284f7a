#include "live/slurm/fields.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery::live {
namespace {

constexpr std::size_t kMostHosts = 131072;

[[noreturn]] void refuse(std::string message) { throw Error(ErrorKind::usage, std::move(message)); }

template <class Number>
Number parse_number(std::string_view text) {
  Number value{};
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size()) {
    refuse(fmt::format("expected a number, found '{}'", text));
  }
  return value;
}

/// Appends the names of one element of a list of hosts: "n7", "n[1-2,04]".
void expand_element(std::string_view element, std::vector<std::string>& names) {
  const std::size_t open = element.find('[');
  if (open == std::string_view::npos) {
    if (element.empty()) refuse("expected the name of a node, found none");
    names.emplace_back(element);
    return;
  }
  const std::size_t close = element.find(']', open);
  if (close == std::string_view::npos) refuse(fmt::format("expected ']' in '{}'", element));
  const std::string_view prefix = element.substr(0, open), suffix = element.substr(close + 1);
  if (suffix.find('[') != std::string_view::npos) {
    refuse(fmt::format("expected one range in the name '{}', found several", element));
  }
  for (const std::string_view range : split_text(element.substr(open + 1, close - open - 1), ',')) {
    const std::size_t dash = range.find('-');
    const std::string_view low = range.substr(0, dash);
    const std::string_view high = dash == std::string_view::npos ? low : range.substr(dash + 1);
    const auto first = parse_number<std::uint32_t>(low), last = parse_number<std::uint32_t>(high);
    if (last < first) refuse(fmt::format("expected an ascending range, found '{}'", range));
    if (last - first >= kMostHosts - std::min(names.size(), kMostHosts)) {
      refuse(fmt::format("expected at most {} names, found more", kMostHosts));
    }
    for (std::uint32_t number = first; number <= last; ++number) {
      names.push_back(fmt::format("{}{:0{}}{}", prefix, number, low.size(), suffix));
    }
  }
}

/// One entry of a list of generic resources: "gpu:a100:2" is two GPUs of the type "a100".
struct GpuEntry {
  std::string type;
  std::uint32_t count = 1;
};

std::vector<GpuEntry> gpu_entries(std::string_view resources) {
  if (is_absent(resources)) return {};
  std::string plain;
  int depth = 0;
  for (const char letter : resources) {
    depth += letter == '(' ? 1 : 0;
    if (depth == 0) plain += letter;
    depth -= letter == ')' ? 1 : 0;
  }
  std::vector<GpuEntry> entries;
  for (std::string_view each : split_text(plain, ',')) {
    if (each.starts_with("gres:") || each.starts_with("gres/")) each.remove_prefix(5);
    const std::vector<std::string_view> words = split_text(each, ':');
    if (words.front() != "gpu") continue;
    GpuEntry& entry = entries.emplace_back();
    const std::string_view last = words.back();
    const bool has_count = words.size() > 1 && last.find_first_not_of("0123456789") != 0;
    if (has_count) entry.count = parse_number<std::uint32_t>(last);
    if (words.size() > (has_count ? 2 : 1)) entry.type = words[1];
  }
  return entries;
}

}  // namespace

bool is_absent(std::string_view text) {
  constexpr std::array<std::string_view, 5> kNone{"", "N/A", "(null)", "NONE", "Unknown"};
  return std::find(kNone.begin(), kNone.end(), text) != kNone.end();
}

std::int64_t parse_instant(std::string_view text) {
  if (is_absent(text)) return 0;
  const auto at = parse_number<std::int64_t>(text);
  if (at < 0) refuse(fmt::format("expected seconds since 1970, found '{}'", text));
  return at;
}

std::vector<std::string_view> split_text(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string_view parse_job_id(std::string_view text) {
  const std::string_view number = text.substr(0, text.find_first_not_of("0123456789"));
  if (number.empty() || text.find_first_not_of("0123456789_+") != std::string_view::npos) {
    refuse(fmt::format("expected the id of a job, found '{}'", text));
  }
  parse_count(number);
  return text;
}

std::uint32_t parse_count(std::string_view text) { return parse_number<std::uint32_t>(text); }

std::uint64_t parse_large_count(std::string_view text) { return parse_number<std::uint64_t>(text); }

std::vector<std::string> expand_hosts(std::string_view list) {
  std::vector<std::string> names;
  if (is_absent(list)) return names;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t at = 0; at <= list.size(); ++at) {
    if (at < list.size() && list[at] == '[') ++depth;
    if (at < list.size() && list[at] == ']') --depth;
    if (at < list.size() && (list[at] != ',' || depth > 0)) continue;
    expand_element(list.substr(begin, at - begin), names);
    begin = at + 1;
  }
  if (names.size() > kMostHosts) refuse(fmt::format("expected at most {} names", kMostHosts));
  return names;
}

std::uint32_t count_gpus(std::string_view resources) {
  std::uint32_t gpus = 0;
  for (const GpuEntry& each : gpu_entries(resources)) gpus += each.count;
  return gpus;
}

std::string gpu_type_in(std::string_view resources) {
  for (const GpuEntry& each : gpu_entries(resources)) {
    if (!each.type.empty()) return each.type;
  }
  return {};
}

std::int64_t parse_limit(std::string_view limit) {
  if (is_absent(limit) || limit == "UNLIMITED" || limit == "NOT_SET" ||
      limit == "Partition_Limit") {
    return 0;
  }
  std::int64_t days = 0;
  if (const std::size_t dash = limit.find('-'); dash != std::string_view::npos) {
    days = parse_number<std::uint32_t>(limit.substr(0, dash));
    limit.remove_prefix(dash + 1);
  }
  const std::vector<std::string_view> parts = split_text(limit, ':');
  if (parts.size() < 2 || parts.size() > 3) {
    refuse(fmt::format("expected [DAYS-][HOURS:]MINUTES:SECONDS, found '{}'", limit));
  }
  std::int64_t seconds = 0;
  for (const std::string_view part : parts) {
    seconds = seconds * 60 + parse_number<std::uint32_t>(part);
  }
  return days * 86400 + seconds;
}

SlurmPhase phase_of(std::string_view state) {
  using enum SlurmPhase;
  static constexpr std::array<std::pair<std::string_view, SlurmPhase>, 23> kPhases{
      {{"PENDING", pending},      {"REQUEUED", pending},     {"REQUEUE_FED", pending},
       {"REQUEUE_HOLD", pending}, {"SPECIAL_EXIT", pending}, {"RUNNING", placed},
       {"COMPLETING", placed},    {"CONFIGURING", placed},   {"RESIZING", placed},
       {"SIGNALING", placed},     {"STAGE_OUT", placed},     {"STOPPED", placed},
       {"SUSPENDED", placed},     {"BOOT_FAIL", ended},      {"CANCELLED", ended},
       {"COMPLETED", ended},      {"DEADLINE", ended},       {"FAILED", ended},
       {"NODE_FAIL", ended},      {"OUT_OF_MEMORY", ended},  {"PREEMPTED", ended},
       {"REVOKED", ended},        {"TIMEOUT", ended}}};
  for (const auto& [word, phase] : kPhases) {
    if (word == state) return phase;
  }
  std::vector<std::string> words;
  for (const auto& [word, phase] : kPhases) words.emplace_back(word);
  refuse(fmt::format("expected the state of a job, found '{}'{}", state,
                     did_you_mean(std::string(state), words)));
}

Ending ending_of(std::string_view state) {
  if (state == "COMPLETED") return Ending::completed;
  return state.starts_with("CANCELLED") ? Ending::cancelled : Ending::failed;
}

}  // namespace orrery::live

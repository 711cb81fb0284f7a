#include "sim/planning/plan_options.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/schema/moved_keys.hpp"
#include "core/schema/names.hpp"
#include "core/units.hpp"
#include "traces/files/csv.hpp"

namespace orrery::sim {
namespace {

constexpr std::uint32_t kMostGpus = 1'048'576;

[[noreturn]] void fail(const std::string& option, const char* expected, const std::string& found) {
  throw Error(ErrorKind::usage,
              fmt::format("{}: expected {}, found '{}'", option, expected, found));
}

std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::uint32_t gpus_in(const std::string& text) {
  std::uint32_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value == 0 || value > kMostGpus) {
    fail("--gpus", "a number such as 512, a list 256,512 or a range 64..512", text);
  }
  return value;
}

void read_gpus(const std::string& text, PlanQuestion& question) {
  const std::size_t dots = text.find("..");
  if (dots == std::string::npos) {
    for (const std::string& each : parts_of(text)) question.gpus.push_back(gpus_in(each));
    return;
  }
  const std::uint32_t least = gpus_in(text.substr(0, dots));
  const std::uint32_t most = gpus_in(text.substr(dots + 2));
  if (least > most) fail("--gpus", "a range from the smaller to the larger number", text);
  for (const double share : {1.0, 0.75, 0.5, 0.375, 0.25}) {
    const auto gpus = static_cast<std::uint32_t>(std::lround(most * share));
    if (gpus > least) question.gpus.push_back(gpus);
  }
  question.gpus.push_back(least);
}

std::chrono::sys_days date_of(const std::string& option, const std::string& text) {
  int year = 0;
  unsigned month = 0, day = 0;
  int used = 0;
  const int read = std::sscanf(text.c_str(), "%4d-%2u-%2u%n", &year, &month, &day, &used);
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(month),
                                         std::chrono::day(day)};
  if (read != 3 || static_cast<std::size_t>(used) != text.size() || !date.ok()) {
    fail(option, "a date such as 2027-03-01", text);
  }
  return date;
}

bool looks_like_date(const std::string& text) {
  return text.size() > 4 && text[4] == '-' && text.find(' ') == std::string::npos;
}

double deadline_of(const PlanOptions& options) {
  if (looks_like_date(options.deadline)) {
    if (options.start.empty()) fail("--deadline", "--start DATE beside a date", options.deadline);
    return seconds_between("--deadline", options.start, options.deadline);
  }
  const std::optional<double> seconds = parse_quantity(options.deadline, Dimension::time);
  if (!seconds || *seconds <= 0) {
    fail("--deadline", "a time such as '60 d' or a date such as 2027-03-01", options.deadline);
  }
  return *seconds;
}

/// Returns the lines below the key `failures`, without their indentation; the whole text if it has
/// no such key.
std::string section_of(const std::string& text) {
  std::string section;
  bool found = false;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    const bool indented = line.empty() || line[0] == ' ' || line[0] == '#';
    if (found && !indented) break;
    if (found) section += line + "\n";
    if (line.starts_with("failures:")) found = true;
  }
  return found ? section : text;
}

std::string failures_of(const std::string& name) {
  if (name.empty()) return "";
  if (name == "none") return "{kinds: []}";
  if (name.ends_with(".yaml") || name.ends_with(".yml")) {
    return section_of(read_packed_text(name));
  }
  return fmt::format("{{profile: {}, repair: 6 h}}", name);
}

/// Returns the ways to recover that are candidates, the default first.
std::vector<Recovery> recoveries_of(const std::string& text) {
  if (text.empty()) return {Recovery::restart};
  if (text == "any") return {Recovery::restart, Recovery::replace};
  if (const auto way = find_named<Recovery>(text)) return {*way};
  fail("--recovery", "restart, replace or any", text);
}

void read_prices(const PlanOptions& options, PlanQuestion& question) {
  const std::vector<PriceRow> table = price_table(options.prices);
  for (const std::string& name : parts_of(options.instances)) {
    question.instances.push_back(price_named(table, PriceKind::instance, name, "--instance"));
  }
  if (options.grid.empty()) return;
  question.grid = price_named(table, PriceKind::grid, options.grid, "--grid");
}

}  // namespace

double number_of(const std::string& option, const std::string& text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const std::string suffix(stop, end);
  constexpr std::pair<const char*, double> kSuffixes[] = {{"", 1},    {"k", 1e3}, {"M", 1e6},
                                                          {"B", 1e9}, {"G", 1e9}, {"T", 1e12}};
  for (const auto& [name, factor] : kSuffixes) {
    const double number = value * factor;
    if (error == std::errc() && suffix == name && number > 0 && std::isfinite(number)) {
      return number;
    }
  }
  fail(option, "a number above 0 such as 2T, 300B or 2e12", text);
}

double seconds_between(const std::string& option, const std::string& from, const std::string& to) {
  const auto days = (date_of(option, to) - date_of("--start", from)).count();
  if (days <= 0) fail(option, "a date behind --start", to);
  return 86'400.0 * static_cast<double>(days);
}

PlanQuestion question_of(const PlanOptions& options, const std::vector<std::string>& overrides) {
  PlanQuestion question;
  question.job = options.job;
  question.clusters = parts_of(options.clusters);
  if (!options.gpus.empty()) read_gpus(options.gpus, question);
  if (!options.tokens.empty()) question.tokens = number_of("--tokens", options.tokens);
  if (!options.deadline.empty()) question.deadline_s = deadline_of(options);
  if (!options.budget.empty()) question.budget_usd = number_of("--budget", options.budget);
  question.failures = failures_of(options.failures);
  read_prices(options, question);
  question.confidence = options.confidence / 100;
  question.batch_change = options.batch_change / 100;
  question.seeds = options.seeds;
  question.measured = options.measured;
  question.recoveries = recoveries_of(options.recovery);
  for (const std::string& each : overrides) {
    question.overrides.emplace_back(present_path("orrery.Scenario", each));
  }
  return question;
}

}  // namespace orrery::sim

#include "cli/shared/vary.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/files/temporary_folder.hpp"
#include "core/process.hpp"
#include "traces/report/report.hpp"

namespace orrery::cli {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

constexpr std::size_t kMostCombinations = 1000;
constexpr double kGibibyte = 1ull << 30;
constexpr auto kTrialPause = std::chrono::milliseconds(20);
/// Runs its arguments from the third on, with output and errors in the files $1 and $2.
constexpr const char* kShellInto =
    "out=$1 err=$2; shift 2; exec \"$@\" >\"$out\" 2>\"$err\" </dev/null";

[[noreturn]] void refuse_text(const std::string& message) {
  throw Error(ErrorKind::usage, "--vary: " + message);
}

std::optional<std::int64_t> whole_in(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return {};
  return value;
}

/// Adds the values of "4", "fp32" or "1..4".
void add_values(const std::string& text, std::vector<std::string>& values) {
  const std::size_t dots = text.find("..");
  if (text.empty()) refuse_text("expected a value between two commas, found none");
  if (dots == std::string::npos) {
    values.push_back(text);
    return;
  }
  const auto first = whole_in(std::string_view(text).substr(0, dots));
  const auto last = whole_in(std::string_view(text).substr(dots + 2));
  if (!first || !last || *last < *first || *last - *first >= std::int64_t{kMostCombinations}) {
    refuse_text(
        fmt::format("expected a rising range of at most {} whole numbers such as 1..4, found '{}'",
                    kMostCombinations, text));
  }
  for (std::int64_t value = *first; value <= *last; ++value) {
    values.push_back(std::to_string(value));
  }
}

/// Returns the path of the file of one kind ("out", "err") of a trial.
std::string trial_file(const TemporaryFolder& folder, std::size_t number, const char* kind) {
  return folder.path_of(fmt::format("{}.{}", number, kind));
}

std::string content_of(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Returns the last line with other than blanks; "" if no line has.
std::string last_line(const std::string& text) {
  const char* const blank = " \t\r\n";
  const std::size_t end = text.find_last_not_of(blank);
  if (end == std::string::npos) return {};
  const std::size_t before = text.find_last_of("\r\n", end);
  const std::size_t begin = before == std::string::npos ? 0 : before + 1;
  return text.substr(begin, end + 1 - begin);
}

/// Returns the last line of the errors of a rehearsal that the program printed. The rehearsal's own
/// lines are two at the beginning, and one at the end if there is no report.
std::string last_line_of_program(const std::string& errors) {
  const std::string own = "no report: ";
  std::string line = last_line(errors);
  if (line.starts_with(own)) {
    const std::string before = last_line(errors.substr(0, errors.rfind(own)));
    if (!before.starts_with("no GPU is used: ")) line = before;
  }
  const std::size_t end = line.find("]: ");
  return line.starts_with("[rank") && end != std::string::npos ? line.substr(end + 3) : line;
}

/// Reads the report of an ended rehearsal, or the reason why it has no step time: the refusal of
/// the rehearsal, else the last line of the program's errors.
void read_outcome(Trial& trial, const std::string& out, const std::string& err) {
  trial.report = OrderedJson::parse(last_line(out), nullptr, false);
  if (!trial.report.is_object()) trial.report = nullptr;
  const OrderedJson& report = trial.report;
  const bool known = report.is_object() && report.value("step_time_s", OrderedJson()).is_number();
  if (trial.exit_code == 0 && known) return;
  if (report.is_object() && report.value("refused", OrderedJson()).is_string()) {
    trial.reason = report["refused"].get<std::string>();
  } else {
    trial.reason = trial.exit_code == 0 ? "expected two optimizer steps, found fewer"
                                        : last_line_of_program(err);
  }
  if (trial.reason.empty()) trial.reason = fmt::format("exit code {}", trial.exit_code);
}

/// Rehearsal of one combination that runs.
struct Running {
  std::size_t number;
  ChildProcess process;
};

Running start_trial(const std::vector<std::string>& command, const Combination& values,
                    const TemporaryFolder& folder, std::size_t number) {
  std::vector<std::string> words{"-c", kShellInto, "sh", trial_file(folder, number, "out"),
                                 trial_file(folder, number, "err")};
  for (std::string& word : with_values(command, values)) words.push_back(std::move(word));
  return {number, ChildProcess("/bin/sh", words)};
}

double figure_of(const Trial& trial, const char* key) {
  const OrderedJson value =
      trial.report.is_object() ? trial.report.value(key, OrderedJson()) : OrderedJson();
  return value.is_number() ? value.get<double>() : 0;
}

void rank_trials(std::vector<Trial>& trials) {
  const bool tokens = std::all_of(trials.begin(), trials.end(), [](const Trial& trial) {
    return !trial.reason.empty() || figure_of(trial, "tokens_per_s") > 0;
  });
  std::stable_sort(trials.begin(), trials.end(), [&](const Trial& a, const Trial& b) {
    if (!a.reason.empty() || !b.reason.empty()) return a.reason.empty() && !b.reason.empty();
    if (tokens) return figure_of(a, "tokens_per_s") > figure_of(b, "tokens_per_s");
    return figure_of(a, "step_time_s") < figure_of(b, "step_time_s");
  });
}

}  // namespace

std::vector<Variable> variables_in(const std::string& text) {
  std::vector<Variable> variables;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    if (equals == 0 || equals == std::string::npos) {
      refuse_text(fmt::format("expected NAME=VALUE,VALUE or NAME=FIRST..LAST, found '{}'", word));
    }
    Variable variable{word.substr(0, equals), {}};
    for (const Variable& other : variables) {
      if (other.name == variable.name) refuse_text(fmt::format("'{}' is given twice", other.name));
    }
    for (std::size_t from = equals + 1, to = 0; to != std::string::npos; from = to + 1) {
      to = word.find(',', from);
      add_values(word.substr(from, to == std::string::npos ? to : to - from), variable.values);
    }
    variables.push_back(std::move(variable));
  }
  if (variables.empty()) refuse_text("expected NAME=VALUE,VALUE, found nothing");
  return variables;
}

std::vector<Combination> combinations_of(const std::vector<Variable>& variables) {
  std::vector<Combination> all{{}};
  for (const Variable& variable : variables) {
    if (all.size() * variable.values.size() > kMostCombinations) {
      refuse_text(fmt::format("expected at most {} combinations, found more", kMostCombinations));
    }
    std::vector<Combination> longer;
    for (const Combination& each : all) {
      for (const std::string& value : variable.values) {
        longer.push_back(each);
        longer.back().emplace_back(variable.name, value);
      }
    }
    all = std::move(longer);
  }
  return all;
}

std::vector<std::string> with_values(const std::vector<std::string>& words,
                                     const Combination& values) {
  std::vector<std::string> out = words;
  for (const auto& [name, value] : values) {
    const std::string place = "{" + name + "}";
    bool found = false;
    for (std::string& word : out) {
      for (std::size_t at = 0; (at = word.find(place, at)) != std::string::npos;) {
        word.replace(at, place.size(), value);
        at += value.size();
        found = true;
      }
    }
    if (!found)
      refuse_text(fmt::format("expected {} in the program's command line, found none", place));
  }
  return out;
}

std::vector<Trial> run_trials(const std::vector<std::string>& command,
                              const std::vector<Combination>& combinations,
                              const std::function<void(std::size_t, std::size_t)>& progress) {
  const TemporaryFolder folder("orrery-vary");
  std::vector<Trial> trials;
  for (const Combination& values : combinations) trials.push_back({values, 0, {}, {}});
  std::vector<Running> running;
  std::size_t started = 0, ended = 0, failed = 0;
  while (ended < trials.size()) {
    while (started < trials.size() && running.size() < usable_cpus()) {
      running.push_back(start_trial(command, combinations[started], folder, started));
      ++started;
    }
    running.front().process.wait_for(kTrialPause);
    for (std::size_t i = 0; i < running.size();) {
      const std::optional<ExitStatus> status = running[i].process.exit_status();
      if (!status) {
        ++i;
        continue;
      }
      const std::size_t number = running[i].number;
      Trial& trial = trials[number];
      trial.exit_code = status->code;
      read_outcome(trial, content_of(trial_file(folder, number, "out")),
                   content_of(trial_file(folder, number, "err")));
      failed += trial.reason.empty() ? 0 : 1;
      running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
      progress(++ended, failed);
    }
  }
  rank_trials(trials);
  return trials;
}

std::string trial_table(const std::vector<Trial>& trials) {
  std::vector<std::size_t> widths;
  for (const auto& [name, value] : trials.front().values) widths.push_back(name.size());
  for (const Trial& trial : trials) {
    for (std::size_t i = 0; i < widths.size(); ++i) {
      widths[i] = std::max(widths[i], trial.values[i].second.size());
    }
  }
  std::string out = "rank";
  for (std::size_t i = 0; i < widths.size(); ++i) {
    out += fmt::format("  {:>{}}", trials.front().values[i].first, widths[i]);
  }
  out += fmt::format("  {:>10}  {:>13}  {:>9}  {:>9}  reason\n", "step", "tokens/s", "allocated",
                     "reserved");
  for (std::size_t place = 0; place < trials.size(); ++place) {
    const Trial& trial = trials[place];
    out += trial.reason.empty() ? fmt::format("{:>4}", place + 1) : fmt::format("{:>4}", "-");
    for (std::size_t i = 0; i < widths.size(); ++i) {
      out += fmt::format("  {:>{}}", trial.values[i].second, widths[i]);
    }
    if (!trial.reason.empty()) {
      out += fmt::format("  {:>10}  {:>13}  {:>9}  {:>9}  {}\n", "", "", "", "", trial.reason);
      continue;
    }
    const double tokens = figure_of(trial, "tokens_per_s");
    out += fmt::format("  {:>8.4f} s  {:>13}  {:>5.1f} GiB  {:>5.1f} GiB\n",
                       figure_of(trial, "step_time_s"),
                       tokens > 0 ? grouped(static_cast<std::uint64_t>(tokens)) : "not known",
                       figure_of(trial, "memory_bytes") / kGibibyte,
                       figure_of(trial, "reserved_bytes") / kGibibyte);
  }
  return out;
}

OrderedJson trials_json(const std::vector<Trial>& trials) {
  OrderedJson rows = OrderedJson::array();
  for (std::size_t place = 0; place < trials.size(); ++place) {
    const Trial& trial = trials[place];
    OrderedJson row;
    row["rank"] = trial.reason.empty() ? OrderedJson(place + 1) : OrderedJson();
    for (const auto& [name, value] : trial.values) row["values"][name] = value;
    for (const char* key : {"step_time_s", "tokens_per_s", "memory_bytes", "reserved_bytes"}) {
      row[key] = trial.reason.empty() ? trial.report.value(key, OrderedJson()) : OrderedJson();
    }
    row["exit_code"] = trial.exit_code;
    row["reason"] = trial.reason.empty() ? OrderedJson() : OrderedJson(trial.reason);
    rows.push_back(std::move(row));
  }
  return OrderedJson{{"combinations", std::move(rows)}};
}

}  // namespace orrery::cli

#include "traces/jobs/sacct_table.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.hpp"
#include "core/schema/yaml_tree.hpp"
#include "traces/jobs/log_time.hpp"

namespace orrery {
namespace {

constexpr std::string_view kCommand =
    "sacct -aPX -S 2024-01-01 -o JobID,JobName,User,Partition,Submit,Start,End,AllocTRES,NNodes,"
    "TimelimitRaw";
constexpr std::array<std::string_view, 3> kTimes{"Submit", "Start", "End"};

/// `other`: remedy besides the command, which ends with ", or ".
[[noreturn]] void refuse(const std::string& path, std::string_view text, const std::string& found,
                         std::string_view other = "") {
  throw Error(place_in(text, path, 1, 1),
              fmt::format("expected the output of Slurm's sacct with the columns JobID, Submit, "
                          "Start and End, {}; {}write the log with: {}",
                          found, other, kCommand));
}

/// Returns the first line that is not blank.
std::string_view first_line(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  const std::size_t begin = text.find_first_not_of("\r\n");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_first_of("\r\n", begin) - begin);
}

bool is_part_of_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

/// Returns the fields of a line without the quotes around them.
std::vector<std::string_view> fields_of(std::string_view line, Separator mark) {
  std::vector<std::string_view> fields;
  for (std::size_t begin = 0; begin <= line.size();) {
    const std::size_t end = std::min(line.find(static_cast<char>(mark), begin), line.size());
    std::string_view field = line.substr(begin, end - begin);
    begin = end + 1;
    if (mark == Separator::blanks && field.empty()) continue;
    if (field.size() > 1 && field.front() == '"' && field.back() == '"') {
      field = field.substr(1, field.size() - 2);
    }
    fields.push_back(field);
  }
  return fields;
}

bool has_column(const std::vector<std::string_view>& fields, std::string_view name) {
  return std::find(fields.begin(), fields.end(), name) != fields.end();
}

bool is_instant(std::string_view field) {
  return field.size() == 19 && field[10] == 'T' && parse_instant(field).has_value();
}

/// Returns true for a row of the columns that sacct writes without -o, which end with the state
/// and the exit code of the job and have no times.
bool is_default_row(const std::vector<std::string_view>& fields) {
  constexpr std::array<std::string_view, 8> kStates{
      "COMPLETED", "FAILED",    "CANCELLED", "TIMEOUT",
      "RUNNING",   "NODE_FAIL", "PENDING",   "OUT_OF_MEMORY"};
  if (fields.size() < 7) return false;
  const std::string_view code = fields[6];
  return code.size() >= 3 && code.find(':') != std::string_view::npos &&
         code.find_first_not_of("0123456789:") == std::string_view::npos &&
         std::any_of(kStates.begin(), kStates.end(),
                     [&](auto state) { return fields[5].starts_with(state); });
}

/// Characters that may separate the fields of a line: each that is no part of a value.
std::string possible_separators(std::string_view line) {
  std::string found = "|";
  for (const char c : line) {
    if (is_part_of_name(c) || std::string_view("-:.+=/()[]\"").find(c) != std::string_view::npos ||
        found.find(c) != std::string::npos || static_cast<unsigned char>(c) > 126) {
      continue;
    }
    if (c != ' ') found += c;
  }
  return found + ' ';
}

}  // namespace

std::optional<Separator> sacct_separator(std::string_view text) {
  const std::string_view line = first_line(text);
  for (std::size_t at = line.find("JobID"); at != std::string_view::npos;
       at = line.find("JobID", at + 1)) {
    std::size_t end = at + 5;
    if (line.substr(end).starts_with("Raw")) end += 3;
    const bool begins = at == 0 || !is_part_of_name(line[at - 1]);
    if (!begins || (end < line.size() && is_part_of_name(line[end]))) continue;
    if (at == 0 && end == line.size()) return Separator::bar;
    const char mark = end < line.size() ? line[end] : line[at - 1];
    return mark == '"' ? Separator::comma : Separator{mark};
  }
  return {};
}

bool is_sacct_row(std::string_view text) {
  const std::string_view line = first_line(text);
  const std::string marks = possible_separators(line);
  return std::any_of(marks.begin(), marks.end(), [line](char mark) {
    const std::vector<std::string_view> fields = fields_of(line, Separator{mark});
    return std::count_if(fields.begin(), fields.end(), is_instant) >= 2;
  });
}

std::vector<std::string> sacct_columns(const std::string& option) {
  std::vector<std::string> columns;
  for (std::size_t begin = 0; begin <= option.size();) {
    const std::size_t end = std::min(option.find(',', begin), option.size());
    // "JobName%30" is the column JobName with a width.
    const std::string name = option.substr(begin, end - begin);
    columns.push_back(name.substr(0, name.find('%')));
    begin = end + 1;
  }
  const auto fail = [&](const std::string& found) {
    throw Error(ErrorKind::bad_input,
                fmt::format("--columns: expected the names of all columns of the log between "
                            "commas, among them JobID, Submit, Start and End, {} in '{}'; give the "
                            "list after -o of the sacct command that wrote the log",
                            found, shown(option)));
  };
  std::set<std::string> known;
  for (const std::string& name : columns) {
    if (name.empty()) fail("found an empty name");
    if (!known.insert(name).second) fail(fmt::format("found {} twice", shown(name)));
  }
  if (!known.contains("JobID") && !known.contains("JobIDRaw")) fail("found no JobID");
  for (const std::string_view name : kTimes) {
    if (!known.contains(std::string(name))) fail(fmt::format("found no {}", name));
  }
  return columns;
}

Separator separator_for(const std::string& path, std::string_view text,
                        const std::vector<std::string>& columns) {
  if (sacct_separator(text)) {
    throw Error(place_in(text, path, 1, 1),
                "--columns: expected a log without the names of its columns, found them in its "
                "first line; leave the option out");
  }
  const std::string_view line = first_line(text);
  for (const char mark : possible_separators(line)) {
    std::vector<std::string_view> fields = fields_of(line, Separator{mark});
    join_sacct_fields(fields, columns.size(), Separator{mark});
    if (fields.size() == columns.size()) return Separator{mark};
  }
  throw Error(place_in(text, path, 1, 1),
              fmt::format("--columns: expected {} fields in the first line, as many as the option "
                          "names, found {} between bars; give the list after -o of the sacct "
                          "command that wrote the log",
                          columns.size(), fields_of(line, Separator::bar).size()));
}

std::optional<std::string> with_bars(std::string_view text) {
  const std::size_t first = text.find('\n');
  if (first == std::string_view::npos) return {};
  const std::string_view second =
      text.substr(first + 1, text.find_first_of("\r\n", first + 1) - first - 1);
  const bool dashes =
      second.starts_with("---") && second.find_first_not_of("- ") == std::string_view::npos;
  if (!dashes || text.substr(0, first).find("JobID") == std::string_view::npos) return {};
  std::string table;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    for (std::size_t at = 0; at < second.size() && line.find_first_not_of("- \r") < line.size();) {
      const std::size_t stop = std::min(second.find(' ', at), second.size());
      std::string_view field = at < line.size() ? line.substr(at, stop - at) : std::string_view();
      field = field.substr(std::min(field.find_first_not_of(' '), field.size()));
      field = field.substr(0, field.find_last_not_of(" \r") + 1);
      if (at > 0) table += '|';
      table += field;
      at = std::max(stop + 1, std::min(second.find('-', stop), second.size()));
    }
    table += '\n';
    begin = end + 1;
  }
  return table;
}

void join_sacct_fields(std::vector<std::string_view>& fields, std::size_t columns, Separator mark) {
  if (mark == Separator::comma) {
    for (std::size_t i = 1; i < fields.size() && fields.size() > columns;) {
      const std::string_view before = fields[i - 1], here = fields[i];
      const bool list = before.find('=') != std::string_view::npos &&
                        here.find('=') != std::string_view::npos &&
                        before.data() + before.size() + 1 == here.data();
      if (!list) {
        ++i;
        continue;
      }
      fields[i - 1] = std::string_view(before.data(), before.size() + 1 + here.size());
      fields.erase(fields.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  if (fields.size() == columns + 1 && fields.back().empty()) fields.pop_back();
}

std::string field_count_problem(std::size_t fields, std::size_t columns, Separator mark) {
  return fmt::format("this line has {} fields, the others have {}; a value that contains {}, for "
                     "example a job's name, needs sacct -P, whose fields are between bars",
                     fields, columns,
                     mark == Separator::blanks  ? std::string("a blank, or is empty")
                     : mark == Separator::comma ? std::string("a comma")
                                                : fmt::format("'{}'", static_cast<char>(mark)));
}

bool is_slurm_json(std::string_view text) {
  constexpr std::size_t kBeginning = 16384;
  const std::string_view begin = text.substr(0, kBeginning);
  constexpr std::array<std::string_view, 5> kKeys{"\"association\"", "\"allocation_nodes\"",
                                                  "\"derived_exit_code\"", "\"Slurm\"",
                                                  "\"slurm\""};
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{' &&
         (begin.find("\"jobs\"") != std::string_view::npos ||
          begin.find("\"meta\"") != std::string_view::npos) &&
         std::any_of(kKeys.begin(), kKeys.end(), [begin](std::string_view key) {
           return begin.find(key) != std::string_view::npos;
         });
}

void refuse_slurm_json(const std::string& path, std::string_view text) {
  refuse(path, text, "found JSON (sacct --json), whose keys differ between Slurm's versions");
}

void refuse_sacct(const std::string& path, std::string_view text) {
  const std::string_view line = first_line(text);
  if (const auto mark = sacct_separator(text)) {
    const std::vector<std::string_view> columns = fields_of(line, *mark);
    for (const std::string_view name : kTimes) {
      if (!has_column(columns, name)) refuse(path, text, fmt::format("found no '{}'", name));
    }
    refuse(path, text, "found names of columns without one separator between them");
  }
  if (is_sacct_row(text)) {
    refuse(path, text, "found a row without a header (sacct -n)",
           "give its columns in their order with --columns JobID,...,Submit,Start,End, or ");
  }
  for (const char mark : possible_separators(line)) {
    if (!is_default_row(fields_of(line, Separator{mark}))) continue;
    refuse(path, text,
           "found a row of the columns that sacct writes without -o, which have no times");
  }
}

}  // namespace orrery

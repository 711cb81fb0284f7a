#include "traces/jobs/job_trace.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <iterator>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.hpp"
#include "core/files/file_kind.hpp"
#include "traces/files/csv.hpp"
#include "traces/jobs/elastic_sizes.hpp"
#include "traces/jobs/gpu_kinds.hpp"

namespace orrery {
namespace {

constexpr std::int64_t kLatestSecond = 100LL * 365 * 24 * 3600;
constexpr const char* kColumns = "job_id, submit_s, num_gpus, duration_s (optional: vc)";
constexpr std::int64_t kMostGpus = 1 << 20;
constexpr std::int64_t kMostPriority = 2'000'000'000;

[[noreturn]] void fail_file(const std::string& path, const std::string& message) {
  throw Error(SourcePlace{.file = path, .line_text = ""}, message);
}

/// Returns the number that is `field`, the field at `at` or its beginning. Throws bad_input for
/// another text and for a number out of range.
std::int64_t number(const CsvReader& reader, std::string_view field, std::size_t at,
                    const char* name, std::int64_t least, std::int64_t most) {
  std::int64_t value = 0;
  const char* const end = field.data() + field.size();
  const auto [stop, error] = std::from_chars(field.data(), end, value);
  if (error == std::errc::result_out_of_range ||
      (error == std::errc{} && stop == end && (value < least || value > most))) {
    reader.fail_at_field(at,
                         fmt::format("{} is {}, not between {} and {}", name, field, least, most));
  }
  if (error != std::errc{} || stop != end) {
    reader.fail_at_field(at, fmt::format("{} must be a whole number, not '{}'", name, field));
  }
  return value;
}

std::int64_t number(const CsvReader& reader, const std::vector<std::string_view>& fields,
                    std::size_t at, const char* name, std::int64_t least, std::int64_t most) {
  return number(reader, fields[at], at, name, least, most);
}

/// Returns a hint if the header has other separators than commas, as in other tools' tables.
std::string separator_hint(const std::vector<std::string_view>& header) {
  if (header.size() != 1) return {};
  for (const char mark : {'|', ';', '\t', ' '}) {
    if (header.front().find(mark) == std::string_view::npos) continue;
    return fmt::format(". Commas separate columns; here it seems to be '{}'",
                       mark == '\t' ? "\\t" : std::string(1, mark));
  }
  return {};
}

/// Throws bad_input for JSON, about whose quotes and commas the reader of CSV would complain.
void refuse_json(const std::string& path, std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || (text[first] != '{' && text[first] != '[')) return;
  fail_file(path, fmt::format("expected a job trace as CSV with the columns {}, got JSON; write "
                              "one line a job, times in whole seconds",
                              kColumns));
}

/// Index of each column.
struct Columns {
  std::size_t id = 0, submit = 0, gpus = 0, duration = 0;
  std::optional<std::size_t> pool, user, name, requested, started, priority, after, qos;
  std::array<std::optional<std::size_t>, kSizeColumns.size()> sizes;
  std::array<std::optional<std::size_t>, kKindColumns.size()> kinds;
  std::size_t count = 0;
};

Columns read_header(const CsvReader& reader, const std::vector<std::string_view>& fields) {
  const auto find = [&](std::string_view name) -> std::optional<std::size_t> {
    std::optional<std::size_t> found;
    for (std::size_t i = 0; i < fields.size(); ++i) {
      if (fields[i] != name) continue;
      if (found) reader.fail_at_field(i, fmt::format("column '{}' is in the header twice", name));
      found = i;
    }
    return found;
  };
  std::vector<std::string_view> missing;
  const auto need = [&](std::string_view name) {
    const std::optional<std::size_t> found = find(name);
    if (!found) missing.push_back(name);
    return found.value_or(0);
  };
  const Columns columns{.id = need("job_id"),
                        .submit = need("submit_s"),
                        .gpus = need("num_gpus"),
                        .duration = need("duration_s"),
                        .pool = find("vc"),
                        .user = find("user"),
                        .name = find("name"),
                        .requested = find("requested_s"),
                        .started = find("recorded_start_s"),
                        .priority = find("priority"),
                        .after = find("after"),
                        .qos = find("qos"),
                        .sizes = {find(kSizeColumns[0]), find(kSizeColumns[1]),
                                  find(kSizeColumns[2])},
                        .kinds = {find(kKindColumns[0]), find(kKindColumns[1])},
                        .count = fields.size()};
  if (!missing.empty()) {
    reader.fail_row(
        fmt::format("expected the columns {}, got none named {}; additional columns "
                    "are allowed{}",
                    kColumns, fmt::join(missing, ", "), separator_hint(fields)));
  }
  return columns;
}

/// Returns the sizes of a job of `gpus` GPUs.
Label read_sizes(const CsvReader& reader, const Columns& columns,
                 const std::vector<std::string_view>& fields, std::uint32_t gpus) {
  const auto text = [&](std::size_t which) {
    const std::optional<std::size_t>& column = columns.sizes[which];
    return column ? fields[*column] : std::string_view();
  };
  try {
    return elastic_sizes({text(0), text(1), text(2)}, gpus);
  } catch (const SizeProblem& problem) {
    const auto which = std::find(kSizeColumns.begin(), kSizeColumns.end(), problem.column);
    const auto index = static_cast<std::size_t>(which - kSizeColumns.begin());
    reader.fail_at_field(columns.sizes[index].value_or(columns.gpus), problem.reason);
  }
}

/// Returns the kinds of GPUs of a job.
Label read_kinds(const CsvReader& reader, const Columns& columns,
                 const std::vector<std::string_view>& fields) {
  const auto text = [&](std::size_t which) {
    const std::optional<std::size_t>& column = columns.kinds[which];
    return column ? fields[*column] : std::string_view();
  };
  try {
    return gpu_kinds({text(0), text(1)});
  } catch (const KindProblem& problem) {
    const std::size_t which = problem.column == kKindColumns[0] ? 0 : 1;
    reader.fail_at_field(columns.kinds[which].value_or(columns.gpus), problem.reason);
  }
}

/// Reads num_gpus: a whole number, also as 2.0, or below 1 the thousandths of one GPU.
void read_gpus(const CsvReader& reader, std::size_t at,
               const std::vector<std::string_view>& fields, TraceJob& job) {
  const std::string_view field = fields[at];
  const std::size_t point = std::min(field.find('.'), field.size());
  const std::string_view whole = field.substr(0, point);
  const std::string_view digits = field.substr(std::min(point + 1, field.size()));
  const bool is_part = point < field.size() && (whole.empty() || whole == "0");
  const bool is_whole = digits.find_first_not_of('0') == std::string_view::npos;
  if (point == field.size() || (!is_part && is_whole && !digits.empty())) {
    job.gpus = static_cast<std::uint32_t>(number(reader, whole, at, "num_gpus", 1, kMostGpus));
    return;
  }
  const bool is_decimal = is_part && !digits.empty() &&
                          digits.find_first_not_of("0123456789") == std::string_view::npos;
  std::uint32_t milli = 0;
  for (std::size_t i = 0; is_decimal && i < 3; ++i) {
    milli = milli * 10 + (i < digits.size() ? static_cast<std::uint32_t>(digits[i] - '0') : 0);
  }
  const bool is_finer = digits.size() > 3 && digits.find_first_not_of('0', 3) !=
                                                 std::string_view::npos;
  if (!is_decimal || is_finer || milli == 0) {
    reader.fail_at_field(at, fmt::format("num_gpus must be a whole number, or a part of a GPU in "
                                         "thousandths from 0.001 to 0.999, not '{}'",
                                         field));
  }
  job.gpus = 1;
  job.milli = static_cast<std::uint16_t>(milli);
}

TraceJob read_job(const CsvReader& reader, const Columns& columns,
                  const std::vector<std::string_view>& fields) {
  if (fields.size() != columns.count) {
    reader.fail_row(
        fmt::format("this line has {} fields, the header has {}", fields.size(), columns.count));
  }
  TraceJob job;
  job.id = fields[columns.id];
  if (job.id.empty()) reader.fail_at_field(columns.id, "job_id is empty");
  job.submit_s = number(reader, fields, columns.submit, "submit_s", 0, kLatestSecond);
  read_gpus(reader, columns.gpus, fields, job);
  job.duration_s = number(reader, fields, columns.duration, "duration_s", 0, kLatestSecond);
  job.line = reader.line();
  if (columns.pool) job.pool = fields[*columns.pool];
  if (columns.user) job.user = fields[*columns.user];
  if (columns.name) job.name = fields[*columns.name];
  if (columns.after) job.after = fields[*columns.after];
  if (columns.qos) job.qos = fields[*columns.qos];
  job.sizes = read_sizes(reader, columns, fields, job.gpus);
  if (job.milli > 0 && !job.sizes.empty()) {
    reader.fail_at_field(columns.gpus, "num_gpus must be a whole number for a job of several "
                                       "sizes: leave min_gpus, max_gpus and scaling empty");
  }
  job.kinds = read_kinds(reader, columns, fields);
  const auto known = [&](const std::optional<std::size_t>& column) {
    return column && !fields[*column].empty();
  };
  if (known(columns.requested)) {
    job.requested_s = number(reader, fields, *columns.requested, "requested_s", 0, kLatestSecond);
  }
  if (known(columns.started)) {
    job.recorded_start_s =
        number(reader, fields, *columns.started, "recorded_start_s", 0, kLatestSecond);
  }
  if (known(columns.priority)) {
    job.priority = static_cast<std::int32_t>(
        number(reader, fields, *columns.priority, "priority", -kMostPriority, kMostPriority));
  }
  return job;
}

/// Returns the fields gpu_kind and speeds of a job.
std::string kind_fields(const TraceJob& job) {
  if (job.kinds.empty()) return ",";
  const GpuKinds kinds(job.kinds.str());
  return fmt::format("{},{}", csv_field(kinds.gpu_kind()), csv_field(kinds.speeds()));
}

/// Returns the fields min_gpus, max_gpus and scaling of a job.
std::string size_fields(const TraceJob& job) {
  if (job.sizes.empty()) return ",,";
  const ElasticSizes sizes(job.sizes.str());
  return fmt::format("{},{},{}", sizes.least(), sizes.most(), csv_field(sizes.scaling()));
}

}  // namespace

std::uint32_t slices_for_parts(const std::vector<TraceJob>& jobs) {
  std::uint32_t common = 1000;
  for (const TraceJob& job : jobs) common = std::gcd(common, std::uint32_t{job.milli});
  return 1000 / common;
}

std::string job_trace_csv(const std::vector<TraceJob>& jobs) {
  std::string text =
      "job_id,submit_s,num_gpus,duration_s,vc,user,name,requested_s,"
      "recorded_start_s,priority,after,qos,gpu_kind,speeds,min_gpus,max_gpus,scaling\n";
  const auto known = [](bool is, std::int64_t value) {
    return is ? std::to_string(value) : std::string();
  };
  for (const TraceJob& job : jobs) {
    fmt::format_to(std::back_inserter(text), "{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n",
                   csv_field(job.id), std::int64_t{job.submit_s}, job.gpu_count(),
                   std::int64_t{job.duration_s}, csv_field(job.pool.str()),
                   csv_field(job.user.str()), csv_field(job.name.str()),
                   known(job.requested_s > 0, job.requested_s),
                   known(job.recorded_start_s >= 0, job.recorded_start_s),
                   known(job.priority != 0, job.priority), csv_field(job.after.str()),
                   csv_field(job.qos.str()), kind_fields(job), size_fields(job));
  }
  return text;
}

namespace {

/// Reader of the rows of a trace, whose text arrives in pieces.
class TraceRows {
 public:
  explicit TraceRows(const std::string& path) : path_(path) {}

  /// Reads a piece. `text`: complete rows; the first piece begins with the header.
  void take(std::string_view text) {
    CsvReader reader(path_, text, Separator::comma, line_);
    if (!columns_) {
      if (!reader.next_row(fields_)) return;
      columns_ = read_header(reader, fields_);
    }
    while (reader.next_row(fields_)) {
      if (!reader.is_blank()) jobs_.push_back(read_job(reader, *columns_, fields_));
    }
    line_ += static_cast<int>(std::count(text.begin(), text.end(), '\n'));
  }
  void reserve(std::size_t jobs) { jobs_.reserve(jobs); }
  std::vector<TraceJob> finish() {
    if (!columns_) fail_file(path_, "is empty: a job trace begins with a header");
    if (jobs_.empty()) fail_file(path_, "holds no jobs, only a header");
    return std::move(jobs_);
  }

 private:
  const std::string& path_;
  std::optional<Columns> columns_;
  std::vector<std::string_view> fields_;
  std::vector<TraceJob> jobs_;
  int line_ = 1;
};

/// Returns the jobs of a file that is read piece by piece. Returns nothing for a file that needs
/// its whole text: rows over several lines, or an error, whose place is found in the whole text.
std::optional<std::vector<TraceJob>> read_in_pieces(const std::string& path) {
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  TraceRows rows(path);
  std::string text;
  try {
    PackedFileReader file(path);
    for (bool more = true, first = true; more; first = false) {
      const std::size_t old = text.size();
      while (more && text.size() < old + kPiece) more = file.more(text);
      if (text.find('"', old) != std::string::npos) return {};
      if (first) refuse_json(path, text);
      const std::size_t end = more ? text.rfind('\n') + 1 : text.size();  // npos + 1 is 0
      const auto lines = static_cast<std::size_t>(
          std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
      // Reserved memory costs nothing until it is used; a growing vector exists twice for a while.
      if (first) rows.reserve(unpacked_size(path) / (end / (lines + 1) + 1) * 5 / 4);
      rows.take(std::string_view(text).substr(0, end));
      text.erase(0, end);
    }
    return rows.finish();
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

std::vector<TraceJob> load_job_trace(const std::string& path) {
  // Only a regular file can be read twice.
  if (is_file(path)) {
    if (auto jobs = read_in_pieces(path)) return std::move(*jobs);
  }
  return parse_job_trace(path, read_packed_text(path));
}

std::vector<TraceJob> parse_job_trace(const std::string& path, std::string_view text) {
  refuse_json(path, text);
  TraceRows rows(path);
  rows.reserve(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')));
  rows.take(text);
  return rows.finish();
}

}  // namespace orrery

#include "traces/jobs/job_log.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/files/file_kind.hpp"
#include "core/schema/yaml_tree.hpp"
#include "traces/files/csv.hpp"
#include "traces/jobs/batsim_workload.hpp"
#include "traces/jobs/gpu_kinds.hpp"
#include "traces/jobs/job_dependencies.hpp"
#include "traces/jobs/job_formats.hpp"
#include "traces/jobs/kubernetes_json.hpp"
#include "traces/jobs/log_time.hpp"
#include "traces/jobs/philly_json.hpp"
#include "traces/jobs/sacct_table.hpp"

namespace orrery {
namespace {

constexpr int kMostShown = 100;

bool begins_with_brace(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{';
}

/// Returns true for a list of Kubernetes objects, which begins with its apiVersion.
bool is_kubernetes(std::string_view text) {
  constexpr std::size_t kBeginning = 4096;
  return begins_with_brace(text) &&
         text.substr(0, kBeginning).find("\"apiVersion\"") != std::string_view::npos;
}

/// Format of a log in JSON.
struct JsonFormat {
  JobLogFormat name{};
  std::string_view note;
  /// Returns true if a JSON text has this format.
  bool (*is_one)(std::string_view text);
  void (*read)(const std::string& path, std::string_view text,
               const std::function<void(const JobEntry&)>& each);
};
/// All formats in JSON; a text has the first one that recognises it. The last one takes every text.
constexpr std::array kJsonFormats{
    JsonFormat{JobLogFormat::kubernetes,
               "If a workload was admitted several times, only the last time is known.",
               is_kubernetes, read_kubernetes_json},
    JsonFormat{JobLogFormat::slurm_sacct, {}, is_slurm_json,
               [](const std::string& path, std::string_view text, const auto&) {
                 refuse_slurm_json(path, text);
               }},
    JsonFormat{JobLogFormat::batsim,
               "A resource is taken as a GPU; a job ends at its walltime, which is the requested "
               "time; delays are cut off to seconds.",
               [](std::string_view text) {
                 return begins_with_brace(text) && is_batsim_workload(text);
               },
               read_batsim_workload},
    JsonFormat{JobLogFormat::philly_json,
               "A job's attempts count as one run, as long as all of them together.",
               [](std::string_view) { return true; }, read_philly_json},
};

/// Throws bad_input for a requested kind of GPU that the log does not name.
void check_kind(const std::string& path, const std::string& kind,
                const std::vector<std::string>& kinds) {
  if (kind.empty() || std::find(kinds.begin(), kinds.end(), kind) != kinds.end()) return;
  throw Error(SourcePlace{.file = path, .line_text = ""},
              kinds.empty()
                  ? fmt::format("--gpu-kind {}: expected a log that names kinds of GPUs (sacct "
                                "with gres/gpu:KIND in AllocTRES, openb, GFS, or a column "
                                "gpu_kind), found none",
                                shown(kind))
                  : fmt::format("--gpu-kind {}: expected a kind of GPU of the log ({}){}",
                                shown(kind), fmt::join(kinds, ", "), did_you_mean(kind, kinds)));
}

/// Kinds of GPUs that the jobs of a log name, and the choice of the jobs that may have one kind.
class LogKinds {
 public:
  /// `chosen`: the kind; empty: all jobs. It must outlive this object.
  explicit LogKinds(const std::string& chosen) : chosen_(chosen) {}

  /// Returns true if the job may have the chosen kind, and collects its kinds.
  bool record_job(const TraceJob& job) {
    if (job.kinds.empty()) return true;
    const auto [known, fresh] = passes_.try_emplace(job.kinds, chosen_.empty());
    if (!fresh) return known->second;
    const GpuKinds kinds(job.kinds.str());
    for (const KindSpeed& each : kinds.by_speed()) {
      kinds_.insert(each.kind);
      known->second = known->second || each.kind == chosen_;
    }
    return known->second;
  }
  /// Writes which kinds the log names. Throws bad_input if the chosen kind is none of them.
  void note_kinds(const std::string& path, TraceQuality& quality) const {
    const std::vector<std::string> kinds(kinds_.begin(), kinds_.end());
    check_kind(path, chosen_, kinds);
    if (kinds.size() < 2) return;
    quality.add_notes(
        chosen_.empty()
            ? fmt::format("The log names {} kinds of GPUs ({}), which count as equal if the nodes "
                          "have no kinds; --gpu-kind selects the jobs of one.",
                          kinds.size(), fmt::join(kinds, ", "))
            : fmt::format("Jobs that must have another kind of GPU than {} are passed over.",
                          chosen_));
  }

 private:
  const std::string& chosen_;
  std::map<Label, bool> passes_;
  std::set<std::string> kinds_;
};

/// Returns the kinds of GPUs that a row of another tool names.
Label row_kinds(const JobFormat& format, const LogRow& row) {
  if (format.kinds == nullptr) return {};
  try {
    return gpu_kinds({format.kinds(row), {}});
  } catch (const KindProblem& problem) {
    throw RowProblem{std::string(problem.column), problem.reason};
  }
}

/// Collector of the jobs and problems of rows.
class LogReader {
 public:
  LogReader(const std::string& path, std::string_view text, const JobLogOptions& options)
      : path_(path), text_(text), options_(options), kinds_(options.gpu_kind) {}

  /// `columns`: names of the columns; empty: the first line has them, or the format.
  void read_table(const JobFormat& format, Separator mark, std::vector<std::string> columns);
  void read_json(const JsonFormat& format);
  JobLog finish(bool numbered);

 private:
  void take(std::optional<TraceJob> job, int line);
  void reject(int line, const std::string& id, const std::string& reason);
  void refuse_bad_text() const;

  const std::string& path_;
  const std::string_view text_;
  const JobLogOptions& options_;
  JobLog log_;
  LogKinds kinds_;
};

void LogReader::refuse_bad_text() const {
  const std::size_t bad = first_bad_byte(text_);
  if (bad == std::string_view::npos) return;
  const std::string_view before = text_.substr(0, bad);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t begin = before.rfind('\n') + 1;  // npos + 1 is 0
  throw Error(place_in(text_, path_, static_cast<int>(line), static_cast<int>(bad - begin) + 1),
              "expected UTF-8 text, got another byte");
}

void LogReader::reject(int line, const std::string& id, const std::string& reason) {
  TraceQuality& quality = log_.quality;
  quality.set_rejected(quality.rejected() + 1);
  if (quality.first_rejected_size() >= kMostShown) return;
  RejectedRow& row = *quality.add_first_rejected();
  row.set_line(static_cast<std::uint64_t>(line));
  row.set_job_id(shown(id));
  row.set_reason(reason);
}

void LogReader::take(std::optional<TraceJob> job, int line) {
  if (!job) return log_.quality.set_passed_over(log_.quality.passed_over() + 1);
  job->line = line;
  log_.jobs.push_back(std::move(*job));
}

/// Returns true if a log of sacct says which jobs have GPUs.
bool names_gpus(std::string_view text) {
  return text.find("gres/gpu") != std::string_view::npos ||
         text.find("gpu:") != std::string_view::npos;
}

/// Counts the jobs with the id of an earlier job.
void count_duplicates(JobLog& log) {
  std::vector<std::pair<std::string_view, std::size_t>> ids;
  ids.reserve(log.jobs.size());
  for (std::size_t i = 0; i < log.jobs.size(); ++i) ids.emplace_back(log.jobs[i].id.view(), i);
  std::sort(ids.begin(), ids.end());
  std::size_t count = 0, first = 0;
  for (std::size_t i = 1; i < ids.size(); ++i) {
    if (ids[i].first != ids[i - 1].first) continue;
    if (count == 0 || ids[i].second < first) first = ids[i].second;
    ++count;
  }
  if (count == 0) return;
  log.quality.set_duplicate_ids(count);
  log.quality.set_first_duplicate(shown(log.jobs[first].id.str()));
}

/// Counts the dependencies on jobs that the log lacks. Throws bad_input for jobs that wait for each
/// other.
void check_dependencies(const std::string& path, JobLog& log) {
  const JobDependencies dependencies = job_dependencies(log.jobs);
  if (const auto row = first_circular(dependencies)) {
    throw Error(SourcePlace{.file = path, .line = log.jobs[*row].line, .line_text = ""},
                fmt::format("after: expected jobs that can end before this one, found '{}', which "
                            "wait for this job, or for each other",
                            shown(log.jobs[*row].after.str())));
  }
  if (!dependencies.after.empty()) {
    log.quality.add_notes(fmt::format("{} jobs enter the queue after the end of others.",
                                      dependencies.after.size()));
  }
  if (dependencies.unknown > 0) {
    log.quality.add_notes(fmt::format("{} dependencies are on jobs that the log lacks: they keep "
                                      "no job waiting.",
                                      dependencies.unknown));
  }
}

/// Returns the names of the columns: those of the first line that is not blank, or of the format.
std::vector<std::string> columns_of(const JobFormat& format, CsvReader& reader) {
  std::vector<std::string> columns;
  if (format.header) {
    std::vector<std::string_view> fields;
    while (reader.next_row(fields) && reader.is_blank()) {}
    return {fields.begin(), fields.end()};
  }
  std::string_view names = format.told_by;
  while (!names.empty()) {
    const std::size_t end = std::min(names.find(' '), names.size());
    columns.emplace_back(names.substr(0, end));
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return columns;
}

void LogReader::read_table(const JobFormat& format, Separator mark,
                           std::vector<std::string> columns) {
  refuse_bad_text();
  log_.quality.set_format(std::string(name_of(format.name)));
  if (!format.note.empty()) log_.quality.add_notes(std::string(format.note));
  CsvReader reader(path_, text_, mark);
  std::vector<std::string_view> fields;
  if (columns.empty()) columns = columns_of(format, reader);
  const bool slurm = format.name == JobLogFormat::slurm_sacct;
  if (slurm && !columns.empty() && columns.back().empty()) columns.pop_back();  // sacct -p
  const std::uint32_t node_gpus = slurm && !names_gpus(text_) ? options_.gpus_per_node : 0;
  if (node_gpus > 0) {
    log_.quality.add_notes(
        fmt::format("The log names no GPUs (gres/gpu): a job has all {} GPUs of "
                    "its nodes (NNodes).",
                    node_gpus));
  }
  std::uint64_t rows = 0;
  while (reader.next_row(fields)) {
    const bool remark =
        format.name == JobLogFormat::swf && !fields.empty() && fields[0].starts_with(';');
    if (reader.is_blank() || remark || (fields.size() == 1 && fields[0].empty())) continue;
    ++rows;
    if (slurm) join_sacct_fields(fields, columns.size(), mark);
    if (fields.size() != columns.size()) {
      // Fewer fields are a file that was cut short, unless empty values leave no trace.
      const bool is_row_broken =
          slurm && (fields.size() > columns.size() || mark == Separator::blanks);
      if (!is_row_broken || options_.strict) {
        reader.fail_row(fmt::format("this line has {} fields, the others have {}", fields.size(),
                                    columns.size()));
      }
      reject(reader.line(), std::string(fields[0]),
             field_count_problem(fields.size(), columns.size(), mark));
      continue;
    }
    const LogRow row(reader, columns, fields, node_gpus);
    try {
      std::optional<TraceJob> job = format.read(row);
      if (job) job->kinds = row_kinds(format, row);
      if (job && !kinds_.record_job(*job)) job.reset();
      take(std::move(job), reader.line());
    } catch (const RowProblem& problem) {
      if (options_.strict) {
        reader.fail_at_field(row.index_of(problem.column).value_or(0), problem.reason);
      }
      reject(reader.line(), std::string(fields[0]), problem.reason);
    }
  }
  log_.quality.set_rows(rows);
  kinds_.note_kinds(path_, log_.quality);
}

void LogReader::read_json(const JsonFormat& format) {
  refuse_bad_text();
  log_.quality.set_format(std::string(name_of(format.name)));
  log_.quality.add_notes(std::string(format.note));
  std::uint64_t rows = 0;
  format.read(path_, text_, [&](const JobEntry& entry) {
    ++rows;
    if (entry.problem.empty()) {
      return take(entry.ran ? std::optional(entry.job) : std::nullopt, entry.job.line);
    }
    if (options_.strict) throw Error(place_in(text_, path_, entry.job.line, 1), entry.problem);
    reject(entry.job.line, entry.job.id.str(), entry.problem);
  });
  log_.quality.set_rows(rows);
  kinds_.note_kinds(path_, log_.quality);
}

/// Returns the log with its jobs sorted by submission and with times from the first submission.
/// Jobs without ids, or all jobs if `numbered`, get numbers as ids.
JobLog LogReader::finish(bool numbered) {
  std::vector<TraceJob>& jobs = log_.jobs;
  std::stable_sort(jobs.begin(), jobs.end(),
                   [](const TraceJob& a, const TraceJob& b) { return a.submit_s < b.submit_s; });
  const std::int64_t first = jobs.empty() ? 0 : std::int64_t{jobs.front().submit_s};
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    jobs[i].submit_s -= first;
    if (jobs[i].recorded_start_s >= 0) jobs[i].recorded_start_s -= first;
    if (numbered || jobs[i].id.empty()) jobs[i].id = std::to_string(i);
  }
  log_.quality.set_jobs(jobs.size());
  // Logs that count from their own begin have small numbers.
  constexpr std::int64_t kYear1990 = 631'152'000;
  if (first >= kYear1990) {
    log_.origin_s = first;
    log_.quality.add_notes(fmt::format("Time 0 is {}, the first submission.", date_text(first)));
  }
  if (!numbered) count_duplicates(log_);
  check_dependencies(path_, log_);
  if (!jobs.empty()) return std::move(log_);
  const TraceQuality& quality = log_.quality;
  std::string message = fmt::format(
      "expected jobs with GPUs that have ended, got none ({} rows passed over, {} "
      "rejected)",
      quality.passed_over(), quality.rejected());
  if (quality.first_rejected_size() > 0) {
    const RejectedRow& row = quality.first_rejected(0);
    message += fmt::format("; line {}: {}", row.line(), row.reason());
  } else if (quality.format() == name_of(JobLogFormat::slurm_sacct) && !names_gpus(text_)) {
    message +=
        "; no job names GPUs (gres/gpu in AllocTRES): if jobs have whole nodes (NNodes), "
        "give --gpus-per-node";
  }
  throw Error(SourcePlace{.file = path_, .line_text = ""}, message);
}

// ---- recognition of formats -----------------------------------------------------------------

/// Returns the fields of the first line that is not blank and not a remark.
std::vector<std::string> first_fields(const std::string& path, std::string_view text,
                                      Separator mark) {
  CsvReader reader(path, text, mark);
  std::vector<std::string_view> fields;
  while (reader.next_row(fields)) {
    if (!reader.is_blank() && !fields[0].starts_with(';')) break;
  }
  return {fields.begin(), fields.end()};
}

/// Format of a table and its separator.
struct TableFormat {
  const JobFormat* format = nullptr;
  Separator mark = Separator::comma;
};

/// Returns the format of a table; nothing for a table of no format. A table of sacct is recognised
/// first, because its separator may be that of another format.
std::optional<TableFormat> table_format_of(const std::string& path, std::string_view text) {
  if (const auto mark = sacct_separator(text)) {
    std::vector<std::string> fields = first_fields(path, text, *mark);
    std::replace(fields.begin(), fields.end(), std::string("JobIDRaw"), std::string("JobID"));
    const JobFormat* const found = format_with(fields, Separator::bar, true);
    if (found == nullptr) return {};
    return TableFormat{found, *mark};
  }
  if (is_sacct_row(text)) return {};
  for (const Separator mark : {Separator::bar, Separator::tab, Separator::blanks}) {
    const std::vector<std::string> fields = first_fields(path, text, mark);
    for (const bool header : {true, false}) {
      if (const JobFormat* found = format_with(fields, mark, header)) {
        return TableFormat{found, mark};
      }
    }
  }
  const JobFormat* const found =
      format_with(first_fields(path, text, Separator::comma), Separator::comma, true);
  if (found == nullptr) return {};
  return TableFormat{found, Separator::comma};
}

bool is_json(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && (text[first] == '[' || text[first] == '{');
}

const JsonFormat& json_format_of(std::string_view text) {
  return *std::find_if(kJsonFormats.begin(), kJsonFormats.end(),
                       [text](const JsonFormat& each) { return each.is_one(text); });
}

/// Returns true if the fields look like the names of columns.
bool is_header(const std::vector<std::string>& fields) {
  return !fields.empty() && std::all_of(fields.begin(), fields.end(), [](const auto& field) {
    return !field.empty() && std::isalpha(static_cast<unsigned char>(field.front())) != 0 &&
           field.find_first_of(" \t{}[]") == std::string::npos;
  });
}

/// Throws bad_input for a table whose columns are nearly those of a format, or those of none.
void refuse_columns(const std::string& path, std::string_view text) {
  for (const Separator mark : {Separator::comma, Separator::bar}) {
    const std::optional<NearFormat> near = nearest_format(first_fields(path, text, mark), mark);
    if (!near) continue;
    throw Error(place_in(text, path, 1, 1),
                fmt::format("expected the columns of the format {} ({}), found no '{}'; {}",
                            name_of(near->format->name), near->format->told_by,
                            fmt::join(near->missing, "', '"), near->format->origin));
  }
  const std::vector<std::string> fields = first_fields(path, text, Separator::comma);
  if (!is_header(fields)) return;
  throw Error(place_in(text, path, 1, 1),
              fmt::format("expected a job log, found a table with the columns {}, of which no "
                          "format (orrery import jobs --help) has half: write a CSV with the "
                          "columns job_id,submit_s,num_gpus,duration_s, one line for each job",
                          shown(fmt::format("{}", fmt::join(fields, ",")))));
}

[[noreturn]] void refuse_format(const std::string& path, std::string_view text) {
  refuse_sacct(path, text);
  refuse_columns(path, text);
  throw Error(place_in(text, path, 1, 1),
              fmt::format("expected a job log that begins as one of: {}, got another file; "
                          "Orrery's own form has the columns "
                          "job_id,submit_s,num_gpus,duration_s,vc",
                          fmt::join(job_log_formats(), ", ")));
}

// ---- Gavel's throughputs --------------------------------------------------------------------

/// Returns the steps per second of each kind of job without neighbours, by name and number of GPUs.
std::map<std::pair<std::string, std::uint32_t>, double> read_throughputs(
    const JobLogOptions& options) {
  const std::string& path = options.throughputs;
  const std::string text = read_packed_text(path);
  const auto json = nlohmann::json::parse(text, nullptr, false);
  const auto gpu = json.is_object() ? json.find(options.gpu) : json.end();
  if (!json.is_object() || gpu == json.end() || !gpu->is_object()) {
    throw Error(
        place_in(text, path, 1, 1),
        fmt::format("expected Gavel's throughputs: a JSON object with a key '{}'", options.gpu));
  }
  std::map<std::pair<std::string, std::uint32_t>, double> out;
  for (const auto& [key, alone] : gpu->items()) {  // "('LM (batch size 5)', 4)"
    const std::size_t end = key.rfind("', ");
    if (!key.starts_with("('") || end == std::string::npos || !alone.is_object()) continue;
    const auto steps = alone.find("null");
    const auto gpus = static_cast<std::uint32_t>(std::atoi(key.c_str() + end + 3));
    if (steps == alone.end() || !steps->is_number()) continue;
    out[{key.substr(2, end - 2), gpus}] = steps->get<double>();
  }
  return out;
}

/// Converts the steps of a trace to seconds.
void take_throughputs(const std::string& path, const JobLogOptions& options, JobLog& log) {
  if (options.throughputs.empty()) {
    throw Error(SourcePlace{.file = path, .line_text = ""},
                "expected the throughputs of a trace of Gavel, which has steps instead of seconds, "
                "found none: give Gavel's table (simulation_throughputs.json) with --throughputs");
  }
  const auto throughputs = read_throughputs(options);
  std::vector<TraceJob> known;
  TraceQuality& quality = log.quality;
  for (TraceJob& job : log.jobs) {
    const auto found = throughputs.find({job.name, job.gpus});
    if (found != throughputs.end() && found->second > 0) {
      job.duration_s =
          static_cast<std::int64_t>(static_cast<double>(job.duration_s) / found->second);
      known.push_back(std::move(job));
      continue;
    }
    const std::string reason =
        fmt::format("no throughput of '{}' on {} {}", shown(job.name.str()), job.gpus, options.gpu);
    if (options.strict) {
      throw Error(SourcePlace{.file = path, .line = job.line, .line_text = ""}, reason);
    }
    quality.set_rejected(quality.rejected() + 1);
    if (quality.first_rejected_size() >= kMostShown) continue;
    RejectedRow& row = *quality.add_first_rejected();
    row.set_line(static_cast<std::uint64_t>(job.line));
    row.set_job_id(job.id.str());
    row.set_reason(reason);
  }
  log.jobs = std::move(known);
  quality.set_jobs(log.jobs.size());
}

JobLog canonical(const std::string& path, std::vector<TraceJob> jobs,
                 const JobLogOptions& options) {
  JobLog log;
  log.quality.set_format(std::string(name_of(JobLogFormat::canonical)));
  log.quality.set_rows(jobs.size());
  LogKinds kinds(options.gpu_kind);
  std::erase_if(jobs, [&kinds](const TraceJob& job) { return !kinds.record_job(job); });
  kinds.note_kinds(path, log.quality);
  log.quality.set_passed_over(log.quality.rows() - jobs.size());
  log.jobs = std::move(jobs);
  log.quality.set_jobs(log.jobs.size());
  count_duplicates(log);
  check_dependencies(path, log);
  return log;
}

bool is_canonical(const std::string& path, std::string_view text) {
  const std::vector<std::string> fields = first_fields(path, text, Separator::comma);
  return std::find(fields.begin(), fields.end(), "submit_s") != fields.end();
}

/// Recognises the canonical form by its first line, which has no quotes.
bool begins_canonical(std::string_view text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  return line.find('"') == std::string_view::npos && line.size() < text.size() &&
         is_canonical({}, line);
}

/// Reads a log of sacct without the names of its columns, which the options have.
JobLog parse_named_columns(const std::string& path, std::string_view text,
                           const JobLogOptions& options) {
  const std::vector<std::string> columns = sacct_columns(options.columns);
  const Separator mark = separator_for(path, text, columns);
  const auto formats = job_formats();
  const auto format = std::find_if(formats.begin(), formats.end(), [](const JobFormat& each) {
    return each.name == JobLogFormat::slurm_sacct;
  });
  LogReader reader(path, text, options);
  reader.read_table(*format, mark, columns);
  return reader.finish(false);
}

}  // namespace

JobLog parse_job_log(const std::string& path, std::string_view text, const JobLogOptions& options) {
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  if (is_json(text)) {
    if (!options.columns.empty()) {
      throw Error(place_in(text, path, 1, 1),
                  "--columns: expected a table of sacct without a header, found JSON; leave the "
                  "option out");
    }
    LogReader reader(path, text, options);
    reader.read_json(json_format_of(text));
    return reader.finish(false);
  }
  if (!options.columns.empty()) return parse_named_columns(path, text, options);
  if (is_canonical(path, text)) return canonical(path, parse_job_trace(path, text), options);
  if (const auto table = with_bars(text)) return parse_job_log(path, *table, options);
  const std::optional<TableFormat> table = table_format_of(path, text);
  if (!table) refuse_format(path, text);
  LogReader reader(path, text, options);
  reader.read_table(*table->format, table->mark, {});
  const JobLogFormat name = table->format->name;
  const bool has_ids = name != JobLogFormat::philly_csv && name != JobLogFormat::gavel &&
                       name != JobLogFormat::shockwave;
  JobLog log = reader.finish(!has_ids);
  if (name == JobLogFormat::gavel) take_throughputs(path, options, log);
  return log;
}

JobLog load_job_log(const std::string& path, const JobLogOptions& options) {
  PackedFileReader file(path);
  std::string text;
  bool more = file.more(text);
  // The canonical form is read piece by piece, without the whole text in memory.
  const bool again = is_file(path);
  if (again && options.columns.empty() && !is_json(text) && begins_canonical(text)) {
    return canonical(path, load_job_trace(path), options);
  }
  while (more) more = file.more(text);
  return parse_job_log(path, text, options);
}

std::vector<std::string> job_log_formats() { return all_names<JobLogFormat>(); }

void anonymize(std::vector<TraceJob>& jobs) {
  std::map<Label, Label> users, pools, names, qos;
  const auto number = [](std::map<Label, Label>& known, const char* what, Label& name) {
    if (name.empty()) return;
    name = known.try_emplace(name, fmt::format("{}-{}", what, known.size() + 1)).first->second;
  };
  const JobDependencies dependencies = job_dependencies(jobs);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    jobs[i].id = std::to_string(i);
    jobs[i].after = {};
    number(users, "user", jobs[i].user);
    number(pools, "vc", jobs[i].pool);
    number(names, "name", jobs[i].name);
    number(qos, "qos", jobs[i].qos);
  }
  for (const auto& [row, first] : dependencies.after) {
    jobs[row].after = fmt::format("{}", fmt::join(first, " "));
  }
}

}  // namespace orrery

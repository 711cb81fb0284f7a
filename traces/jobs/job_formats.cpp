#include "traces/jobs/job_formats.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "core/schema/yaml_tree.hpp"
#include "traces/jobs/elastic_sizes.hpp"
#include "traces/jobs/log_time.hpp"

namespace orrery {
namespace {

constexpr double kMostGpus = 1 << 20;
constexpr double kMostSeconds = 100.0 * 365 * 24 * 3600;

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    out.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

bool says_nothing(std::string_view field) {
  constexpr std::array kWords{"None", "none", "nan", "NaN", "NULL", "null", "Unknown", "N/A", "-"};
  return field.empty() || std::find(kWords.begin(), kWords.end(), field) != kWords.end();
}

/// Returns the time from start to end. Throws a RowProblem for an end before the start.
std::int64_t between(std::int64_t start, std::int64_t end, std::string_view column) {
  if (end >= start) return end - start;
  throw RowProblem{std::string(column), fmt::format("{} is before its start", column)};
}

void take_start(TraceJob& job, const std::optional<std::int64_t>& start) {
  if (start && *start >= job.submit_s) job.recorded_start_s = *start;
}

/// Sets the part of a GPU that a job asks for, in thousandths, rounded up; none for 1000 and for 0.
void take_part(TraceJob& job, double milli) {
  if (milli > 0 && milli <= 999) job.milli = static_cast<std::uint16_t>(std::ceil(milli));
}

// ---- one function a format --------------------------------------------------------------------

std::optional<TraceJob> philly(const LogRow& row) {
  TraceJob job;
  job.submit_s = row.required_value(row.instant("timestamp"), "timestamp");
  job.gpus = row.gpus("num_gpus");
  job.duration_s = row.seconds("duration");
  job.pool = row.string("cluster");
  if (job.gpus == 0) return {};
  return job;
}

/// Reads a row of Helios, or of Acme's logs of Seren and Kalos, which have a type in place of a
/// virtual cluster.
std::optional<TraceJob> helios(const LogRow& row) {
  TraceJob job;
  job.id = row.string("job_id");
  job.gpus = row.gpus("gpu_num");
  if (job.gpus == 0) return {};
  const auto start = row.instant("start_time");
  if (!start) return {};  // the job never ran
  job.submit_s = row.required_value(row.instant("submit_time"), "submit_time");
  job.duration_s = row.seconds("duration");
  job.user = row.string("user");
  job.pool = row.string("vc");
  job.name = row.string("type");
  take_start(job, start);
  return job;
}

std::optional<TraceJob> openb(const LogRow& row) {
  TraceJob job;
  job.id = row.string("name");
  job.gpus = row.gpus("num_gpu");
  if (job.gpus == 1) take_part(job, row.number("gpu_milli", 1000).value_or(1000));
  const auto start = row.instant("scheduled_time"), end = row.instant("deletion_time");
  if (job.gpus == 0 || !start || !end) return {};
  job.submit_s = row.required_value(row.instant("creation_time"), "creation_time");
  job.duration_s = between(*start, *end, "deletion_time");
  job.pool = row.string("qos");
  job.name = row.string("gpu_spec");
  take_start(job, start);
  return job;
}

std::optional<TraceJob> tiresias(const LogRow& row) {
  TraceJob job;
  job.id = row.string("job_id");
  job.gpus = row.gpus("num_gpu");
  job.submit_s = row.seconds("submit_time");
  job.duration_s = row.seconds("duration");
  job.name = row.string("model_name");
  if (job.gpus == 0) return {};
  return job;
}

std::optional<TraceJob> muri(const LogRow& row) {
  constexpr double kMilliseconds = 1000;
  const auto in_seconds = [&row](std::string_view column) {
    const auto value = row.number(column, kMostSeconds * kMilliseconds);
    return static_cast<std::int64_t>(row.required_value(value, column) / kMilliseconds);
  };
  TraceJob job;
  job.id = row.string("job_id");
  job.gpus = row.gpus("num_gpu");
  job.submit_s = in_seconds("submit_time");
  job.duration_s = in_seconds("duration");
  job.name = row.string("model_name");
  if (job.gpus == 0) return {};
  return job;
}

/// Reads a row of Alibaba's log of spot and reserved jobs (GFS).
std::optional<TraceJob> gfs(const LogRow& row) {
  TraceJob job;
  job.id = row.string("job_name");
  const double each = row.number("gpu_request", kMostGpus).value_or(0);
  const double workers = row.number("worker_num", kMostGpus).value_or(1);
  if (each <= 0 || workers <= 0) return {};
  if (each * workers > kMostGpus) {
    throw RowProblem{"worker_num", fmt::format("requests {:g} GPUs", each * workers)};
  }
  job.gpus = static_cast<std::uint32_t>(std::ceil(each)) * static_cast<std::uint32_t>(workers);
  if (job.gpus == 1 && each < 1) take_part(job, each * 1000);
  job.submit_s = row.required_value(row.instant("submit_time"), "submit_time");
  job.duration_s = row.seconds("duration");
  job.pool = row.string("organization");
  job.name = row.string("job_type");
  return job;
}

/// Reads a row of Alibaba's log of instances that serve recommendation models (DLRM). An instance
/// that began before the log or ended after it has no time of its own, and is skipped.
std::optional<TraceJob> dlrm(const LogRow& row) {
  TraceJob job;
  job.id = row.string("instance_sn");
  job.gpus = row.gpus("gpu_request");
  const auto submit = row.instant("creation_time");
  const auto start = row.instant("scheduled_time"), end = row.instant("deletion_time");
  if (job.gpus == 0 || !submit || !start || !end) return {};
  job.submit_s = *submit;
  job.duration_s = between(*start, *end, "deletion_time");
  job.name = row.string("app_name");
  take_start(job, start);
  return job;
}

/// Returns the sizes of a job of `gpus` GPUs, from the columns of the canonical form.
Label sizes_of(const LogRow& row, std::uint32_t gpus) {
  try {
    return elastic_sizes({row.text("min_gpus"), row.text("max_gpus"), row.text("scaling")}, gpus);
  } catch (const SizeProblem& problem) {
    throw RowProblem{std::string(problem.column), problem.reason};
  }
}

/// Reads a row of Sia's or Pollux's workloads, to which a duration, and perhaps sizes, have been
/// added.
std::optional<TraceJob> sia(const LogRow& row) {
  TraceJob job;
  job.id = row.string("name");
  job.gpus = row.gpus("num_replicas");
  job.submit_s = row.seconds("time");
  job.duration_s = row.seconds("duration");
  job.name = row.string("application");
  if (job.gpus == 0) return {};
  job.sizes = sizes_of(row, job.gpus);
  return job;
}

/// Reads a row of Gavel. The duration is in steps until job_log.cpp divides it by the throughput.
std::optional<TraceJob> gavel(const LogRow& row) {
  TraceJob job;
  job.name = row.string("job_type");
  job.gpus = row.gpus("scale_factor");
  job.submit_s = row.seconds("arrival_time");
  job.duration_s =
      static_cast<std::int64_t>(row.required_value(row.number("total_steps", 1e15), "total_steps"));
  if (job.gpus == 0) return {};
  return job;
}

/// Reads a row of Shockwave, whose traces are Gavel's with the mode and the duration of a job.
std::optional<TraceJob> shockwave(const LogRow& row) {
  TraceJob job;
  job.name = row.string("job_type");
  job.gpus = row.gpus("scale_factor");
  job.submit_s = row.seconds("arrival_time");
  job.duration_s = row.seconds("duration");
  if (job.gpus == 0) return {};
  return job;
}

/// Reads a row of the Standard Workload Format, version 2.2, in which -1 means unknown.
std::optional<TraceJob> swf(const LogRow& row) {
  const auto known = [&row](std::string_view column, double most) -> std::optional<double> {
    if (row.text(column).starts_with("-1")) return {};
    return row.number(column, most);
  };
  TraceJob job;
  job.id = row.string("job");
  const auto asked = known("requested_processors", kMostGpus);
  const auto had = known("processors", kMostGpus);
  const auto ran = known("run_time", kMostSeconds);
  job.gpus = static_cast<std::uint32_t>(asked && *asked > 0 ? *asked : had.value_or(0));
  if (job.gpus == 0 || !ran) return {};
  job.submit_s = row.seconds("submit");
  job.duration_s = static_cast<std::int64_t>(*ran);
  job.requested_s = static_cast<std::int64_t>(known("requested_time", kMostSeconds).value_or(0));
  const auto name = [&row](std::string_view column) {
    return row.text(column) == "-1" ? std::string() : row.string(column);
  };
  job.user = name("user");
  job.pool = name("queue");
  job.name = name("executable");
  if (known("preceding_job", kMostSeconds).value_or(0) > 0) job.after = row.string("preceding_job");
  if (const auto wait = known("wait", kMostSeconds)) {
    job.recorded_start_s = job.submit_s + static_cast<std::int64_t>(*wait);
  }
  return job;
}

// ---- Slurm --------------------------------------------------------------------------------------

/// Returns the number after the last `mark`: 4 for "gres/gpu:a100=4" or "gpu:a100:4(S:0-1)".
std::uint32_t count_behind(std::string_view text, char mark, std::string_view column) {
  text = text.substr(0, text.find('('));
  const std::size_t at = text.rfind(mark);
  std::uint32_t count = 1;  // "gpu" means one GPU
  if (at == std::string_view::npos) return count;
  const std::string_view digits = text.substr(at + 1);
  const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), count);
  if (error == std::errc{} && stop == digits.data() + digits.size() && count <= kMostGpus) {
    return count;
  }
  if (mark == ':' && error == std::errc::invalid_argument) return 1;  // "gpu:a100": one GPU
  throw RowProblem{std::string(column), fmt::format("{} says '{}'", column, shown(text))};
}

template <class Each>
void for_each_part(std::string_view list, Each&& each) {
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(','), list.size());
    each(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
}

/// Returns the GPUs of a list such as "billing=8,cpu=8,gres/gpu=4,gres/gpu:a100=4,node=1": the
/// total (gres/gpu), or without a total the sum over the GPU types.
std::uint32_t gpus_of_tres(std::string_view list, std::string_view column) {
  std::uint32_t all = 0, kinds = 0;
  for_each_part(list, [&](std::string_view part) {
    if (part.starts_with("gres/gpu=")) all = count_behind(part, '=', column);
    if (part.starts_with("gres/gpu:")) kinds += count_behind(part, '=', column);
  });
  return all > 0 ? all : kinds;
}

/// Returns the GPUs of a list such as "gpu:a100:4" on each node.
std::uint32_t gpus_of_gres(std::string_view list, std::string_view column) {
  std::uint32_t all = 0;
  for_each_part(list, [&](std::string_view part) {
    if (part == "gpu" || part.starts_with("gpu:")) all += count_behind(part, ':', column);
  });
  return all;
}

/// sacct without -P cuts long values off and ends them with '+'.
void refuse_cut_off(const LogRow& row) {
  for (const std::string_view column :
       {"AllocTRES", "ReqTRES", "AllocGRES", "ReqGRES", "Submit", "Start", "End"}) {
    if (!row.text(column).ends_with('+')) continue;
    throw RowProblem{std::string(column), fmt::format("{} is cut off: '{}'; use sacct -P", column,
                                                      shown(row.text(column)))};
  }
}

std::uint32_t slurm_gpus(const LogRow& row) {
  for (const std::string_view column : {"AllocTRES", "ReqTRES"}) {
    if (const auto gpus = gpus_of_tres(row.text(column), column)) return gpus;
  }
  const auto nodes = row.number("NNodes", kMostGpus);
  for (const std::string_view column : {"AllocGRES", "ReqGRES"}) {
    const std::uint32_t each = gpus_of_gres(row.text(column), column);
    if (each > 0) return each * static_cast<std::uint32_t>(std::max(1.0, nodes.value_or(1)));
  }
  if (row.node_gpus() > 0) return static_cast<std::uint32_t>(nodes.value_or(0)) * row.node_gpus();
  return 0;
}

/// Returns the kinds of GPUs in a list such as "gres/gpu:a100=4", separated by bars.
std::string kinds_of_tres(std::string_view list) {
  constexpr std::string_view kKind = "gres/gpu:";
  std::string kinds;
  for_each_part(list, [&](std::string_view part) {
    if (!part.starts_with(kKind)) return;
    if (!kinds.empty()) kinds += '|';
    kinds += part.substr(kKind.size(), part.find('=') - kKind.size());
  });
  return kinds;
}

std::string slurm_kinds(const LogRow& row) {
  std::string kinds = kinds_of_tres(row.text("AllocTRES"));
  return kinds.empty() ? kinds_of_tres(row.text("ReqTRES")) : kinds;
}

std::int64_t slurm_limit(const LogRow& row) {
  const std::string_view raw = row.text("TimelimitRaw");
  if (raw != "UNLIMITED" && raw != "Partition_Limit") {
    if (const auto minutes = row.number("TimelimitRaw", kMostSeconds / 60)) {
      return static_cast<std::int64_t>(*minutes) * 60;
    }
  }
  return parse_elapsed(row.text("Timelimit")).value_or(0);  // UNLIMITED, Partition_Limit: none
}

std::optional<TraceJob> sacct(const LogRow& row) {
  TraceJob job;
  job.id = row.string(row.has("JobID") ? "JobID" : "JobIDRaw");
  if (job.id.view().find('.') != std::string_view::npos) return {};  // a step of a job
  refuse_cut_off(row);
  const auto start = row.instant("Start"), end = row.instant("End");
  job.gpus = slurm_gpus(row);
  if (job.gpus == 0 || !start || !end) return {};  // no GPUs, never ran, or still runs
  const std::int64_t submit = row.required_value(row.instant("Submit"), "Submit");
  // A job that started is eligible.
  const std::int64_t eligible = std::min(row.instant("Eligible").value_or(submit), *start);
  job.submit_s = std::max(submit, eligible);
  job.duration_s = between(*start, *end, "End");
  job.requested_s = slurm_limit(row);
  job.user = row.string("User");
  job.pool = row.string(row.has("Partition") ? "Partition" : "Account");
  job.qos = row.string("QOS");
  job.name = row.string("JobName");
  // Slurm's priorities have 32 bits; the upper half becomes one priority here.
  const double priority = row.number("Priority", 4294967295.0).value_or(0);
  job.priority = static_cast<std::int32_t>(std::min(priority, 2e9));
  take_start(job, start);
  return job;
}

// ---- the table ----------------------------------------------------------------------------------

constexpr std::string_view kSacctNote =
    "Times without an offset are taken as UTC; the time limit is the requested time; steps of jobs "
    "are part of their job; with the column Eligible, jobs enter the queue when they may start.";

/// Sources of the tables: a file with all columns, for messages.
constexpr std::string_view kPhillyOrigin =
    "such a table is sia-simulator/traces/philly.csv of github.com/siasosp23/artifacts";
constexpr std::string_view kAcmeOrigin =
    "such tables are data/job_trace/trace_*.csv of github.com/InternLM/AcmeTrace";
constexpr std::string_view kHeliosOrigin = "such tables are data/*/cluster_log.csv of HeliosData";
constexpr std::string_view kOpenbOrigin =
    "such tables are cluster-trace-gpu-v2023/csv/openb_pod_list_*.csv of "
    "github.com/alibaba/clusterdata";
constexpr std::string_view kGfsOrigin =
    "such a table is cluster-trace-v2026-spot-gpu/job_info_df.csv of "
    "github.com/alibaba/clusterdata";
constexpr std::string_view kDlrmOrigin =
    "such a table is cluster-trace-gpu-v2025/disaggregated_DLRM_trace.csv of "
    "github.com/alibaba/clusterdata";
constexpr std::string_view kMuriOrigin =
    "such tables are simulator/trace-data/trace*.csv of github.com/Rivendile/Muri";
constexpr std::string_view kTiresiasOrigin =
    "such a table is simulator/60_job.csv of github.com/SymbioticLab/Tiresias";
constexpr std::string_view kElasticflowOrigin =
    "such tables are ElasticFlow/traces_for_ElasticFlow/*.csv of github.com/pkusys/ElasticFlow";
constexpr std::string_view kSiaOrigin =
    "workloads of Sia and Pollux have no durations: add a column 'duration' with the seconds of "
    "each job on its num_replicas GPUs";

constexpr std::array kFormats{
    JobFormat{JobLogFormat::slurm_sacct, Separator::bar, "JobID Submit Start End", true, sacct,
              kSacctNote, {}, slurm_kinds},
    JobFormat{JobLogFormat::philly_csv, Separator::comma, "timestamp duration num_gpus cluster",
              true, philly,
              "Durations are cut off to seconds; jobs have no ids and are numbered by submission.",
              kPhillyOrigin},
    JobFormat{JobLogFormat::acme, Separator::comma,
              "job_id user gpu_num type state submit_time start_time duration", true, helios,
              "The type of a job is taken as its name; jobs without GPUs are passed over.",
              kAcmeOrigin},
    JobFormat{JobLogFormat::helios, Separator::comma,
              "job_id user vc gpu_num state submit_time start_time duration", true, helios,
              "Jobs without GPUs are passed over.", kHeliosOrigin},
    JobFormat{JobLogFormat::openb, Separator::comma,
              "name num_gpu gpu_milli creation_time deletion_time scheduled_time", true, openb,
              "A pod of one GPU has the part of gpu_milli.", kOpenbOrigin,
              [](const LogRow& row) { return row.string("gpu_spec"); }},
    JobFormat{JobLogFormat::gfs, Separator::comma,
              "job_name organization gpu_request worker_num submit_time duration job_type", true,
              gfs,
              "A job has the GPUs of all its workers, parts of a GPU rounded up if there are "
              "several; its type is taken as its name, its organization as its virtual cluster.",
              kGfsOrigin, [](const LogRow& row) { return row.string("gpu_model"); }},
    JobFormat{JobLogFormat::dlrm, Separator::comma,
              "instance_sn app_name gpu_request creation_time scheduled_time deletion_time", true,
              dlrm,
              "An instance that began before the log or ended after it is passed over; the "
              "application is taken as the name.",
              kDlrmOrigin},
    JobFormat{JobLogFormat::muri, Separator::comma,
              "job_id num_gpu submit_time iterations duration iteration_time", true, muri,
              "Times are in milliseconds, cut off to seconds.", kMuriOrigin},
    JobFormat{JobLogFormat::elasticflow, Separator::comma,
              "job_id num_gpu submit_time iteration ddl duration", true, tiresias,
              "A job keeps its GPUs; deadlines (ddl) have no effect.", kElasticflowOrigin},
    JobFormat{JobLogFormat::tiresias, Separator::comma,
              "job_id num_gpu submit_time duration", true, tiresias,
              {}, kTiresiasOrigin},
    JobFormat{JobLogFormat::sia, Separator::comma, "name time application num_replicas duration",
              true, sia,
              "A job has num_replicas GPUs, under the policy elastic from min_gpus to max_gpus, "
              "columns that you add; its application is taken as its name.",
              kSiaOrigin},
    JobFormat{JobLogFormat::gavel, Separator::tab,
              "job_type command working_directory num_steps_arg needs_data_dir total_steps "
              "scale_factor priority_weight slo arrival_time",
              false, gavel, "Seconds are steps over the throughput of a GPU alone."},
    JobFormat{JobLogFormat::gavel, Separator::tab,
              "job_type command num_steps_arg needs_data_dir total_steps arrival_time "
              "scale_factor",
              false, gavel, "Seconds are steps over the throughput of a GPU alone."},
    JobFormat{JobLogFormat::shockwave, Separator::tab,
              "job_type command working_directory num_steps_arg needs_data_dir total_steps "
              "scale_factor mode priority_weight slo duration arrival_time",
              false, shockwave, "A job runs for its duration with a batch size of its own."},
    JobFormat{JobLogFormat::swf, Separator::blanks,
              "job submit wait run_time processors cpu_time memory requested_processors "
              "requested_time requested_memory status user group executable queue partition "
              "preceding_job think_time",
              false, swf, "A processor is taken as a GPU."},
};

}  // namespace

std::optional<std::size_t> LogRow::index_of(std::string_view column) const {
  const auto found = std::find(columns_.begin(), columns_.end(), column);
  if (found == columns_.end()) return {};
  return static_cast<std::size_t>(found - columns_.begin());
}

std::string_view LogRow::text(std::string_view column) const {
  const auto index = index_of(column);
  if (!index || *index >= fields_.size() || says_nothing(fields_[*index])) return {};
  return fields_[*index];
}

std::optional<double> LogRow::number(std::string_view column, double most) const {
  const std::string_view field = text(column);
  if (field.empty()) return {};
  double value = 0;
  const char* const end = field.data() + field.size();
  const auto [stop, error] = std::from_chars(field.data(), end, value);
  const bool huge =
      error == std::errc::result_out_of_range || (error == std::errc{} && !(value <= most));
  if (huge) {
    reader_.fail_at_field(*index_of(column),
                          fmt::format("{} is {}, more than {:g}", column, shown(field), most));
  }
  if (error != std::errc{} || stop != end) {
    throw RowProblem{std::string(column),
                     fmt::format("{} must be a number, not '{}'", column, shown(field))};
  }
  if (value >= 0) return value;
  throw RowProblem{std::string(column), fmt::format("{} is negative: {}", column, shown(field))};
}

std::int64_t LogRow::seconds(std::string_view column) const {
  return static_cast<std::int64_t>(required_value(number(column, kMostSeconds), column));
}

std::uint32_t LogRow::gpus(std::string_view column) const {
  return static_cast<std::uint32_t>(required_value(number(column, kMostGpus), column));
}

std::optional<std::int64_t> LogRow::instant(std::string_view column) const {
  const std::string_view field = text(column);
  if (field.empty()) return {};
  if (const auto seconds = parse_instant(field)) return seconds;
  throw RowProblem{std::string(column), fmt::format("{} is no time: '{}'", column, shown(field))};
}

std::span<const JobFormat> job_formats() { return kFormats; }

std::optional<NearFormat> nearest_format(const std::vector<std::string>& columns, Separator mark) {
  std::optional<NearFormat> nearest;
  double most = 0.5;
  for (const JobFormat& format : kFormats) {
    if (format.mark != mark || !format.header) continue;
    NearFormat near{&format, {}};
    const std::vector<std::string_view> told_by = words(format.told_by);
    for (const std::string_view column : told_by) {
      if (std::find(columns.begin(), columns.end(), column) == columns.end()) {
        near.missing.emplace_back(column);
      }
    }
    const double there = static_cast<double>(told_by.size() - near.missing.size()) /
                         static_cast<double>(told_by.size());
    if (there < most || (nearest && there == most)) continue;
    most = there;
    nearest = std::move(near);
  }
  return nearest;
}

const JobFormat* format_with(const std::vector<std::string>& columns, Separator mark, bool header) {
  for (const JobFormat& format : kFormats) {
    if (format.mark != mark || format.header != header) continue;
    const std::vector<std::string_view> told_by = words(format.told_by);
    if (!header && told_by.size() != columns.size()) continue;
    const bool all = !header || std::all_of(told_by.begin(), told_by.end(), [&](auto column) {
      return std::find(columns.begin(), columns.end(), column) != columns.end();
    });
    if (all) return &format;
  }
  return nullptr;
}

}  // namespace orrery

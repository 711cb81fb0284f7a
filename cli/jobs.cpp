// orrery jobs: a production job trace, replayed job by job. It needs no engine, so it runs here.
// orrery explain: why a job of it waited.
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/commands.hpp"
#include "cli/help.hpp"
#include "cli/output_file.hpp"
#include "cli/usage.hpp"
#include "core/error.hpp"
#include "core/schema/yaml_loader.hpp"
#include "policies/placement/placer.hpp"
#include "policies/run/registry.hpp"
#include "policies/run/worker.hpp"
#include "sim/jobs/job_replay.hpp"
#include "sim/jobs/wait_watch.hpp"
#include "topologies/builder.hpp"
#include "traces/jobs/cluster_log.hpp"
#include "traces/jobs/job_log.hpp"
#include "traces/report/report.hpp"

namespace orrery::cli {
namespace {

struct Options {
  std::string file, cluster, placement, record, out, estimates;
  std::vector<std::string> policies;
  JobLogOptions log;
  std::uint32_t nodes = 0, gpus_per_node = 0;
  std::optional<double> estimate_error;
  std::optional<std::uint64_t> seed;
  bool json = false, backtest = false;
};

Error usage(const std::string& message) { return {ErrorKind::usage, message}; }

void load_description(const std::string& file, JobReplay& replay) {
  try {
    load_yaml_file(file, replay);
  } catch (const Error& error) {
    Scenario scenario;
    const auto is_scenario = [&] {
      try {
        load_yaml_file(file, scenario);
        return true;
      } catch (const Error&) {
        return false;
      }
    };
    if (!error.place() || !is_scenario()) throw;
    throw Error(SourcePlace{.file = file, .line_text = ""},
                "expected a job trace (CSV), or YAML that names one with the key 'trace', got a "
                "scenario: those run under orrery simulate and orrery live");
  }
}

/// The replay that a YAML file describes, or an empty one of a trace.
JobReplay described(const std::string& file) {
  JobReplay replay;
  const std::filesystem::path path(file);
  if (path.extension() == ".yaml" || path.extension() == ".yml") {
    load_description(file, replay);
    replay.set_trace((path.parent_path() / replay.trace()).string());
  } else {
    replay.set_trace(file);
    replay.set_placement("count");
  }
  return replay;
}

/// What an operator has of his cluster: its nodes with GPUs, which have to be alike.
void take_nodes(JobReplay& replay, const std::string& file) {
  std::map<std::uint32_t, std::uint32_t> nodes;  // by GPUs
  for (const NodeRecord& node : load_cluster_log(file)) nodes[node.gpus] += node.gpus > 0 ? 1 : 0;
  nodes.erase(0);
  if (nodes.size() > 1) {
    std::vector<std::string> kinds;
    for (const auto& [gpus, count] : nodes) {
      kinds.push_back(fmt::format("{} nodes of {} GPUs", count, gpus));
    }
    throw Error(SourcePlace{.file = file, .line_text = ""},
                fmt::format("has {}; a replay needs nodes that are alike: choose with --nodes and "
                            "--gpus-per-node", fmt::join(kinds, ", ")));
  }
  replay.set_nodes(nodes.begin()->second);
  replay.set_gpus_per_node(nodes.begin()->first);
}

void take_cluster(JobReplay& replay, const std::string& file) {
  const std::string extension = std::filesystem::path(file).extension();
  if (extension != ".yaml" && extension != ".yml") return take_nodes(replay, file);
  Topology topology;
  const SourceMap places = load_yaml_file(file, topology);
  resolve(topology, places);
  replay.set_nodes(topology.nodes());
  replay.set_gpus_per_node(topology.node().gpus_per_node());
}

void take_policy(JobReplay& replay, const std::string& name) {
  const std::vector<std::string> known = policy_names();
  if (std::find(known.begin(), known.end(), name) == known.end()) {
    throw usage(no_such_policy(name));
  }
  replay.set_policy(name);
}

void take_estimates(JobReplay& replay, const Options& options) {
  if (!options.estimates.empty()) replay.set_estimates(options.estimates);
  if (options.estimate_error) replay.set_estimate_error(*options.estimate_error);
  if (options.seed) replay.set_seed(*options.seed);
  if (options.log.strict) replay.set_strict(true);
}

JobReplay asked_for(const Options& options) {
  JobReplay replay = described(options.file);
  if (!options.cluster.empty()) take_cluster(replay, options.cluster);
  if (options.nodes != 0) replay.set_nodes(options.nodes);
  if (options.gpus_per_node != 0) replay.set_gpus_per_node(options.gpus_per_node);
  for (const std::string& policy : options.policies) take_policy(replay, policy);
  take_estimates(replay, options);
  if (!options.placement.empty()) replay.set_placement(options.placement);
  if (replay.nodes() == 0 || replay.gpus_per_node() == 0) {
    throw usage("a trace needs a cluster: --nodes N --gpus-per-node G, or --cluster C.yaml");
  }
  if (replay.policy().empty()) throw usage("a trace needs a policy: --policy fifo, or another");
  return replay;
}

// ---- what is printed ------------------------------------------------------------------------

void print_line(std::string_view what, const std::string& text) {
  fmt::print("{:<16}{}\n", what, text);
}

void print_quality(const TraceQuality& quality) {
  std::string rows = fmt::format("{} rows: {} jobs", grouped(quality.rows()),
                                 grouped(quality.jobs()));
  if (quality.passed_over() > 0) rows += fmt::format(", {} passed over",
                                                     grouped(quality.passed_over()));
  if (quality.rejected() > 0) rows += fmt::format(", {} rejected", grouped(quality.rejected()));
  print_line("log", fmt::format("{}, {}", quality.format(), rows));
}

void print_counts(const JobsReport& report) {
  print_line("jobs", fmt::format("{} in, {} out{}, {} preemptions", report.jobs_in(),
                                 report.jobs_out(),
                                 report.jobs_rejected() == 0
                                     ? ""
                                     : fmt::format(" ({} of them rejected)",
                                                   report.jobs_rejected()),
                                 report.preemptions()));
  for (int i = 0; i < std::min(3, report.rejected_size()); ++i) {
    const RejectedRow& row = report.rejected(i);
    print_line(i == 0 ? "rejected" : "", fmt::format("line {}, job {}: {}", row.line(),
                                                     row.job_id(), row.reason()));
  }
}

std::string percent_of(bool known, double share) {
  return known ? fmt::format("{:.2f}%", 100 * share) : "not known";
}

void print_groups(std::string_view what, const auto& groups) {
  fmt::print("\n{:<12}{:>9}{:>14}{:>14}{:>14}{:>14}{:>14}\n", what, "jobs", "GPU-hours",
             "JCT mean s", "JCT median s", "JCT p99 s", "queue mean s");
  for (const JobGroup& group : groups) {
    fmt::print("{:<12}{:>9}{:>14.1f}{:>14.1f}{:>14.1f}{:>14.1f}{:>14.1f}\n", group.key(),
               group.jobs(), group.gpu_hours(), group.jct_mean_s(), group.jct_p50_s(),
               group.jct_p99_s(), group.queue_mean_s());
  }
}

void print_table(const JobReplay& replay, const JobsReport& report) {
  print_line("trace", replay.trace());
  if (report.quality().format() != "canonical") print_quality(report.quality());
  print_line("cluster", fmt::format("{} nodes x {} GPUs, {}, {} placement", replay.nodes(),
                                    replay.gpus_per_node(), replay.policy(),
                                    replay.placement()));
  print_counts(report);
  if (!report.has_jct_mean_s()) return print_line("completion", "not known: no job ended");
  print_line("completion", fmt::format("mean {:.1f} s, median {:.1f} s, p99 {:.1f} s",
                                       report.jct_mean_s(), report.jct_p50_s(),
                                       report.jct_p99_s()));
  print_line("in the queue", fmt::format("mean {:.1f} s", report.queue_mean_s()));
  print_line("makespan", fmt::format("{:.0f} s", report.makespan_s()));
  print_line("utilization", percent_of(report.has_utilization(), report.utilization()));
  if (report.has_queue_length_mean()) {
    print_line("waiting jobs", fmt::format("mean {:.1f}, most {}", report.queue_length_mean(),
                                           grouped(report.queue_length_max())));
    print_line("fragmentation", fmt::format("{} of the free GPUs stand in nodes partly taken",
                                            percent_of(true, report.fragmentation_mean())));
  }
  std::string told = report.estimates();
  if (told != "recorded") {
    told += fmt::format(", wrong by a factor of {:.2f} (median), {:.2f} (p90)",
                        report.estimate_factor_p50(), report.estimate_factor_p90());
  }
  print_line("estimates", told);
  print_groups("GPUs", report.by_size());
  if (report.by_vc_size() > 1) print_groups("cluster", report.by_vc());
}

/// Policies side by side, one row each.
void print_comparison(const JobReplay& replay, const std::vector<JobsReport>& reports) {
  print_line("trace", replay.trace());
  if (reports[0].quality().format() != "canonical") print_quality(reports[0].quality());
  print_line("cluster", fmt::format("{} nodes x {} GPUs, {} placement, estimates {}",
                                    replay.nodes(), replay.gpus_per_node(), replay.placement(),
                                    reports[0].estimates()));
  print_line("jobs", fmt::format("{} in, {} rejected", reports[0].jobs_in(),
                                 reports[0].jobs_rejected()));
  fmt::print("\n{:<14}{:>14}{:>14}{:>14}{:>14}{:>14}{:>9}{:>12}\n", "policy", "JCT mean s",
             "JCT median s", "JCT p99 s", "queue mean s", "makespan s", "util %", "preemptions");
  for (const JobsReport& report : reports) {
    fmt::print("{:<14}{:>14.1f}{:>14.1f}{:>14.1f}{:>14.1f}{:>14.0f}{:>9.2f}{:>12}\n",
               report.policy(), report.jct_mean_s(), report.jct_p50_s(), report.jct_p99_s(),
               report.queue_mean_s(), report.makespan_s(), 100 * report.utilization(),
               report.preemptions());
  }
}

// ---- running --------------------------------------------------------------------------------

/// jobs.csv, series.csv and groups.csv; with several policies in a folder for each.
void write_tables(const std::filesystem::path& folder, const JobTables& tables) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) {
    throw Error(ErrorKind::environment, fmt::format("cannot make the folder {}: {}",
                                                    folder.string(), failed.message()));
  }
  write_file((folder / "jobs.csv").string(), tables.jobs);
  write_file((folder / "series.csv").string(), tables.series);
  write_file((folder / "groups.csv").string(), tables.groups);
  if (tables.backtest.empty()) return;
  write_file((folder / "backtest.csv").string(), backtest_csv(tables.backtest));
}

/// Waits beside those of the log.
void print_backtest(const std::string& policy, const std::vector<BacktestRow>& rows) {
  if (rows.empty()) {
    throw usage("--backtest: the log says of no job when it started (recorded_start_s)");
  }
  fmt::print("\n{:<14}{:>8}{:>14}{:>12}{:>11}{:>13}{:>15}{:>10}{:>10}{:>10}\n", policy, "jobs",
             "log's wait s", "replayed s", "off by s", "within 60 s", "longer in log", "full s",
             "quota s", "room s");
  for (const BacktestRow& row : rows) {
    fmt::print("{:<14}{:>8}{:>14.1f}{:>12.1f}{:>11.1f}{:>12.1f}%{:>14.1f}%{:>10.1f}{:>10.1f}"
               "{:>10.1f}\n",
               fmt::format("{} {}", row.by, row.key), row.jobs, row.recorded_wait_s,
               row.replayed_wait_s, row.difference_s, 100 * row.within_minute,
               100 * row.longer_in_log, row.full_s, row.quota_s, row.room_s);
  }
}

/// With its backtest, if there is one.
using Ran = std::pair<JobsReport, std::vector<BacktestRow>>;

Ran run_one(const Options& options, const JobReplay& replay, std::vector<TraceJob> log,
            bool several) {
  const HostMeter meter;
  JobTables tables;
  const std::string record =
      several && !options.record.empty() ? options.record + "." + replay.policy() : options.record;
  const bool wanted = !options.out.empty() || options.backtest;
  JobsReport report = replay_jobs(std::move(log), replay, record, wanted ? &tables : nullptr);
  if (!options.out.empty()) {
    const std::filesystem::path folder(options.out);
    write_tables(several ? folder / replay.policy() : folder, tables);
  }
  meter.fill(*report.mutable_host());
  return {std::move(report), std::move(tables.backtest)};
}

int missed_goals(const std::vector<JobsReport>& reports) {
  int code = 0;
  for (const JobsReport& report : reports) {
    if (report.jobs_out() == report.jobs_in()) continue;
    fmt::print(stderr, "goal missed: {} of {} jobs never ran under {}\n",
               report.jobs_in() - report.jobs_out(), report.jobs_in(), report.policy());
    code = static_cast<int>(ErrorKind::goal_missed);
  }
  return code;
}

void print_json(const std::vector<JobsReport>& reports) {
  if (reports.size() == 1) return fmt::print("{}\n", report_json(reports[0]));
  std::vector<std::string> all;
  for (const JobsReport& report : reports) all.push_back(report_json(report));
  fmt::print("[{}]\n", fmt::join(all, ",\n"));
}

int jobs(const Options& options) {
  const HostMeter meter;
  JobReplay replay = asked_for(options);
  JobLogOptions reading = options.log;
  reading.strict = replay.strict();
  JobLog log = load_job_log(replay.trace(), reading);
  std::vector<JobsReport> reports;
  std::vector<std::vector<BacktestRow>> backtests;
  std::vector<std::string> policies = options.policies;
  if (policies.empty()) policies.push_back(replay.policy());
  for (const std::string& policy : policies) {
    replay.set_policy(policy);
    const bool last = reports.size() + 1 == policies.size();  // a million jobs are not copied
    auto [report, backtest] =
        run_one(options, replay, last ? std::move(log.jobs) : log.jobs, policies.size() > 1);
    *report.mutable_quality() = log.quality;
    reports.push_back(std::move(report));
    backtests.push_back(std::move(backtest));
  }
  if (reports.size() == 1) meter.fill(*reports[0].mutable_host());  // reading the log included
  if (options.json) {
    print_json(reports);
  } else if (reports.size() == 1) {
    print_table(replay, reports[0]);
  } else {
    print_comparison(replay, reports);
  }
  for (std::size_t i = 0; options.backtest && i < reports.size(); ++i) {
    print_backtest(policies[i], backtests[i]);
  }
  return missed_goals(reports);
}

// ---- explaining -----------------------------------------------------------------------------

void print_time(const char* what, Nanos time, Nanos whole) {
  fmt::print("  {:>12} s {:>6.1f}%  {}\n", time / kNanosPerSecond,
             whole > 0 ? 100 * to_seconds(time) / to_seconds(whole) : 0.0, what);
}

void print_reasons(const WaitReasons& why, const std::string& policy) {
  const auto instant = [](Nanos at) {
    return at < 0 ? std::string("never") : fmt::format("at {} s", at / kNanosPerSecond);
  };
  fmt::print("job {}: {} GPUs, submitted at {} s, started {}, ended {}\n", why.name, why.gpus,
             why.submitted / kNanosPerSecond, instant(why.started), instant(why.ended));
  fmt::print("when it came {} GPUs were free, {} jobs waited before it for {} GPUs\n",
             why.free_gpus, why.ahead_jobs, why.ahead_gpus);
  if (why.taken_off > 0) fmt::print("it was taken off its GPUs {} times\n", why.taken_off);
  fmt::print("it waited {} s:\n", why.waited() / kNanosPerSecond);
  print_time("fewer GPUs were free than it needs", why.too_few, why.waited());
  print_time("enough were free, but not where it could be placed", why.scattered, why.waited());
  print_time(fmt::format("it could have been placed: {} let it wait for others", policy).c_str(),
             why.order, why.waited());
  fmt::print("meanwhile {} jobs that came later started, with {} GPUs\n", why.overtook_jobs,
             why.overtook_gpus);
}

int explain(const Options& options, const std::string& job) {
  const JobReplay replay = asked_for(options);
  JobLogOptions reading = options.log;
  reading.strict = replay.strict();
  JobLog log = load_job_log(replay.trace(), reading);
  const auto stack = make_stack(replay);
  WaitWatch watch(*stack, job, replay.placement());
  const JobsReport report = replay_jobs(std::move(log.jobs), replay, watch, options.record);
  if (watch.reasons().found) {
    print_reasons(watch.reasons(), replay.policy());
    return 0;
  }
  for (const RejectedRow& row : report.rejected()) {
    if (row.job_id() != job) continue;
    fmt::print("job {} was rejected: line {}, {}\n", job, row.line(), row.reason());
    return 0;
  }
  throw usage(fmt::format("there is no job '{}' in {}", job, replay.trace()));
}

void declare_log(CLI::App& command, const std::shared_ptr<Options>& options) {
  command.add_flag("--strict", options->log.strict, "refuse broken rows of other tools' logs");
  command.add_option("--throughputs", options->log.throughputs,
                     "steps per second of Gavel's jobs (simulation_throughputs.json)")
      ->type_name("FILE");
  command.add_option("--gpu", options->log.gpu, "which GPU's throughputs")->type_name("NAME")
      ->capture_default_str();
}

void declare_estimates(CLI::App& command, const std::shared_ptr<Options>& options) {
  one_of(*command.add_option("--estimates", options->estimates,
                             "what policies are told of how long jobs will run: the truth, what "
                             "users asked for, what jobs like them took before, the truth with an "
                             "error"),
         {"recorded", "requested", "learned", "disturbed"});
  number(*command.add_option("--estimate-error", options->estimate_error,
                             "of disturbed ones: standard deviation of the factor's logarithm"),
         0, 5)
      .type_name("E");
  command.add_option("--seed", options->seed, "of what is drawn")->type_name("N");
}

/// What jobs and explain have in common.
void declare_replay(CLI::App& command, const std::shared_ptr<Options>& options) {
  command.add_option("FILE", options->file,
                     "job log (ours or another tool's, .gz too), or a YAML file naming one")
      ->type_name("TRACE|FILE.yaml")
      ->required();
  whole_number(*command.add_option("--nodes", options->nodes, "nodes of the cluster"), 1, 131072)
      .type_name("N");
  whole_number(*command.add_option("--gpus-per-node", options->gpus_per_node, "GPUs of each"), 1,
               128)
      .type_name("G");
  command
      .add_option("--cluster", options->cluster,
                  "instead of the two: a cluster description (YAML), slurm.conf, or what kubectl "
                  "get nodes -o json prints")
      ->type_name("C.yaml|FILE");
  command.add_option("--policy", options->policies,
                     "order of the queue: fifo, fifo-skip, sjf, easy, conservative, srtf, srsf, "
                     "las, gittins, finish-time-fairness, drf, max-min; several are put side by "
                     "side")
      ->type_name("P")
      ->delimiter(',');
  one_of(*command.add_option("--placement", options->placement,
                             "which GPUs a job gets: any that are free, those of as few nodes as "
                             "possible, gangs also within as few scalable units as possible"),
         placer_names());
  command.add_option("--record", options->record, "write the observation and decision log")
      ->type_name("LOG");
  declare_estimates(command, options);
  declare_log(command, options);
}

void declare(CLI::App& command, const std::shared_ptr<Options>& options) {
  declare_replay(command, options);
  command.add_flag("--json", options->json, "print one JSON object instead of the table");
  command.add_flag("--backtest", options->backtest,
                   "how far waits are from those of the log, by size and hour of the day")
      ->excludes("--json");
  command.add_option("--out", options->out, "write tables: jobs.csv, series.csv, groups.csv")
      ->type_name("DIR");
  add_examples(command, {"orrery jobs trace.csv --nodes 16 --gpus-per-node 8 --policy fifo",
                         "orrery jobs trace.csv.gz --cluster cluster.yaml --policy sjf "
                         "--placement consolidated",
                         "orrery jobs sacct.txt --nodes 64 --gpus-per-node 8 --policy fifo,easy "
                         "--estimates requested --out tables"});
}

}  // namespace

void add_explain(CLI::App& app, Action& chosen) {
  const auto options = std::make_shared<Options>();
  const auto job = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("explain", "why a job of a job trace waited");
  declare_replay(*command, options);
  command->add_option("--job", *job, "its id")->type_name("ID")->required();
  add_examples(*command, {"orrery explain trace.csv --job 1317 --nodes 16 --gpus-per-node 8 "
                          "--policy easy"});
  command->callback(
      [options, job, &chosen] { chosen = [options, job] { return explain(*options, *job); }; });
}

void add_jobs(CLI::App& app, Action& chosen) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("jobs", "replay a production job trace");
  declare(*command, options);
  command->callback([options, &chosen] { chosen = [options] { return jobs(*options); }; });
}

}  // namespace orrery::cli

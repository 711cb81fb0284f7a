// orrery jobs: replays a production job trace job by job. The replay needs no engine, so it runs in
// this process.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "cli/commands/commands.hpp"
#include "cli/commands/jobs_variants.hpp"
#include "cli/shared/help.hpp"
#include "cli/shared/output_file.hpp"
#include "cli/shared/policy_option.hpp"
#include "cli/shared/replay_options.hpp"
#include "cli/shared/replay_tables.hpp"
#include "cli/shared/run_options.hpp"
#include "cli/shared/twin_output.hpp"
#include "cli/shared/usage.hpp"
#include "core/error.hpp"
#include "policies/run/batsim_policy.hpp"
#include "policies/run/registry.hpp"
#include "policies/run/worker.hpp"
#include "sim/replay/job_replay.hpp"
#include "sim/replay/job_results.hpp"
#include "sim/replay/job_savings.hpp"
#include "traces/scenario/replay_conditions.hpp"

namespace orrery::cli {
namespace {

/// Writes jobs.csv, series.csv, groups.csv and, if the replay has them, backtest.csv and waits.csv
/// into `folder`.
void write_tables(const std::filesystem::path& folder, const JobsReport& report,
                  const sim::JobTables& tables, const std::optional<sim::Saved>& saved) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) {
    throw Error(ErrorKind::environment,
                fmt::format("cannot make the folder {}: {}", folder.string(), failed.message()));
  }
  write_file((folder / "jobs.csv").string(), tables.jobs);
  write_file((folder / "series.csv").string(), tables.series);
  write_file((folder / "groups.csv").string(), sim::groups_csv(report));
  if (saved) write_file((folder / "waits.csv").string(), sim::waits_csv(*saved));
  if (tables.backtest.empty()) return;
  write_file((folder / "backtest.csv").string(), sim::backtest_csv(tables.backtest));
}

/// Runs a replay with simulated speed in the simulator, a process of its own.
JobsReport run_elsewhere(const JobReplay& replay, Policy* policy, const std::string& record,
                         sim::JobTables* tables) {
  return sim::replay_report(
      replay, run(Worker::sim, sim::replay_request(replay, record), {}, nullptr, nullptr, policy),
      tables);
}

/// Runs a replay in this process; `policy`: null for the one that the replay names.
JobsReport run_here(const JobReplay& replay, std::vector<TraceJob> log, Policy* policy,
                    const std::string& record, sim::JobTables* tables) {
  if (policy == nullptr) return sim::replay_jobs(std::move(log), replay, record, tables);
  return sim::replay_jobs(std::move(log), replay, *policy, record, tables);
}

/// Result of a replay.
struct Ran {
  sim::LogOutcome outcome;
  sim::JobTables tables;  ///< texts and backtest only with --out and --backtest
};

Ran run_one(const JobsOptions& options, const Variant& variant, std::vector<TraceJob> log,
            bool several) {
  const HostMeter meter;
  sim::JobTables tables{.has_texts = !options.out.empty() || options.backtest};
  const JobReplay& replay = variant.replay;
  const std::string record =
      several && !options.record.empty() ? options.record + "." + variant.folder : options.record;
  const bool elsewhere = is_elsewhere(variant);
  std::unique_ptr<Policy> policy;
  if (variant.chooses) {
    policy = make_choice(replay, options.choice.job_choice(), sim::columns_of_log(log),
                         [](const sim::PolicySwitch& made) {
                           fmt::print(stderr, "at {:.0f} s {}\n", to_seconds(made.at),
                                      choice_text(made));
                         });
  } else if (options.scheduler.empty()) {
    policy = job_policy(replay, elsewhere ? sim::replay_seed(replay) : 0);
  } else {
    policy = std::make_unique<BatsimPolicy>(BatsimPolicy::Options{
        .command = options.scheduler,
        .port = options.scheduler_port,
        .patience = std::chrono::milliseconds(std::lround(1e3 * options.scheduler_patience_s))});
  }
  JobsReport report = elsewhere ? run_elsewhere(replay, policy.get(), record, &tables)
                                : run_here(replay, std::move(log), policy.get(), record, &tables);
  if (variant.chooses) report.set_policy(variant.label);
  if (!variant.what_if.empty()) report.set_what_if(variant.what_if);
  if (!elsewhere) meter.fill(*report.mutable_host());
  return {{.label = variant.label, .report = std::move(report), .jobs = std::move(tables.outcomes)},
          std::move(tables)};
}

int missed_goals(const std::vector<ComparedReplay>& rows) {
  int code = 0;
  for (const auto& [label, report, waits] : rows) {
    if (report.jobs_out() == report.jobs_in()) continue;
    fmt::print(stderr, "goal missed: {} of {} jobs never ran under {}\n",
               report.jobs_in() - report.jobs_out(), report.jobs_in(), report.policy());
    code = static_cast<int>(ErrorKind::goal_missed);
  }
  return code;
}

/// Throws if a replay has simulated speed, or if the log has no start of any job.
void check_backtest(const std::vector<Variant>& variants, const JobsReport& recorded) {
  if (std::any_of(variants.begin(), variants.end(), is_elsewhere)) {
    throw Error(ErrorKind::usage,
                "--backtest: expected jobs of recorded speed, got simulated "
                "speed: leave --backtest out");
  }
  if (recorded.jobs_completed() > 0) return;
  throw Error(
      SourcePlace{.file = variants[0].replay.trace(), .line_text = ""},
      fmt::format("--backtest: expected a log with starts of jobs (recorded_start_s), found "
                  "none in its {} jobs",
                  recorded.jobs_in()));
}

std::uint32_t gpus_of(const JobReplay& replay) { return replay.nodes() * replay.gpus_per_node(); }

/// Comparison of the replays of a command, with one another and with the log's own outcome.
class Comparison {
 public:
  Comparison(const JobsOptions& options, const std::vector<Variant>& variants,
             const std::vector<TraceJob>& log)
      : options_(options),
        variants_(variants),
        jobs_(log),
        recorded_(sim::recorded_outcome(log, gpus_of(variants.front().replay))) {}

  const JobsReport& recorded() const { return recorded_.report; }
  /// Adds the result of the next variant, and writes its tables.
  void add(Ran ran, const TraceQuality& quality) {
    const std::size_t index = rows_.size();
    const Variant& variant = variants_[index];
    JobsReport& report = ran.outcome.report;
    *report.mutable_quality() = quality;
    sim::set_recorded(recorded_.report, report);
    if (!variant.what_if.empty()) {
      report.set_same_schedule(report.schedule_digest() ==
                               rows_[variant.base].report.schedule_digest());
    }
    std::optional<sim::Saved> saved = saved_by(ran.outcome, variant);
    if (saved) *report.mutable_savings() = saved->savings;
    if (!options_.out.empty()) {
      const std::filesystem::path folder(options_.out);
      write_tables(variants_.size() > 1 ? folder / variant.folder : folder, report, ran.tables,
                   saved);
    }
    rows_.push_back({.label = variant.label,
                     .report = report,
                     .waits = saved ? std::move(saved->groups) : std::vector<sim::GroupWaits>{}});
    if (index == 0) first_ = std::move(ran.outcome);
  }
  std::vector<ComparedReplay>& rows() { return rows_; }
  const std::vector<ComparedReplay>& rows() const { return rows_; }

 private:
  /// Returns the savings against the log's own outcome if it has an outcome of any job of this
  /// replay; otherwise against the first replay.
  std::optional<sim::Saved> saved_by(const sim::LogOutcome& outcome, const Variant& variant) const {
    const std::uint32_t gpus = gpus_of(variant.replay);
    const bool equal = gpus == gpus_of(variants_.front().replay);
    const sim::SavingsTerms terms{.gpus = equal ? std::optional(gpus) : std::nullopt,
                                  .usd_per_gpu_hour = options_.usd_per_gpu_hour};
    if (auto saved = sim::savings(jobs_, outcome, recorded_, terms)) return saved;
    if (rows_.empty()) return {};
    return sim::savings(jobs_, outcome, first_, terms);
  }

  const JobsOptions& options_;
  const std::vector<Variant>& variants_;
  const sim::ComparedJobs jobs_;
  const sim::LogOutcome recorded_;
  sim::LogOutcome first_;
  std::vector<ComparedReplay> rows_;
};

void show_health(const JobReplay& replay) {
  const auto health = load_node_health(replay.trace());
  if (health) print_node_health(*health, replay.nodes());
}

void show(const JobsOptions& options, const std::vector<Variant>& variants,
          const Comparison& comparison, const std::vector<std::string>& remarks) {
  const std::vector<ComparedReplay>& rows = comparison.rows();
  if (options.json) {
    std::vector<JobsReport> reports;
    for (const ComparedReplay& each : rows) reports.push_back(each.report);
    for (const std::string& line : remarks) fmt::print(stderr, "{}\n", line);
    return print_json(reports);
  }
  if (rows.size() > 1) {
    print_heading(variants[0].replay, rows[0].report);
    return print_comparison(rows, comparison.recorded(), remarks);
  }
  print_replay(variants[0].replay, rows[0].report);
  print_comparison(rows, comparison.recorded(), remarks);
  print_group_tables(rows[0].report);
}

int jobs(const JobsOptions& options) {
  const HostMeter meter;
  options.choice.check_policies(options.policies);
  std::vector<Variant> variants = variants_of(options);
  JobLog log = load_log(variants[0].replay, options);
  std::vector<std::string> remarks;
  variants = complete_variants(options, log, std::move(variants), remarks);
  Comparison comparison(options, variants, log.jobs);
  if (options.backtest) check_backtest(variants, comparison.recorded());
  std::vector<std::vector<sim::BacktestRow>> backtests;
  for (const Variant& variant : variants) {
    const bool last = &variant == &variants.back();  // saves a copy of a million jobs
    Ran ran = run_one(options, variant, last ? std::move(log.jobs) : log.jobs, variants.size() > 1);
    backtests.push_back(ran.tables.backtest);
    comparison.add(std::move(ran), log.quality);
  }
  // The time includes reading the log; a run elsewhere has reported its own time.
  JobsReport& first = comparison.rows().front().report;
  if (variants.size() == 1 && !is_elsewhere(variants[0])) meter.fill(*first.mutable_host());
  show(options, variants, comparison, remarks);
  for (std::size_t i = 0; options.backtest && i < backtests.size(); ++i) {
    print_backtest(variants[i].label, backtests[i]);
  }
  if (options.backtest) show_health(variants[0].replay);
  return missed_goals(comparison.rows());
}

void declare(CLI::App& command, const std::shared_ptr<JobsOptions>& options) {
  declare_replay(command, options);
  declare_slurm_files(command, options->slurm);
  options->choice
      .add(command,
           "replay once more with a choice: forecasts of these policies and the one of --policy "
           "decide which of them acts",
           1)
      ->excludes("--record");
  command.add_flag("--json", options->json, "print one JSON object instead of the table");
  command
      .add_flag("--backtest", options->backtest,
                "compare waits with those of the log, by size and hour of the day")
      ->excludes("--json");
  command
      .add_option("--out", options->out,
                  "write tables: jobs.csv, series.csv, groups.csv, waits.csv")
      ->type_name("DIR");
  command
      .add_option("--what-if", options->what_if,
                  "replay once more with this change, side by side: nodes=72, or another change "
                  "in the form of --set")
      ->type_name("CHANGE")
      ->allow_extra_args(false);
  command
      .add_option("--usd-per-gpu-hour", options->usd_per_gpu_hour,
                  "price of a GPU-hour of the cluster, for the money that a policy saves")
      ->type_name("USD")
      ->check(CLI::PositiveNumber);
  CLI::Option* const scheduler =
      command
          .add_option("--scheduler", options->scheduler,
                      "let a scheduler of Batsim decide, started by this shell command, instead of "
                      "a policy")
          ->type_name("COMMAND")
          ->excludes("--policy")
          ->excludes("--choose");
  whole_number(*command.add_option("--scheduler-port", options->scheduler_port,
                                   "port at which the scheduler listens"),
               1, 65535)
      .type_name("PORT")
      ->capture_default_str()
      ->needs(scheduler);
  number(*command.add_option("--scheduler-patience", options->scheduler_patience_s,
                             "seconds that the scheduler may take to start and for each answer"),
         0.1, 86400)
      .type_name("S")
      ->capture_default_str()
      ->needs(scheduler);
  add_examples(command, {"orrery jobs trace.csv --nodes 16 --gpus-per-node 8 --policy fifo",
                         "orrery jobs trace.csv.gz --cluster cluster.yaml --policy sjf "
                         "--placement consolidated",
                         "orrery jobs sacct.txt --nodes 64 --gpus-per-node 8 --policy fifo,easy "
                         "--estimates requested --out tables",
                         "orrery jobs trace.csv --nodes 16 --gpus-per-node 8 --policy fifo "
                         "--choose easy,srtf --by jct"});
}

}  // namespace

void add_jobs(CLI::App& app, Action& chosen) {
  const auto options = std::make_shared<JobsOptions>();
  CLI::App* command = app.add_subcommand("jobs", "replay a production job trace");
  declare(*command, options);
  command->callback([options, &chosen] { chosen = [options] { return jobs(*options); }; });
}

}  // namespace orrery::cli

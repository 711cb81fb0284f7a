// orrery jobs: replays a production job trace job by job. The replay needs no engine, so it runs in
// this process.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "cli/commands/commands.hpp"
#include "cli/shared/choice_option.hpp"
#include "cli/shared/help.hpp"
#include "cli/shared/output_file.hpp"
#include "cli/shared/policy_option.hpp"
#include "cli/shared/replay_options.hpp"
#include "cli/shared/replay_tables.hpp"
#include "cli/shared/run_options.hpp"
#include "cli/shared/slurm_files.hpp"
#include "cli/shared/twin_output.hpp"
#include "cli/shared/usage.hpp"
#include "core/error.hpp"
#include "policies/parameters.pb.h"
#include "policies/run/batsim_policy.hpp"
#include "policies/run/registry.hpp"
#include "policies/run/worker.hpp"
#include "sim/replay/job_replay.hpp"
#include "sim/replay/job_results.hpp"
#include "sim/replay/job_savings.hpp"
#include "sim/replay/replay_change.hpp"
#include "traces/scenario/replay_conditions.hpp"

namespace orrery::cli {
namespace {

constexpr const char* kScheduler = "scheduler";  // name of the policy of --scheduler

struct JobsOptions : ReplayOptions {
  std::string out;
  std::string scheduler;  ///< shell command of a scheduler of Batsim, or empty
  std::uint16_t scheduler_port = 28000;
  double scheduler_patience_s = 20;
  std::vector<std::string> what_if;
  std::optional<double> usd_per_gpu_hour;
  ChoiceOptions choice;
  SlurmFiles slurm;
  bool json = false, backtest = false;
};

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

/// Replay of one policy under one change of --what-if, or under none.
struct Variant {
  JobReplay replay;
  std::string what_if;   ///< change; empty: none
  std::string label;     ///< policy and change
  std::string folder;    ///< folder of its files if the command has several replays
  bool chooses = false;  ///< true: the policy is the first of the choice
  std::size_t base = 0;  ///< index of the variant of the same policy without a change
};

/// Returns the variants: each policy without a change, then each policy with each --what-if. The
/// scheduler of --scheduler takes the place of all policies.
std::vector<Variant> variants_of(const JobsOptions& given) {
  std::vector<Variant> variants;
  JobsOptions options = given;
  if (!options.scheduler.empty()) options.policies = {"fifo"};  // the queue that a replay must name
  const auto add = [&](const std::string& change, const std::string& folder) {
    std::vector<std::string> changes;
    if (!change.empty()) changes.push_back(change);
    JobReplay replay = asked_for(options, changes);
    std::vector<std::string> policies = options.policies;
    if (policies.empty()) policies.push_back(replay.policy());
    if (!options.scheduler.empty()) policies = {kScheduler};
    for (std::size_t i = 0; i < policies.size(); ++i) {
      replay.set_policy(policies[i]);
      const std::string label = change.empty() ? policies[i] : policies[i] + ", " + change;
      variants.push_back({.replay = replay,
                          .what_if = change,
                          .label = label,
                          .folder = policies[i] + folder,
                          .base = i});
    }
  };
  add("", "");
  for (std::size_t i = 0; i < options.what_if.size(); ++i) {
    add(options.what_if[i], fmt::format(".what-if-{}", i + 1));
  }
  if (options.choice.policies.empty()) return variants;
  variants.push_back(variants.front());
  Variant& choice = variants.back();
  choice.label = fmt::format("choice from {}", choice.replay.policy());
  choice.folder = "choice";
  choice.chooses = true;
  return variants;
}

bool is_elsewhere(const Variant& variant) {
  return speed_of(variant.replay.conditions()) == JobSpeed::simulated;
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

/// Throws if options of the reading, which the simulator's process does not get, meet simulated
/// speed.
void check_reading(const JobsOptions& options, const std::vector<Variant>& variants) {
  const bool has_kind = !options.log.gpu_kind.empty();
  if (!has_kind && options.log.columns.empty()) return;
  if (std::none_of(variants.begin(), variants.end(), is_elsewhere)) return;
  throw Error(ErrorKind::usage,
              fmt::format("{0}: expected jobs of recorded speed, got simulated speed: write the "
                          "log with 'orrery import jobs LOG {0} {1} -o jobs.csv' and replay that "
                          "file",
                          has_kind ? "--gpu-kind" : "--columns", has_kind ? "KIND" : "NAMES"));
}

/// Throws if replays with limits of power meet policies that do not know lost GPUs.
void check_power(const JobsOptions& options, const std::vector<Variant>& variants) {
  const bool forecasts = !options.choice.policies.empty();
  if (!forecasts && options.scheduler.empty()) return;
  if (std::none_of(variants.begin(), variants.end(),
                   [](const Variant& each) { return each.replay.has_power(); })) {
    return;
  }
  throw Error(ErrorKind::usage,
              fmt::format("{}: expected a replay without limits of power, which {}, found the key "
                          "'power': leave one of both out",
                          forecasts ? "--choose" : "--scheduler",
                          forecasts ? "forecasts do not have" : "no message of Batsim tells"));
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

/// Removes the variants whose change has no effect on the replay of their policy, and returns a
/// line about each, except for parameters of other policies. Throws a usage error for a change
/// without effect on any replay.
std::vector<std::string> drop_without_effect(std::vector<Variant>& variants,
                                             const std::vector<TraceJob>& log) {
  const sim::LogTraits traits = sim::log_traits(log);
  std::map<std::string, std::size_t> kept;  // keyed by change
  std::map<std::string, std::string> reasons;
  std::vector<std::string> lines;
  std::vector<Variant> effective;
  for (const Variant& each : variants) {
    if (each.what_if.empty()) {
      effective.push_back(each);
      continue;
    }
    std::size_t& count = kept[each.what_if];
    const std::string reason =
        sim::reason_without_effect(variants[each.base].replay, each.replay, traits);
    if (reason.empty()) {
      ++count;
      effective.push_back(each);
      continue;
    }
    reasons.try_emplace(each.what_if, reason);
    const std::string first = each.what_if.substr(0, each.what_if.find_first_of(".="));
    if (!is_policy(first)) lines.push_back(fmt::format("no row {}: {}", each.label, reason));
  }
  for (const auto& [change, count] : kept) {
    if (count > 0) continue;
    throw Error(ErrorKind::usage,
                fmt::format("--what-if '{}': expected a key that changes the replay, found one "
                            "without effect: {}",
                            change, reasons.at(change)));
  }
  variants = std::move(effective);
  return lines;
}

void show_health(const JobReplay& replay) {
  const auto health = load_node_health(replay.trace());
  if (health) print_node_health(*health, replay.nodes());
}

/// Replays without a kind of estimates use those that a scheduler has, because a choice from the
/// recorded durations would be one from the future.
void use_known_estimates(std::vector<Variant>& variants, const std::vector<TraceJob>& log) {
  for (Variant& each : variants) {
    if (each.replay.estimates().empty()) each.replay.set_estimates(known_estimates(log));
  }
}

/// Adds the rules of --qos and --reservations to the replays under multifactor.
void add_slurm_rules(const JobsOptions& options, std::vector<Variant>& variants,
                     const JobLog& log) {
  std::vector<std::string> policies;
  for (const Variant& each : variants) policies.push_back(each.replay.policy());
  check_slurm_files(options.slurm, policies);
  const std::vector<std::string> nodes =
      options.slurm.reservations.empty() ? std::vector<std::string>{} : node_names(options);
  for (Variant& each : variants) add_slurm_files(options.slurm, log, nodes, each.replay);
}

/// Prints a warning for each quota of max-min whose virtual cluster has no job in the log.
void warn_of_quotas(const JobReplay& replay, const std::vector<TraceJob>& log) {
  MaxMinParameters parameters;
  if (!is_policy(replay.policy()) || !policy_of(replay).parameters().UnpackTo(&parameters)) return;
  for (const MaxMinParameters::Quota& quota : parameters.quotas()) {
    const bool known = std::any_of(log.begin(), log.end(), [&quota](const TraceJob& job) {
      return job.pool.str() == quota.vc();
    });
    if (known) continue;
    fmt::print(stderr,
               "warning: max-min.quotas: no job of {} belongs to the virtual cluster '{}', so its "
               "{} GPUs are lent to the others\n",
               replay.trace(), quota.vc(), quota.gpus());
  }
}

/// Settles the slices of GPUs of all replays. Forecasts and simulated speed count whole GPUs, and
/// so do the replays beside them.
void settle_slices(const JobsOptions& options, std::vector<Variant>& variants,
                   const std::vector<TraceJob>& jobs) {
  const bool whole = !options.choice.policies.empty() ||
                     std::any_of(variants.begin(), variants.end(), is_elsewhere);
  for (Variant& variant : variants) {
    if (whole) sim::count_parts_whole(variant.replay, jobs);
    sim::settle_slices(variant.replay, jobs);
  }
}

/// Returns the replays of the command, complete, and adds lines about those left out.
std::vector<Variant> complete_variants(const JobsOptions& options, const JobLog& log,
                                       std::vector<Variant> variants,
                                       std::vector<std::string>& remarks) {
  add_slurm_rules(options, variants, log);
  settle_slices(options, variants, log.jobs);
  if (!options.choice.policies.empty()) use_known_estimates(variants, log.jobs);
  for (const Variant& variant : variants) {
    check_estimates(variant.replay, log.jobs);
    warn_of_quotas(variant.replay, log.jobs);
  }
  remarks = drop_without_effect(variants, log.jobs);
  return variants;
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
  check_reading(options, variants);
  check_power(options, variants);
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

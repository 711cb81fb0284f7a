// orrery jobs: replays a production job trace job by job. The replay needs no engine, so it runs in
// this process.
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "cli/commands/commands.hpp"
#include "cli/shared/help.hpp"
#include "cli/shared/output_file.hpp"
#include "cli/shared/policy_option.hpp"
#include "cli/shared/replay_options.hpp"
#include "cli/shared/replay_tables.hpp"
#include "cli/shared/run_options.hpp"
#include "cli/shared/usage.hpp"
#include "core/error.hpp"
#include "policies/run/worker.hpp"
#include "sim/replay/job_replay.hpp"

namespace orrery::cli {
namespace {

struct JobsOptions : ReplayOptions {
  std::string out;
  std::vector<std::string> what_if;
  bool json = false, backtest = false;
};

/// Writes jobs.csv, series.csv, groups.csv and, if the replay has one, backtest.csv into `folder`.
void write_tables(const std::filesystem::path& folder, const sim::JobTables& tables) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) {
    throw Error(ErrorKind::environment,
                fmt::format("cannot make the folder {}: {}", folder.string(), failed.message()));
  }
  write_file((folder / "jobs.csv").string(), tables.jobs);
  write_file((folder / "series.csv").string(), tables.series);
  write_file((folder / "groups.csv").string(), tables.groups);
  if (tables.backtest.empty()) return;
  write_file((folder / "backtest.csv").string(), sim::backtest_csv(tables.backtest));
}

/// Replay of one policy under one change of --what-if, or under none.
struct Variant {
  JobReplay replay;
  std::string what_if;  ///< change; empty: none
  std::string label;    ///< policy and change
  std::string folder;   ///< folder of its files if the command has several replays
};

/// Returns every policy without a change, then every policy under each change of --what-if.
std::vector<Variant> variants_of(const JobsOptions& options) {
  std::vector<Variant> variants;
  const auto add = [&](const std::string& change, const std::string& folder) {
    std::vector<std::string> changes;
    if (!change.empty()) changes.push_back(change);
    JobReplay replay = asked_for(options, changes);
    std::vector<std::string> policies = options.policies;
    if (policies.empty()) policies.push_back(replay.policy());
    for (const std::string& policy : policies) {
      replay.set_policy(policy);
      const std::string label = change.empty() ? policy : policy + ", " + change;
      variants.push_back({replay, change, label, policy + folder});
    }
  };
  add("", "");
  for (std::size_t i = 0; i < options.what_if.size(); ++i) {
    add(options.what_if[i], fmt::format(".what-if-{}", i + 1));
  }
  return variants;
}

bool is_elsewhere(const Variant& variant) {
  return variant.replay.conditions().speed() == "simulated";
}

/// Runs a replay with simulated speed in the simulator, a process of its own.
JobsReport run_elsewhere(const JobReplay& replay, Policy* policy, const std::string& record,
                         sim::JobTables* tables) {
  return sim::replay_report(
      replay,
      run("orrery-sim", sim::replay_request(replay, record), {}, nullptr, nullptr, policy), tables);
}

/// Runs a replay in this process; `policy`: null for the one that the replay names.
JobsReport run_here(const JobReplay& replay, std::vector<TraceJob> log, Policy* policy,
                    const std::string& record, sim::JobTables* tables) {
  if (policy == nullptr) return sim::replay_jobs(std::move(log), replay, record, tables);
  return sim::replay_jobs(std::move(log), replay, *policy, record, tables);
}

/// Report of a replay, and the rows of its backtest; empty without --out and --backtest.
using Ran = std::pair<JobsReport, std::vector<sim::BacktestRow>>;

Ran run_one(const JobsOptions& options, const Variant& variant, std::vector<TraceJob> log,
            bool several) {
  const HostMeter meter;
  sim::JobTables tables;
  const JobReplay& replay = variant.replay;
  const std::string record =
      several && !options.record.empty() ? options.record + "." + variant.folder : options.record;
  sim::JobTables* const wanted = !options.out.empty() || options.backtest ? &tables : nullptr;
  const bool elsewhere = is_elsewhere(variant);
  if (elsewhere && options.backtest) {
    throw Error(ErrorKind::usage, "--backtest: expected jobs of recorded speed, got simulated "
                                  "speed: leave --backtest out");
  }
  const auto policy = job_policy(replay, elsewhere ? sim::replay_seed(replay) : 0);
  JobsReport report = elsewhere
                          ? run_elsewhere(replay, policy.get(), record, wanted)
                          : run_here(replay, std::move(log), policy.get(), record, wanted);
  if (!options.out.empty()) {
    const std::filesystem::path folder(options.out);
    write_tables(several ? folder / variant.folder : folder, tables);
  }
  if (!variant.what_if.empty()) report.set_what_if(variant.what_if);
  if (!elsewhere) meter.fill(*report.mutable_host());
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

void show(const JobsOptions& options, const std::vector<Variant>& variants,
          const std::vector<JobsReport>& reports, const JobsReport& recorded) {
  if (options.json) return print_json(reports);
  if (reports.size() == 1) return print_table(variants[0].replay, reports[0]);
  std::vector<std::string> labels;
  for (const Variant& each : variants) labels.push_back(each.label);
  print_comparison(variants[0].replay, labels, reports, recorded);
}

void show_health(const JobReplay& replay) {
  const auto health = load_node_health(replay.trace());
  if (health) print_node_health(*health, replay.nodes());
}

int jobs(const JobsOptions& options) {
  const HostMeter meter;
  const std::vector<Variant> variants = variants_of(options);
  JobLog log = load_log(variants[0].replay, options);
  std::vector<JobsReport> reports;
  std::vector<std::vector<sim::BacktestRow>> backtests;
  for (const Variant& variant : variants) check_estimates(variant.replay, log.jobs);
  const JobsReport recorded = recorded_outcome(variants[0].replay, log.jobs);
  for (const Variant& variant : variants) {
    const bool last = reports.size() + 1 == variants.size();  // saves a copy of a million jobs
    auto [report, backtest] =
        run_one(options, variant, last ? std::move(log.jobs) : log.jobs, variants.size() > 1);
    *report.mutable_quality() = log.quality;
    reports.push_back(std::move(report));
    backtests.push_back(std::move(backtest));
  }
  // The time includes reading the log; a run elsewhere has reported its own time.
  if (reports.size() == 1 && !is_elsewhere(variants[0])) meter.fill(*reports[0].mutable_host());
  show(options, variants, reports, recorded);
  for (std::size_t i = 0; options.backtest && i < reports.size(); ++i) {
    print_backtest(variants[i].label, backtests[i]);
  }
  if (options.backtest) show_health(variants[0].replay);
  return missed_goals(reports);
}

void declare(CLI::App& command, const std::shared_ptr<JobsOptions>& options) {
  declare_replay(command, options);
  command.add_flag("--json", options->json, "print one JSON object instead of the table");
  command
      .add_flag("--backtest", options->backtest,
                "compare waits with those of the log, by size and hour of the day")
      ->excludes("--json");
  command.add_option("--out", options->out, "write tables: jobs.csv, series.csv, groups.csv")
      ->type_name("DIR");
  command
      .add_option("--what-if", options->what_if,
                  "replay once more with this change, side by side: nodes=72, or another change "
                  "in the form of --set")
      ->type_name("CHANGE")
      ->allow_extra_args(false);
  add_examples(command, {"orrery jobs trace.csv --nodes 16 --gpus-per-node 8 --policy fifo",
                         "orrery jobs trace.csv.gz --cluster cluster.yaml --policy sjf "
                         "--placement consolidated",
                         "orrery jobs sacct.txt --nodes 64 --gpus-per-node 8 --policy fifo,easy "
                         "--estimates requested --out tables"});
}

}  // namespace

void add_jobs(CLI::App& app, Action& chosen) {
  const auto options = std::make_shared<JobsOptions>();
  CLI::App* command = app.add_subcommand("jobs", "replay a production job trace");
  declare(*command, options);
  command->callback([options, &chosen] { chosen = [options] { return jobs(*options); }; });
}

}  // namespace orrery::cli

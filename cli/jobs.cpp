// orrery jobs: a production job trace, replayed job by job. It needs no engine, so it runs here.
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "cli/commands.hpp"
#include "cli/help.hpp"
#include "cli/output_file.hpp"
#include "cli/replay_options.hpp"
#include "cli/replay_tables.hpp"
#include "cli/usage.hpp"
#include "core/error.hpp"
#include "policies/run/worker.hpp"
#include "sim/jobs/job_replay.hpp"

namespace orrery::cli {
namespace {

struct Options : ReplayOptions {
  std::string out;
  bool json = false, backtest = false;
};

/// jobs.csv, series.csv and groups.csv; with several policies in a folder for each.
void write_tables(const std::filesystem::path& folder, const JobTables& tables) {
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
  write_file((folder / "backtest.csv").string(), backtest_csv(tables.backtest));
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

int jobs(const Options& options) {
  const HostMeter meter;
  JobReplay replay = asked_for(options);
  JobLog log = load_log(replay, options);
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

void declare(CLI::App& command, const std::shared_ptr<Options>& options) {
  declare_replay(command, options);
  command.add_flag("--json", options->json, "print one JSON object instead of the table");
  command
      .add_flag("--backtest", options->backtest,
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

void add_jobs(CLI::App& app, Action& chosen) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("jobs", "replay a production job trace");
  declare(*command, options);
  command->callback([options, &chosen] { chosen = [options] { return jobs(*options); }; });
}

}  // namespace orrery::cli

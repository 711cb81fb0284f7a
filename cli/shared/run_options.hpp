// Common parts of the commands that run a scenario: their options, the resulting scenario, and a
// run with a progress line that Ctrl-C ends. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/App.hpp>

#include "core/schema/names.hpp"
#include "policies/run/worker.hpp"
#include "traces/report.pb.h"
#include "traces/run.pb.h"
#include "traces/scenario/scenario.hpp"

namespace orrery::cli {

/// Returns the exit code for the last signal of the last run, as shells give it: 130 after SIGINT,
/// 143 after SIGTERM, 129 after SIGHUP; 128 without a signal.
int interrupted_code();
/// Returns true if SIGINT, SIGTERM or SIGHUP came during the last run() or run_futures().
bool was_interrupted();

/// Options of the commands that run a scenario.
struct RunOptions {
  std::string file;
  std::vector<std::string> overrides;  ///< "path=value", of --set
  std::vector<std::string> own;        ///< "path=value", of options such as --seed; these win
  std::string record;                  ///< log to write, or empty
  bool json = false;

  // Declarations of options; this object must outlive the parsing of the command line.
  void add_file(CLI::App& command);
  void add_overrides(CLI::App& command);
  void add_seed(CLI::App& command);  ///< becomes the override "run.seed=N"
  void add_record(CLI::App& command);
  void add_json(CLI::App& command);  ///< --json: one JSON object instead of the summary
  /// Returns the scenario with all overrides. Throws as load_scenario() does.
  LoadedScenario load() const;
  /// Returns `overrides`, then `own`.
  std::vector<std::string> all_overrides() const;
};

/// Programs that run requests: the simulator, and live mode.
enum class Worker : std::uint8_t { sim, live };
constexpr std::array<std::string_view, 2> names_of(Worker) { return {"orrery-sim", "orrery-live"}; }

/// Runs `request` in a process of the worker and returns its report. Shows a
/// progress line on a terminal after about a second. After SIGINT, SIGTERM or SIGHUP, throws
/// Interrupted; a live run with checkpoints instead writes a checkpoint and returns its report, and
/// throws Interrupted if no report comes within 25 s or before another signal.
/// Throws errors of run_in_worker(), bad input with its place in `places`. `operated`: operator of
/// the run, or null. `server`: fork server that forks the worker, or null: the worker is started.
/// `policy`: policy of this process that decides instead of the scenario's, or null.
Report run(Worker worker, const RunRequest& request, const SourceMap& places,
           Operator* operated = nullptr, ForkServer* server = nullptr, Policy* policy = nullptr);

/// Runs a `request` with futures in worker processes, like run(), and returns the report of all
/// futures.
FuturesReport run_futures(Worker worker, const RunRequest& request, const FuturePolicies& policies,
                          const SourceMap& places);

/// Prints a report to standard output, and to standard error the warnings that standard output does
/// not contain. Returns the exit code: goal_missed if a failure ended the run or the run is
/// unfinished, else 0.
int print_report(const Report& report, bool json);

}  // namespace orrery::cli

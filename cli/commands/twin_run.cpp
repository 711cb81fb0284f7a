// orrery twin RUN: forecasts next steps and end of a live training run from its log, and scores the
// forecasts.
#include "cli/commands/twin_run.hpp"

#include <poll.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cli/shared/help.hpp"
#include "cli/shared/live_runs.hpp"
#include "cli/shared/run_twin_output.hpp"
#include "cli/shared/slurm_session.hpp"
#include "cli/shared/twin_session.hpp"
#include "cli/shared/usage.hpp"
#include "core/error.hpp"
#include "core/process.hpp"
#include "policies/record/past.hpp"
#include "policies/record/recorder.hpp"
#include "policies/run/registry.hpp"
#include "policies/run/worker.hpp"
#include "sim/forecast/run_twin.hpp"
#include "topologies/builder.hpp"

namespace orrery::cli {
namespace {

constexpr int kLook_ms = 200;  // interval of the looks at the log of a live run
constexpr int kLooks = 50;     // most looks at a log without a header

struct TwinRunOptions {
  std::string run;
  std::vector<std::string> policies;
  double every_s = 10, for_s = 0;
  std::uint32_t samples = 24;
  std::string out;
  bool json = false;
};

/// Returns the live run with this name. Throws a usage Error, which names the other meanings of the
/// argument too, if none or several have it.
LiveRun find_named_run(const std::string& run) {
  const std::vector<std::string> kinds{"jobs", "slurm", "kubernetes"};
  try {
    return find_run(run);
  } catch (const Error& error) {
    throw Error(error.kind(),
                fmt::format("RUN: expected a log, a live run, or jobs, slurm or kubernetes; there "
                            "is no file '{}'{}; {}",
                            run, did_you_mean(run, kinds), error.message()));
  }
}

/// Returns the log of a run: `run` itself if this file or its .partial exists, without .partial;
/// else the log of the live run with this name. Throws a usage Error if the run has no log.
std::string find_log(const std::string& run) {
  const std::string suffix = partial_log("");
  std::string file = run;
  if (file.ends_with(suffix)) file.resize(file.size() - suffix.size());
  std::error_code unknown;
  for (const std::string& each : {file, partial_log(file)}) {
    if (std::filesystem::is_regular_file(each, unknown)) return file;
  }
  const LiveRun found = find_named_run(run);
  const std::string log = found.is_cluster() ? "" : found.text("log");
  if (!log.empty() && log != "-") return log;
  throw Error(ErrorKind::usage,
              found.is_cluster()
                  ? fmt::format("RUN: expected a training run, got the cluster run {}; use orrery "
                                "twin slurm or kubernetes",
                                found.id)
                  : fmt::format("RUN: expected a run with a log, got {}, which records none; start "
                                "the run with --record LOG",
                                found.id));
}

/// Returns the file that has the log now: the unfinished one while the run lasts.
std::string newest_file(const std::string& log) {
  std::error_code unknown;
  const std::string partial = partial_log(log);
  return std::filesystem::is_regular_file(partial, unknown) ? partial : log;
}

/// Throws bad_input for a log in its final place that has no end.
void check_end(const std::string& log, const sim::LogTail& tail) {
  if (tail.is_complete) return;
  throw Error(ErrorKind::bad_input,
              fmt::format("{}: expected a log up to the end of its run, found one that is cut "
                          "short or damaged behind {:.1f} s: give the whole log, or name a log "
                          "that still grows {}",
                          log, to_seconds(std::max<Nanos>(tail.newest, 0)), partial_log(log)));
}

/// Returns the header of the log; waits for that of a run that has just begun. Throws as
/// log_header().
LogHeader read_header_of(const std::string& log) {
  for (int look = 0;; ++look) {
    const std::string file = newest_file(log);
    try {
      return log_header(file);
    } catch (const Error&) {
      if (file == log || look == kLooks || StopSignals::is_stopped()) throw;
    }
    ::poll(nullptr, 0, kLook_ms);
  }
}

void check_policies(const std::vector<std::string>& policies) {
  for (const std::string& policy : policies) {
    if (is_policy(policy)) continue;
    throw Error(ErrorKind::usage,
                fmt::format("--policy {}: expected a built-in policy, because futures are "
                            "simulated without other processes: {}",
                            policy, no_such_policy(policy)));
  }
}

/// Reader of a run's log that asks the twin for forecasts at multiples of an interval. Of a run
/// that has ended all forecasts are made; beside a live run those that are overdue are left out.
class RunFollower {
 public:
  RunFollower(std::string log, const Cluster& cluster, Nanos every, sim::RunTwin& twin)
      : log_(std::move(log)), cluster_(cluster), every_(every), next_(every), twin_(twin) {}

  /// Makes the forecasts that are due. Returns true if the run has ended.
  bool look() {
    const std::string file = newest_file(log_);
    try {
      return read_log(file);
    } catch (const Interrupted&) {
      return true;
    } catch (const Error&) {
      if (newest_file(log_) == file) throw;
      return false;  // the run has ended meanwhile, and its log has another name
    }
  }

 private:
  bool read_log(const std::string& file) {
    const sim::LogTail tail = sim::read_tail(file);
    if (file == log_) check_end(log_, tail);
    // A forecast reads the log up to a call that a complete one follows.
    for (; next_ < tail.newest && !StopSignals::is_stopped(); next_ += every_) {
      if (!tail.is_complete) next_ += (tail.newest - 1 - next_) / every_ * every_;
      read_and_forecast(file, next_);
    }
    if (tail.is_complete) twin_.resolve_forecasts(sim::read_course(file, kNever, cluster_));
    return tail.is_complete;
  }
  void read_and_forecast(const std::string& file, Nanos until) {
    const sim::RunCourse course = sim::read_course(file, until, cluster_);
    twin_.resolve_forecasts(course);
    twin_.forecast_run(file, course);
  }

  const std::string log_;
  const Cluster& cluster_;
  const Nanos every_;
  Nanos next_;
  sim::RunTwin& twin_;
};

int twin_run(const TwinRunOptions& options) {
  check_policies(options.policies);
  const StopSignals signals;
  const std::string log = find_log(options.run);
  const Scenario scenario = read_header_of(log).scenario();
  const Cluster cluster = build_cluster(scenario.cluster(), SourceMap{}, "cluster");
  sim::RunTwin::Options chosen;
  chosen.policies = options.policies;
  chosen.samples = options.samples;
  if (!options.json) {
    chosen.at_choice = [](const sim::PolicySwitch& choice) {
      fmt::print("{:.1f} s: {}\n", to_seconds(choice.at), choice_text(choice));
    };
    chosen.at_forecast = [](const sim::RunForecast& forecast) {
      fmt::print("{}\n", forecast_line(forecast));
      std::fflush(stdout);
    };
  }
  TwinRecord record;
  record.connect_twin(chosen, !options.out.empty(), 3);
  sim::RunTwin twin(
      scenario, cluster,
      [program = sibling_program("orrery-sim")](const RunRequest& request) {
        return run_futures(program, request, {}, &StopSignals::is_stopped);
      },
      chosen);
  RunFollower follower(log, cluster, to_nanos(options.every_s), twin);
  const HostMeter meter;
  HostUse use;
  while (!follower.look() && !StopSignals::is_stopped()) {
    meter.fill(use);
    if (options.for_s > 0 && use.wall_s() >= options.for_s) break;
    ::poll(nullptr, 0, kLook_ms);
  }
  const sim::RunTwinReport report = twin.report();
  const DecisionTimes times = times_of(twin.forecast_times_s());
  write_tables(options.out, record.table(), score_csv(report));
  if (options.json) {
    fmt::print("{}\n", run_twin_json(report, times));
  } else {
    print_run_twin(report, times);
  }
  return 0;
}

/// Throws a usage Error if options or the argument of `orrery twin RUN` precede another kind, which
/// has its own.
void check_order(const CLI::App& command, const std::string& kind) {
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() == 0) continue;
    throw Error(ErrorKind::usage,
                fmt::format("orrery twin {0}: expected options behind '{0}', found {1} before it: "
                            "write orrery twin {0} {1} ...",
                            kind, option->get_name()));
  }
}

}  // namespace

void add_twin_run(CLI::App& command, Action& chosen) {
  const auto options = std::make_shared<TwinRunOptions>();
  command
      .add_option("RUN", options->run,
                  "live run that records a log (orrery live --record), by its id or scenario; or "
                  "its log, also of a run that has ended")
      ->type_name("RUN");
  number(*command.add_option("--every", options->every_s,
                             "seconds between two forecasts, on the clock of the run"),
         0.1, 1e9)
      .type_name("S")
      ->capture_default_str();
  whole_number(*command.add_option("--samples", options->samples, "futures of each forecast"), 2,
               1000)
      .type_name("N")
      ->capture_default_str();
  command
      .add_option("--policy", options->policies,
                  "alternatives to the run's own policies, forecast beside them")
      ->type_name("P")
      ->delimiter(',')
      ->allow_extra_args(false);
  number(*command.add_option("--for", options->for_s,
                             "end after this many seconds; without it with the run or a signal"),
         0.1, 1e9)
      .type_name("S");
  command
      .add_option("--out", options->out,
                  "write tables: forecasts.csv (each forecast beside its outcome), score.csv")
      ->type_name("DIR");
  command.add_flag("--json", options->json, "print one JSON object at the end");
  add_examples(command, {"orrery twin train.log", "orrery twin train --every 60 --policy "
                                                  "static,predictive-rebalance --out twin"});
  command.callback([options, &command, &chosen] {
    const std::vector<CLI::App*> kinds = command.get_subcommands();
    if (!kinds.empty()) return check_order(command, kinds.front()->get_name());
    if (options->run.empty()) {
      throw CLI::RequiredError("RUN, or jobs, slurm or kubernetes");
    }
    chosen = [options] { return twin_run(*options); };
  });
}

}  // namespace orrery::cli

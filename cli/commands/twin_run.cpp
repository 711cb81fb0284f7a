// orrery twin RUN: forecasts next steps and end of a live training run from its log, and scores the
// forecasts.
#include "cli/commands/twin_run.hpp"

#include <poll.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cli/shared/help.hpp"
#include "cli/shared/live_runs.hpp"
#include "cli/shared/run_twin_output.hpp"
#include "cli/shared/slurm_session.hpp"
#include "cli/shared/twin_session.hpp"
#include "cli/shared/twin_status.hpp"
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
  std::vector<std::string> policies, candidates;
  double every_s = 10, for_s = 0;
  std::uint32_t samples = 24;
  std::string out, metrics, goal = "end";
  bool json = false;

  std::vector<std::string> all_policies() const { return joined(policies, candidates); }
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
  const bool is_queue = found.is_cluster() || found.is_twin();
  const std::string log = is_queue ? "" : found.text("log");
  if (!log.empty() && log != "-") return log;
  throw Error(ErrorKind::usage,
              is_queue
                  ? fmt::format("RUN: expected a training run, got run {} ({}); for a queue use "
                                "orrery twin slurm or kubernetes",
                                found.id, found.text("scenario"))
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
                fmt::format("--policy, --choose: expected built-in policies, because futures are "
                            "simulated without other processes, got {}: {}",
                            policy, no_such_policy(policy)));
  }
}

/// Reader of a run's log that asks the twin for forecasts at multiples of an interval. Of a run
/// that has ended all forecasts are made; beside a live run those that are overdue are left out.
class RunFollower {
 public:
  RunFollower(std::string log, const Cluster& cluster, Nanos every, sim::RunTwin& twin,
              TwinStatus& status)
      : log_(std::move(log)),
        cluster_(cluster),
        every_(every),
        next_(every),
        twin_(twin),
        status_(status) {}

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
    const bool grows = file != log_;
    if (!grows && !std::exchange(is_checked_, true)) check_end(log_, sim::read_tail(file));
    if (!course_) course_.emplace(file, cluster_);  // the file keeps its content under its new name
    // A forecast reads the log up to a call that a complete one follows.
    while (course_->has_call_after(next_) && !status_.is_to_end()) {
      while (grows && course_->has_call_after(next_ + every_)) {
        course_->course_at(next_);
        next_ += every_;
      }
      const sim::RunCourse& course = course_->course_at(next_);
      twin_.resolve_forecasts(course);
      twin_.forecast_run(file, course);
      next_ += every_;
    }
    if (course_->is_complete()) twin_.resolve_forecasts(course_->course_at(kNever));
    return course_->is_complete();
  }

  const std::string log_;
  const Cluster& cluster_;
  const Nanos every_;
  Nanos next_;
  std::optional<sim::RunCourseReader> course_;
  bool is_checked_ = false;  ///< the finished log has an end
  sim::RunTwin& twin_;
  TwinStatus& status_;
};

/// Twin of a run with its output: lines, status, metrics and tables.
class ShownRunTwin {
 public:
  /// `log`: log of the run with this scenario. All references must outlive this object.
  ShownRunTwin(const TwinRunOptions& options, std::string log, const Scenario& scenario,
               const Cluster& cluster)
      : options_(options),
        name_(scenario.name()),
        policies_(sim::policies_of_twin(scenario, options.all_policies())),
        status_("twin-" + name_, options.metrics, policies_),
        record_(options.out, 3),
        twin_(
            scenario, cluster,
            [this, program = sibling_program("orrery-sim")](const RunRequest& request) {
              return run_futures(program, request, {}, [this] { return status_.is_to_end(); });
            },
            connected_options()),
        follower_(std::move(log), cluster, to_nanos(options.every_s), twin_, status_) {}

  /// Forecasts the run until it ends, and shows the score.
  void follow() {
    const HostMeter meter;
    HostUse use;
    while (!follower_.look() && !status_.is_to_end()) {
      meter.fill(use);
      if (options_.for_s > 0 && use.wall_s() >= options_.for_s) break;
      ::poll(nullptr, 0, kLook_ms);
    }
    const sim::RunTwinReport report = twin_.report();
    const DecisionTimes times = times_of(twin_.forecast_times_s());
    if (report.forecasts > 0) show_figures();
    status_.show_last();
    record_.write_score(score_csv(report));
    if (options_.json) {
      fmt::print("{}\n", run_twin_json(report, times).dump(2));
    } else {
      print_run_twin(report, times);
    }
  }

 private:
  sim::RunTwin::Options connected_options() {
    sim::RunTwin::Options out;
    out.policies = options_.all_policies();
    out.samples = options_.samples;
    out.at_choice = [this](const sim::PolicySwitch& choice) {
      show_line(fmt::format("{:.1f} s: {}", to_seconds(choice.at), choice_text(choice)));
    };
    out.at_forecast = [this](const sim::RunForecast& forecast) {
      show_line(forecast_line(forecast));
      record_.add_goals(forecast.made, goals_of(forecast));
      show_figures();
    };
    record_.connect_twin(out);
    return out;
  }
  void show_line(const std::string& line) {
    status_.add_line(line);
    if (options_.json) return;
    fmt::print("{}\n", line);
    std::fflush(stdout);
  }
  void show_figures() {
    const sim::RunTwinReport report = twin_.report();
    TwinFigures figures = figures_of(report, times_of(twin_.forecast_times_s()), name_);
    record_.write_now(figures);
    record_.write_score(score_csv(report));
    status_.show_figures(std::move(figures));
  }

  const TwinRunOptions& options_;
  const std::string name_;
  const std::vector<std::string> policies_;
  TwinStatus status_;
  TwinRecord record_;
  sim::RunTwin twin_;
  RunFollower follower_;
};

int twin_run(const TwinRunOptions& options) {
  check_policies(options.all_policies());
  const StopSignals signals;
  const std::string log = find_log(options.run);
  const Scenario scenario = read_header_of(log).scenario();
  const Cluster cluster = build_cluster(scenario.cluster(), SourceMap{}, "cluster");
  ShownRunTwin(options, log, scenario, cluster).follow();
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
  command
      .add_option("--choose", options->candidates,
                  "candidates of the reported choice; the same as --policy")
      ->type_name("P,P")
      ->delimiter(',')
      ->allow_extra_args(false);
  one_of(*command.add_option("--by", options->goal,
                             "goal of the choice, which is only reported: the earliest end"),
         {"end"})
      .capture_default_str();
  number(*command.add_option("--for", options->for_s,
                             "end after this many seconds; without it with the run or a signal"),
         0.1, 1e9)
      .type_name("S");
  command
      .add_option("--metrics", options->metrics,
                  "write metrics for Prometheus about once a second, or serve them at a socket")
      ->type_name("FILE|unix:PATH");
  add_tables(command, options->out);
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

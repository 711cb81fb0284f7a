// Digital twin of a training run: forks the state in the run's log into the simulator at fixed
// intervals, forecasts the next steps, the end of the run and the cost of a lost node, under the
// run's own policies and under alternatives, and scores its forecasts when the instants are known.
// Used by the command `twin`. One thread; nanoseconds of the policy clock.
//
// Faults of the scenario are not read, because nobody knows them beforehand: a future has the ranks
// that are slow now (RunCourse::slow) and failures that are drawn. Their rates are those of the
// scenario times a factor with a Gamma distribution: prior of shape 1 and mean 1, posterior by the
// losses seen so far. Without rates in the scenario, ranks are lost at the rate seen so far. For
// example, with 2 losses where the scenario expects 1, the factor has shape 3 and mean 3 / 2.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/random.hpp"
#include "sim/forecast/choice_rule.hpp"
#include "sim/forecast/forecast_score.hpp"
#include "sim/forecast/run_course.hpp"
#include "sim/forecast/twin.hpp"
#include "topologies/cluster.hpp"
#include "traces/run.pb.h"
#include "traces/scenario.pb.h"

namespace orrery::sim {

/// Forecast under one policy.
struct RunOutlook {
  std::string policy;
  InstantForecast end;     ///< end of the run
  double node_cost_s = 0;  ///< mean delay of the end if a node is lost now, of surviving runs
  double survived = 0;     ///< share of these losses after which the run still ends
  CostForecast node_loss_s = {};  ///< the delay with intervals; zeros if no run survives
};

/// All forecasts of one instant.
struct RunForecast {
  Nanos made = 0;
  Step next = 0;    ///< step that is committed next
  Nanos begun = 0;  ///< instant of the newest commit
  /// commit of step `next` under the run's own policies; kNever: no future has the step
  InstantForecast commit{
      .median = kNever, .low80 = kNever, .high80 = kNever, .low95 = kNever, .high95 = kNever};
  std::vector<InstantForecast> other_commits;  ///< commits under the alternatives; empty: not known
  std::vector<RunOutlook> policies;            ///< the run's own first
};

/// Result of a twin so far.
struct RunTwinReport {
  std::uint64_t forecasts = 0;   ///< number of instants with forecasts
  std::uint64_t next_steps = 0;  ///< known forecasts of a next step
  /// of these, median of |forecast - measured| over the measured time from commit to commit
  double next_step_error = 0;
  std::uint64_t losses = 0;           ///< losses of ranks so far
  std::vector<ScoreRow> steps, ends;  ///< commits of the next and the tenth step; end of the run
  std::uint64_t ends_beyond = 0;      ///< forecasts in whose median the run never ends
  RunForecast newest;                 ///< empty without forecasts
  double regret_s = 0;  ///< mean over the forecasts of the own end less that of the best policy
  std::vector<PolicySwitch> choices;  ///< choices of sim/forecast/choice_rule, which nobody follows
};

/// Returns the names of the policies of a twin: the run's own ("static" without one, several joined
/// by +), then the alternatives.
std::vector<std::string> policies_of_twin(const Scenario& scenario,
                                          const std::vector<std::string>& alternatives);

/// Twin of one run. The caller reads the log and calls the methods in the order of the instants.
class RunTwin {
 public:
  /// Function that runs a request with futures, as run_futures().
  using Simulate = std::function<FuturesReport(const RunRequest&)>;
  /// Options of a twin.
  struct Options {
    std::vector<std::string> policies = {};  ///< alternatives beside the run's own policies
    std::uint32_t samples = 24;              ///< futures of each forecast
    std::uint64_t seed = 1;
    std::function<void(const RunForecast&)> at_forecast = {};
    std::function<void(const PolicySwitch&)> at_choice = {};
    std::function<void(const KnownForecast&)> at_known = {};
    std::function<double()> clock_s = {};  ///< measures the duration of forecasts
  };

  /// `scenario`: that of the log; `cluster` must outlive this object. Throws bad_input for an
  /// unknown alternative.
  RunTwin(const Scenario& scenario, const Cluster& cluster, Simulate simulate, Options options);

  /// Scores the forecasts whose instants the course tells.
  void resolve_forecasts(const RunCourse& course);
  /// Forecasts from the newest observation of `course`, which resolve_forecasts() has read, on.
  /// `log`: file of the course. Does nothing before the first commit and after the end. Throws the
  /// error of the simulation of the run under its own policies.
  void forecast_run(const std::string& log, const RunCourse& course);

  /// Returns the result so far.
  RunTwinReport report() const;
  /// Returns the durations of all forecasts in seconds; empty without a clock.
  const std::vector<double>& forecast_times_s() const { return times_s_; }

 private:
  static constexpr std::size_t kHistory = 500, kNewestRatios = 3;

  /// Future under one policy.
  struct Future {
    Nanos end = kNever;           ///< kNever: the run does not end
    std::vector<double> steps_s;  ///< durations of the coming steps
  };
  /// Future under each policy.
  using Futures = std::vector<Future>;
  /// Forecast of a step that is not committed yet.
  struct OpenStep {
    Nanos begun = 0, median = 0;
  };

  RunRequest request_at(const std::string& log, const RunCourse& course,
                        const std::vector<Fault>& faults) const;
  Futures simulate_run(const std::string& log, const RunCourse& course,
                       const std::vector<Fault>& faults) const;
  /// Returns the failures of one future up to `horizon` after now, about 1,000 at most: after
  /// a loss in the first minute of a month a future would have 100,000.
  std::vector<Fault> draw_failures(const RunCourse& course, Nanos horizon, Rng& rng) const;
  std::vector<Futures> draw_futures(const std::string& log, const RunCourse& course,
                                    const Futures& calm, Rng& rng) const;
  double draw_ratio(std::size_t steps, Rng& rng) const;
  void record_commit(const StepCommit& commit);
  void forecast_steps(const RunCourse& course, const std::vector<Futures>& drawn, Rng& rng,
                      RunForecast& made);
  void forecast_ends(const RunCourse& course, const std::vector<Futures>& drawn, Rng& rng,
                     RunForecast& made);
  void forecast_node_loss(const std::string& log, const RunCourse& course, const Futures& calm,
                          Rng& rng, RunForecast& made) const;
  void compare_policies(const RunForecast& made);
  void resolve_instant(ForecastScore& score, std::string_view kind, const std::string& name,
                       JobId id, Nanos actual);

  const Scenario scenario_;
  const Cluster& cluster_;
  const Simulate simulate_;
  const Options options_;
  const double loss_rate_;  ///< rate of the scenario's losses, in 1/s
  FuturesOrder order_;      ///< the run's own policies and the alternatives
  ForecastScore steps_, ends_;
  std::deque<double> ratios_;           ///< measured over simulated times of calm steps
  std::map<Step, double> simulated_s_;  ///< durations of the newest forecast, by step
  std::map<Step, std::vector<OpenStep>> open_;
  std::vector<double> errors_, times_s_;
  std::size_t commits_ = 0;
  std::uint64_t forecasts_ = 0, losses_ = 0;
  double regret_s_ = 0;
  ChoiceRule rule_;
  RunForecast newest_;
};

}  // namespace orrery::sim

// Digital twin of a queue: follows the observations of a cluster, forecasts starts and ends of the
// waiting jobs at fixed intervals, and scores its forecasts when the instants are known. Works in
// every world of queue policies: a replayed log or a real Slurm. One thread; nanoseconds of the
// policy clock.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/forecast/choice_rule.hpp"
#include "sim/forecast/forecast_score.hpp"
#include "sim/forecast/node_loss.hpp"
#include "sim/forecast/queue_forecast.hpp"
#include "sim/forecast/queue_learner.hpp"

namespace orrery::sim {

/// Forecast of one waiting job under one policy.
struct JobOutlook {
  InstantForecast start, end;
};

/// Forecast of one waiting job.
struct JobForecast {
  std::string job;  ///< id of the job in its log or cluster
  std::uint32_t gpus = 0;
  InstantForecast start, end;            ///< outlook under the active policy
  std::vector<JobOutlook> alternatives;  ///< outlooks under the others, in their order
};

/// Futures of one policy at one instant, summed up: means over the draws, by goal.
struct PolicyOutlook {
  std::string policy;
  std::array<double, kQueueGoals> goals{};
};

/// All forecasts of one instant.
struct QueueForecast {
  Nanos made = 0;
  std::size_t running = 0;              ///< number of running jobs
  std::vector<JobForecast> jobs;        ///< waiting jobs, in order of submission
  std::vector<PolicyOutlook> policies;  ///< the active policy first
  NodeLoss node_loss;                   ///< cost of losing a node now, under the active policy
};

/// Forecast whose instant is known.
struct KnownForecast {
  std::string job;
  std::string_view kind;  ///< "start" or "end"
  InstantForecast forecast;
  Nanos actual = 0;
};

/// Result of a twin so far.
struct TwinReport {
  std::uint64_t forecasts = 0;  ///< number of instants with forecasts
  std::uint64_t most_waiting = 0;
  std::vector<ScoreRow> starts, ends;
  std::uint64_t starts_beyond = 0, ends_beyond = 0;  ///< forecasts beyond the horizon of futures
  std::vector<PolicyOutlook> policies;  ///< means over the forecasts, the active policy first
  /// mean over the forecasts of the active policy's goal less that of the best policy
  std::array<double, kQueueGoals> regret{};
  std::vector<PolicySwitch> choices;  ///< choices of sim/forecast/choice_rule, which nobody follows
  Nanos node_loss_made = 0;           ///< instant of the newest forecast
  NodeLoss node_loss;                 ///< its cost of losing a node
  DurationAccuracy first_week, first_quarter, second_half, all;  ///< jobs by submission
};

/// Policy that forwards all observations to another policy and forecasts beside it. The forecasts
/// are those of the active policy; alternatives are simulated with the same draws.
class Twin : public Policy {
 public:
  /// Options of a twin.
  struct Options {
    JobReplay active;  ///< policy, placement and parameters of the cluster's scheduler
    std::vector<JobReplay> alternatives;
    Nanos every = 60 * kNanosPerSecond;  ///< interval of the forecasts
    FutureOptions futures;
    Nanos node_away = 3600 * kNanosPerSecond;  ///< time after which a lost node is back
    ColumnsOf columns = columns_of_spec;
    QueueGoal goal = QueueGoal::wait;  ///< goal of the choice among the policies
    std::function<void(const QueueForecast&)> at_forecast = {};
    std::function<void()> at_empty = {};  ///< called instead of at_forecast while no job waits
    std::function<void(const PolicySwitch&)> at_choice = {};
    std::function<void(const KnownForecast&)> at_known = {};
    std::function<double()> clock_s = {};  ///< measures the duration of forecasts
  };

  /// `inner` must outlive this object.
  Twin(Policy& inner, Options options);

  Needs needs() const override { return inner_.needs(); }
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override {
    inner_.start(context, cluster, parameters);
  }
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override;
  void save(Archive& archive) const override { inner_.save(archive); }
  void load(const Archive& archive) override { inner_.load(archive); }
  bool has_changed() const override { return inner_.has_changed(); }

  /// Returns the result so far.
  TwinReport report() const;
  /// Returns the durations of all forecasts in seconds; empty without a clock.
  const std::vector<double>& forecast_times_s() const { return times_s_; }

 private:
  void resolve_forecasts(const Observation& seen);
  void resolve_job(ForecastScore& score, std::string_view kind, const JobInfo& job, Nanos now);
  QueueForecast forecast_queue(const Observation& seen);
  void forecast_timed(const Observation& seen);
  void compare_policies(const QueueForecast& made);
  void add_outlook(QueueForecast& made, const PolicyFutures& futures);
  void add_alternative(const QueueSnapshot& from, QueueForecast& made,
                       const PolicyFutures& futures) const;
  JobForecast forecast_job(const QueueSnapshot& from, std::size_t job,
                           const PolicyFutures& futures);

  Policy& inner_;
  const Options options_;
  QueueLearner learner_;
  ForecastScore starts_, ends_;
  Nanos next_ = 0, begin_ = kNever, now_ = 0;
  std::uint64_t forecasts_ = 0, most_waiting_ = 0;
  std::vector<PolicyOutlook> sums_;
  Nanos node_loss_made_ = 0;
  NodeLoss node_loss_;  ///< cost in the newest forecast
  ChoiceRule rule_;
  std::array<double, kQueueGoals> regret_{};
  std::vector<double> times_s_;
};

/// Returns the header line of the table of known forecasts.
std::string known_forecasts_header();
/// Appends the line of one known forecast; times in seconds with this number of decimals.
void write_known(const KnownForecast& known, int decimals, std::string& out);
/// Appends the fields of one forecast and a last field as a line of a table: `name`,`kind`, instant
/// of the forecast, median, limits of the 80% and of the 95% interval, `last`.
void write_forecast(const std::string& name, std::string_view kind, const InstantForecast& of,
                    const std::string& last, int decimals, std::string& out);

}  // namespace orrery::sim

// Score of forecasts of instants: error and coverage of intervals by horizon. The errors of earlier
// forecasts widen or narrow the intervals of later ones, so that their coverage approaches what
// they claim (conformalized quantile regression, Romano, Patterson and Candes 2019, with the errors
// of the newest jobs). A forecast whose instant is unknown and later than its interval counts with
// the error that it has at least: otherwise the jobs that come early would set the intervals. Each
// job that misses an interval raises the share of earlier errors that later intervals cover, and
// each other one lowers the share (adaptive conformal inference, Gibbs and Candes 2021): earlier
// errors tell less than they should if the futures have another policy than the cluster. Used by
// sim/forecast/twin. One thread; nanoseconds of the policy clock.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/ids.hpp"

namespace orrery::sim {

/// Forecast of one instant; kNever: beyond the horizon of the futures.
struct InstantForecast {
  Nanos made = 0;  ///< instant of the forecast
  Nanos median = 0;
  Nanos low80 = 0, high80 = 0, low95 = 0, high95 = 0;
};

/// Score of the forecasts of one horizon: forecasts whose median was at most `most` and more than
/// that of the row before ahead.
struct ScoreRow {
  std::string horizon;  ///< "1 min", "5 min", "15 min", "1 h", "longer", "all"
  std::uint64_t forecasts = 0;
  double median_error_s = 0;                         ///< median of the absolute error
  double within_minute = 0, within_ten_minutes = 0;  ///< fractions of the forecasts
  double coverage80 = 0, coverage95 = 0;             ///< fractions inside the intervals
};

/// Keeper of open and known forecasts of one kind of instant.
class ForecastScore {
 public:
  /// Returns the forecast of an instant with these ascending samples, which must not be empty.
  InstantForecast forecast(const std::vector<Nanos>& samples, Nanos made) const;
  /// Keeps a forecast of these samples until the instant is known. Only counts a forecast whose
  /// median is beyond the horizon of the futures.
  void add(JobId job, const InstantForecast& forecast, const std::vector<Nanos>& samples);
  /// Scores the forecasts of the job. Returns those that were kept.
  std::vector<InstantForecast> resolve_job(JobId job, Nanos actual);
  /// Forgets the forecasts of a job whose instant will never come.
  void drop_job(JobId job) { open_.erase(job); }
  /// Returns the rows of all horizons with forecasts, and their sum.
  std::vector<ScoreRow> rows() const;
  /// Returns the number of forecasts whose median was beyond the horizon of the futures.
  std::uint64_t beyond() const { return beyond_; }

 private:
  static constexpr std::size_t kHorizons = 5;
  /// jobs that set the intervals of a horizon, and forecasts of each
  static constexpr std::size_t kNewest = 500, kLeast = 5, kOfJob = 64;
  /// forecasts that are kept of all open jobs, and at least of each
  static constexpr std::size_t kMostOpen = std::size_t{1} << 20, kLeastOfJob = 8;

  /// Distances of instants from the 80% and the 95% interval of the samples, relative to the time
  /// ahead; negative inside.
  using Excess = std::array<double, 2>;
  /// Widening of the 80% and the 95% interval of a horizon, relative to the time ahead.
  using Widening = std::optional<std::array<double, 2>>;
  /// Errors of the forecasts of one horizon.
  struct Horizon {
    std::map<float, std::uint64_t> errors_s;  ///< numbers of forecasts
    std::uint64_t forecasts = 0, in80 = 0, in95 = 0;
    std::deque<std::vector<Excess>> jobs;  ///< excesses of the newest jobs
    std::uint64_t scored_jobs = 0;         ///< jobs with forecasts
    std::array<double, 2> correction{};    ///< added to the shares that the intervals claim
  };
  /// Forecast with the intervals of its samples, before they were widened.
  struct Open {
    InstantForecast shown, raw;
  };
  /// Open forecasts of one job and horizon: of `made` ones each `weight`-th is kept.
  struct OpenOfJob {
    std::vector<Open> kept;
    std::uint64_t made = 0, weight = 1;
  };
  static std::size_t horizon_of(const InstantForecast& forecast);
  static InstantForecast raw_forecast(const std::vector<Nanos>& samples, Nanos made);
  static Excess excess(const InstantForecast& raw, Nanos actual);
  static Widening widening(const Horizon& horizon, const std::vector<Excess>& late);
  static void add_job(Horizon& horizon, std::vector<Excess> found);
  void measure_widening(Nanos now) const;
  static ScoreRow row(const std::string& name, const Horizon& horizon);
  static void correct_shares(Horizon& horizon, const std::array<double, 2>& missed,
                             double forecasts);
  static void score(const Open& open, Nanos actual, std::uint64_t weight, Horizon& horizon);
  std::size_t most_of_job() const;

  std::map<JobId, std::array<OpenOfJob, kHorizons>> open_;
  std::array<Horizon, kHorizons> horizons_;
  mutable std::array<Widening, kHorizons> widening_;  ///< values at the instant `measured_`
  mutable Nanos measured_ = kNever;                   ///< kNever: not since the newest score
  std::uint64_t beyond_ = 0;
};

}  // namespace orrery::sim

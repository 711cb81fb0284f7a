#include "sim/forecast/forecast_score.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace orrery::sim {
namespace {

constexpr Nanos kMinute = 60 * kNanosPerSecond;
constexpr std::array<Nanos, 4> kLimits{kMinute, 5 * kMinute, 15 * kMinute, 60 * kMinute};
constexpr std::array<double, 2> kShares{0.80, 0.95};  ///< shares of instants inside the intervals
/// Correction of a share for a job that missed its interval. Larger steps follow changes faster,
/// and vary more.
constexpr double kCorrectionStep = 0.02;
constexpr double kMostWeight = 4;  ///< weight of a job with more forecasts than the mean, at most
constexpr std::array<const char*, 5> kNames{"1 min", "5 min", "15 min", "1 h", "longer"};

/// Returns the sample at a place, between two samples in proportion.
Nanos sample_at(const std::vector<Nanos>& samples, double at) {
  const auto below = static_cast<std::size_t>(at);
  const Nanos low = samples[below];
  if (low == kNever || below + 1 == samples.size()) return low;
  const Nanos high = samples[below + 1];
  if (high == kNever) return at - static_cast<double>(below) < 0.5 ? low : kNever;
  return low +
         static_cast<Nanos>((at - static_cast<double>(below)) * static_cast<double>(high - low));
}

/// Returns the instant that the fraction `share` of further samples would not exceed: the samples
/// divide the line into equally likely parts, and the outer parts are open.
/// Beyond them the samples go on with the mean distance of the three outermost. With samples beyond
/// the horizon, returns the sample at the fraction.
Nanos quantile_of(const std::vector<Nanos>& samples, double share) {
  const auto count = static_cast<double>(samples.size());
  if (samples.back() == kNever || samples.size() < 3) {
    return sample_at(samples, share * (count - 1));
  }
  const double at = share * (count + 1) - 1, beyond = std::max(-at, at - (count - 1));
  if (beyond <= 0) return sample_at(samples, at);
  const std::size_t last = samples.size() - 1;
  const Nanos spread = at < 0 ? samples[0] - samples[2] : samples[last] - samples[last - 2];
  return (at < 0 ? samples[0] : samples[last]) +
         static_cast<Nanos>(beyond * static_cast<double>(spread) / 2);
}

/// Returns the unit of distances from an interval: the time ahead, at least a minute.
double scale_of(const InstantForecast& forecast) {
  return static_cast<double>(std::max(forecast.median - forecast.made, kMinute));
}

double distance_from(Nanos low, Nanos high, Nanos actual) {
  const double below = static_cast<double>(low) - static_cast<double>(actual);
  const double above =
      high == kNever ? below : static_cast<double>(actual) - static_cast<double>(high);
  return std::max(below, above);
}

/// Returns the distance of an instant from an interval, relative to the time ahead; of an instant
/// inside relative to the width of the interval: wide intervals, of a time in which little was
/// known, would else narrow later ones to nothing.
double relative_distance(Nanos low, Nanos high, Nanos actual, double scale) {
  const double distance = distance_from(low, high, actual);
  if (distance >= 0 || high == kNever) return distance / scale;
  return distance / static_cast<double>(high - low);
}

/// Returns the value that the fraction `share` of the values does not exceed.
double level_of(std::vector<double>& values, double share) {
  const auto count = static_cast<double>(values.size());
  const double rank = std::clamp(std::ceil(share * count), 1.0, count) - 1;
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(rank);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

/// Returns the error rounded up to 12 binary digits. Whole numbers up to 4,096 stay as they are.
float rounded_error(double error_s) {
  int exponent = 0;
  const double digits = std::frexp(error_s, &exponent);
  return static_cast<float>(std::ldexp(std::ceil(std::ldexp(digits, 12)), exponent - 12));
}

/// Moves both limits outwards by a relative_distance(), not beyond the instant of the forecast and
/// the median.
void widen(Nanos& low, Nanos& high, double by, const InstantForecast& around) {
  const bool is_wider = by >= 0 || high == kNever;
  const double unit = is_wider ? scale_of(around) : static_cast<double>(high - low);
  const auto step = static_cast<Nanos>(std::clamp(by * unit, -1e18, 1e18));
  low = std::clamp(low - step, around.made, std::max(around.made, around.median));
  if (high != kNever) high = std::max(high + step, around.median);
}

}  // namespace

std::size_t ForecastScore::horizon_of(const InstantForecast& forecast) {
  const Nanos ahead = forecast.median - forecast.made;
  const auto limit =
      std::find_if(kLimits.begin(), kLimits.end(), [ahead](Nanos most) { return ahead <= most; });
  return static_cast<std::size_t>(limit - kLimits.begin());
}

InstantForecast ForecastScore::raw_forecast(const std::vector<Nanos>& samples, Nanos made) {
  return {.made = made,
          .median = quantile_of(samples, 0.5),
          .low80 = quantile_of(samples, 0.1),
          .high80 = quantile_of(samples, 0.9),
          .low95 = quantile_of(samples, 0.025),
          .high95 = quantile_of(samples, 0.975)};
}

ForecastScore::Excess ForecastScore::excess(const InstantForecast& raw, Nanos actual) {
  const double scale = scale_of(raw);
  return {relative_distance(raw.low80, raw.high80, actual, scale),
          relative_distance(raw.low95, raw.high95, actual, scale)};
}

/// A job that comes counts as one more, which may have any error.
ForecastScore::Widening ForecastScore::widening(const Horizon& horizon,
                                                const std::vector<Excess>& late) {
  if (horizon.jobs.size() < kLeast) return {};
  const double one_more = 1 + 1 / static_cast<double>(horizon.jobs.size());
  const std::array<double, 2> shares{(kShares[0] + horizon.correction[0]) * one_more,
                                     (kShares[1] + horizon.correction[1]) * one_more};
  std::array<double, 2> out{};
  std::vector<double> values;
  for (std::size_t i = 0; i < out.size(); ++i) {
    values.clear();
    for (const std::vector<Excess>& job : horizon.jobs) {
      for (const Excess& each : job) values.push_back(each[i]);
    }
    for (const Excess& each : late) {
      if (each[i] > 0) values.push_back(each[i]);
    }
    out[i] = level_of(values, shares[i]);
  }
  return out;
}

void ForecastScore::measure_widening(Nanos now) const {
  if (measured_ == now) return;
  measured_ = now;
  std::array<std::vector<Excess>, kHorizons> late;
  for (const auto& [job, of_job] : open_) {
    for (std::size_t i = 0; i < kHorizons; ++i) {
      for (const Open& open : of_job[i].kept) {
        if (now > open.raw.high80) late[i].push_back(excess(open.raw, now));
      }
    }
  }
  for (std::size_t i = 0; i < kHorizons; ++i) widening_[i] = widening(horizons_[i], late[i]);
}

InstantForecast ForecastScore::forecast(const std::vector<Nanos>& samples, Nanos made) const {
  InstantForecast out = raw_forecast(samples, made);
  out.low80 = std::max(out.low80, made);
  out.low95 = std::max(out.low95, made);
  if (out.median == kNever) return out;
  measure_widening(made);
  const std::array<double, 2> by = widening_[horizon_of(out)].value_or(std::array<double, 2>{});
  widen(out.low80, out.high80, by[0], out);
  widen(out.low95, out.high95, by[1], out);
  return out;
}

void ForecastScore::add(JobId job, const InstantForecast& forecast,
                        const std::vector<Nanos>& samples) {
  if (forecast.median == kNever) {
    ++beyond_;
    return;
  }
  OpenOfJob& open = open_[job][horizon_of(forecast)];
  if (open.made++ % open.weight != 0) return;
  open.kept.push_back({forecast, raw_forecast(samples, forecast.made)});
  for (const std::size_t most = most_of_job(); open.kept.size() > most; open.weight *= 2) {
    std::size_t left = 0;
    for (std::size_t i = 0; i < open.kept.size(); i += 2) open.kept[left++] = open.kept[i];
    open.kept.resize(left);
  }
}

/// Returns the most forecasts that are kept of one job and horizon.
std::size_t ForecastScore::most_of_job() const {
  return std::clamp(kMostOpen / (kHorizons * open_.size()), kLeastOfJob, kOfJob);
}

void ForecastScore::score(const Open& open, Nanos actual, std::uint64_t weight, Horizon& horizon) {
  const InstantForecast& shown = open.shown;
  horizon.errors_s[rounded_error(std::abs(to_seconds(actual - shown.median)))] += weight;
  horizon.forecasts += weight;
  if (actual >= shown.low80 && actual <= shown.high80) horizon.in80 += weight;
  if (actual >= shown.low95 && actual <= shown.high95) horizon.in95 += weight;
}

std::vector<InstantForecast> ForecastScore::resolve_job(JobId job, Nanos actual) {
  std::vector<InstantForecast> out;
  const auto known = open_.extract(job);
  if (!known) return out;
  for (std::size_t i = 0; i < kHorizons; ++i) {
    const OpenOfJob& open = known.mapped()[i];
    std::vector<Excess> found;
    std::uint64_t left = open.made;
    const std::array<std::uint64_t, 2> inside{horizons_[i].in80, horizons_[i].in95};
    for (const Open& each : open.kept) {
      const std::uint64_t weight = std::min(open.weight, left);
      left -= weight;
      score(each, actual, weight, horizons_[i]);
      found.push_back(excess(each.raw, actual));
      out.push_back(each.shown);
    }
    if (open.made > 0) {
      const auto made = static_cast<double>(open.made);
      correct_shares(horizons_[i],
                     {1 - static_cast<double>(horizons_[i].in80 - inside[0]) / made,
                      1 - static_cast<double>(horizons_[i].in95 - inside[1]) / made},
                     made);
    }
    add_job(horizons_[i], std::move(found));
  }
  std::stable_sort(out.begin(), out.end(), [](const InstantForecast& a, const InstantForecast& b) {
    return a.made < b.made;
  });
  measured_ = kNever;
  return out;
}

/// Raises the share of an interval after a job that missed it, and lowers the share after a job
/// inside (adaptive conformal inference, Gibbs and Candes 2021): the coverage then approaches what
/// the interval claims, also if errors change with time or depend on each other. A correction may
/// lead beyond the largest earlier error, and is then paid off by later jobs: a limit would forget
/// the misses of jobs that come late together.
void ForecastScore::correct_shares(Horizon& horizon, const std::array<double, 2>& missed,
                                   double forecasts) {
  ++horizon.scored_jobs;
  const double mean =
      static_cast<double>(horizon.forecasts) / static_cast<double>(horizon.scored_jobs);
  const double weight = std::min(forecasts / mean, kMostWeight);
  for (std::size_t i = 0; i < kShares.size(); ++i) {
    horizon.correction[i] += kCorrectionStep * weight * (missed[i] - (1 - kShares[i]));
  }
}

void ForecastScore::add_job(Horizon& horizon, std::vector<Excess> found) {
  if (found.empty()) return;
  horizon.jobs.push_back(std::move(found));
  if (horizon.jobs.size() > kNewest) horizon.jobs.pop_front();
}

ScoreRow ForecastScore::row(const std::string& name, const Horizon& horizon) {
  const auto count = static_cast<double>(horizon.forecasts);
  ScoreRow out{.horizon = name, .forecasts = horizon.forecasts};
  out.coverage80 = static_cast<double>(horizon.in80) / count;
  out.coverage95 = static_cast<double>(horizon.in95) / count;
  std::uint64_t up_to = 0, in_minute = 0, in_ten_minutes = 0;
  for (const auto& [error_s, forecasts] : horizon.errors_s) {
    const bool has_median = up_to <= horizon.forecasts / 2;
    up_to += forecasts;
    if (has_median) out.median_error_s = error_s;
    if (error_s <= 60) in_minute = up_to;
    if (error_s <= 600) in_ten_minutes = up_to;
  }
  out.within_minute = static_cast<double>(in_minute) / count;
  out.within_ten_minutes = static_cast<double>(in_ten_minutes) / count;
  return out;
}

std::vector<ScoreRow> ForecastScore::rows() const {
  std::vector<ScoreRow> rows;
  Horizon all;
  for (std::size_t i = 0; i < kHorizons; ++i) {
    const Horizon& each = horizons_[i];
    if (each.forecasts == 0) continue;
    rows.push_back(row(kNames[i], each));
    for (const auto& [error_s, forecasts] : each.errors_s) all.errors_s[error_s] += forecasts;
    all.forecasts += each.forecasts;
    all.in80 += each.in80;
    all.in95 += each.in95;
  }
  if (!rows.empty()) rows.push_back(row("all", all));
  return rows;
}

}  // namespace orrery::sim

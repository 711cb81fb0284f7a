#include "sim/forecast/forecast_score.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace orrery::sim {
namespace {

constexpr Nanos kMinute = 60 * kNanosPerSecond;
constexpr std::array<Nanos, 4> kLimits{kMinute, 5 * kMinute, 15 * kMinute, 60 * kMinute};
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

/// Returns the value that the fraction `share` of the values does not exceed.
double level_of(std::vector<double>& values, double share) {
  const auto count = static_cast<double>(values.size());
  const double rank = std::clamp(std::ceil(share * count), 1.0, count) - 1;
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(rank);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

/// Moves both limits outwards by `by`, not beyond the instant of the forecast and the median.
void widen(Nanos& low, Nanos& high, double by, const InstantForecast& around) {
  const auto step = static_cast<Nanos>(std::clamp(by, -1e18, 1e18));
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
  return {distance_from(raw.low80, raw.high80, actual) / scale,
          distance_from(raw.low95, raw.high95, actual) / scale};
}

/// A job that comes counts as one more, which may have any error.
ForecastScore::Widening ForecastScore::widening(const Horizon& horizon,
                                                const std::vector<Excess>& late) {
  if (horizon.jobs.size() < kLeast) return {};
  const double one_more = 1 + 1 / static_cast<double>(horizon.jobs.size());
  const std::array<double, 2> shares{0.80 * one_more, 0.95 * one_more};
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
  for (const auto& [job, forecasts] : open_) {
    std::array<std::vector<Excess>, kHorizons> of_job;
    for (const Open& open : forecasts) {
      if (now > open.raw.high80) of_job[horizon_of(open.raw)].push_back(excess(open.raw, now));
    }
    for (std::size_t i = 0; i < kHorizons; ++i) {
      keep_some(of_job[i]);
      late[i].insert(late[i].end(), of_job[i].begin(), of_job[i].end());
    }
  }
  for (std::size_t i = 0; i < kHorizons; ++i) widening_[i] = widening(horizons_[i], late[i]);
}

InstantForecast ForecastScore::forecast(const std::vector<Nanos>& samples, Nanos made) const {
  InstantForecast out = raw_forecast(samples, made);
  if (out.median == kNever) return out;
  measure_widening(made);
  const std::array<double, 2> by = widening_[horizon_of(out)].value_or(std::array<double, 2>{});
  const double scale = scale_of(out);
  widen(out.low80, out.high80, by[0] * scale, out);
  widen(out.low95, out.high95, by[1] * scale, out);
  return out;
}

void ForecastScore::add(JobId job, const InstantForecast& forecast,
                        const std::vector<Nanos>& samples) {
  if (forecast.median == kNever) {
    ++beyond_;
    return;
  }
  open_[job].push_back({forecast, raw_forecast(samples, forecast.made)});
}

void ForecastScore::score(const Open& open, Nanos actual) {
  const InstantForecast& shown = open.shown;
  Horizon& horizon = horizons_[horizon_of(shown)];
  horizon.errors_s.push_back(static_cast<float>(std::abs(to_seconds(actual - shown.median))));
  if (actual >= shown.low80 && actual <= shown.high80) ++horizon.in80;
  if (actual >= shown.low95 && actual <= shown.high95) ++horizon.in95;
}

std::vector<InstantForecast> ForecastScore::resolve_job(JobId job, Nanos actual) {
  std::vector<InstantForecast> out;
  const auto known = open_.extract(job);
  if (!known) return out;
  std::array<std::vector<Excess>, kHorizons> found;
  for (const Open& open : known.mapped()) {
    score(open, actual);
    found[horizon_of(open.raw)].push_back(excess(open.raw, actual));
    out.push_back(open.shown);
  }
  for (std::size_t i = 0; i < kHorizons; ++i) add_job(horizons_[i], std::move(found[i]));
  measured_ = kNever;
  return out;
}

void ForecastScore::keep_some(std::vector<Excess>& of_job) {
  const std::size_t count = of_job.size();
  if (count <= kOfJob) return;
  for (std::size_t i = 0; i < kOfJob; ++i) of_job[i] = of_job[i * count / kOfJob];
  of_job.resize(kOfJob);
}

void ForecastScore::add_job(Horizon& horizon, std::vector<Excess> found) {
  if (found.empty()) return;
  keep_some(found);
  horizon.jobs.push_back(std::move(found));
  if (horizon.jobs.size() > kNewest) horizon.jobs.pop_front();
}

ScoreRow ForecastScore::row(const std::string& name, std::vector<float> errors_s,
                            std::uint64_t in80, std::uint64_t in95) {
  const auto within = [&errors_s](float most) {
    return std::count_if(errors_s.begin(), errors_s.end(),
                         [most](float error) { return error <= most; });
  };
  const auto count = static_cast<double>(errors_s.size());
  ScoreRow out{.horizon = name, .forecasts = errors_s.size()};
  out.within_minute = static_cast<double>(within(60)) / count;
  out.within_ten_minutes = static_cast<double>(within(600)) / count;
  out.coverage80 = static_cast<double>(in80) / count;
  out.coverage95 = static_cast<double>(in95) / count;
  const auto middle = errors_s.begin() + static_cast<std::ptrdiff_t>(errors_s.size() / 2);
  std::nth_element(errors_s.begin(), middle, errors_s.end());
  out.median_error_s = *middle;
  return out;
}

std::vector<ScoreRow> ForecastScore::rows() const {
  std::vector<ScoreRow> rows;
  Horizon all;
  for (std::size_t i = 0; i < kHorizons; ++i) {
    const Horizon& each = horizons_[i];
    if (each.errors_s.empty()) continue;
    rows.push_back(row(kNames[i], each.errors_s, each.in80, each.in95));
    all.errors_s.insert(all.errors_s.end(), each.errors_s.begin(), each.errors_s.end());
    all.in80 += each.in80;
    all.in95 += each.in95;
  }
  if (!rows.empty()) rows.push_back(row("all", all.errors_s, all.in80, all.in95));
  return rows;
}

}  // namespace orrery::sim

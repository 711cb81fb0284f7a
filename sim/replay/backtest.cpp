#include "sim/replay/backtest.hpp"

#include <bit>
#include <cmath>
#include <iterator>

#include <fmt/format.h>

namespace orrery::sim {
namespace {

constexpr double kNear_s = 60;
constexpr std::int64_t kHour_s = 3600;

std::string key_of(BacktestGroup by, std::uint32_t number) {
  if (by == BacktestGroup::size) return size_class(number);
  return by == BacktestGroup::hour ? fmt::format("{:02}", number) : "";
}

}  // namespace

void Backtest::add(const JobRow& row) {
  if (row.job->recorded_start_s < row.job->submit_s || row.start < 0) return;
  const double recorded = static_cast<double>(row.job->recorded_start_s - row.job->submit_s);
  const double replayed = to_seconds(row.start - row.submit_time());
  const RecordedUse::Reasons why =
      use_.reasons(*row.job, row.start / kNanosPerSecond, row.job->recorded_start_s);
  const auto hour = static_cast<std::uint32_t>(row.job->submit_s / kHour_s % 24);
  for (const auto& key : {std::pair{BacktestGroup::all, 0u},
                          {BacktestGroup::size, size_limit(*row.job)},
                          {BacktestGroup::hour, hour}}) {
    Sum& sum = sums_[key];
    ++sum.jobs;
    sum.recorded += recorded;
    sum.replayed += replayed;
    sum.difference += std::abs(replayed - recorded);
    sum.near += std::abs(replayed - recorded) <= kNear_s ? 1 : 0;
    sum.longer += recorded - replayed > kNear_s ? 1 : 0;
    sum.full += static_cast<double>(why.full_s);
    sum.quota += static_cast<double>(why.quota_s);
    sum.room += static_cast<double>(why.room_s);
  }
}

std::vector<BacktestRow> Backtest::rows() const {
  std::vector<BacktestRow> out;
  for (const auto& [key, sum] : sums_) {
    const auto count = static_cast<double>(sum.jobs);
    out.push_back({key.first, key_of(key.first, key.second), sum.jobs, sum.recorded / count,
                   sum.replayed / count, sum.difference / count,
                   static_cast<double>(sum.near) / count, static_cast<double>(sum.longer) / count,
                   sum.full / count, sum.quota / count, sum.room / count});
  }
  return out;
}

std::string backtest_csv(const std::vector<BacktestRow>& rows) {
  std::string text =
      "by,key,jobs,recorded_wait_s,replayed_wait_s,difference_s,within_minute,"
      "longer_in_log,full_s,quota_s,room_s\n";
  for (const BacktestRow& row : rows) {
    fmt::format_to(std::back_inserter(text),
                   "{},{},{},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g}\n",
                   name_of(row.by), row.key, row.jobs, row.recorded_wait_s, row.replayed_wait_s,
                   row.difference_s, row.within_minute, row.longer_in_log, row.full_s, row.quota_s,
                   row.room_s);
  }
  return text;
}

}  // namespace orrery::sim

#include "live/group/step_reports.hpp"

#include <algorithm>
#include <utility>

namespace orrery::live {
namespace {

constexpr double kLeast_s = 0.002;
constexpr double kMost_s = 0.1;
constexpr double kSlack = 1.0 / 16;  ///< wait after the expected end, as a share of a step

}  // namespace

void StepReports::add_report(Report report, std::optional<double> end_s) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (is_closed_) return;
  reports_.push_back(std::move(report));
  if (!end_s) return;
  if (newest_s_) interval_s_ = *end_s - *newest_s_;
  newest_s_ = end_s;
}

std::string StepReports::drain_frames() {
  std::vector<Report> reports;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    reports.swap(reports_);
    reports_.reserve(reports.size());
  }
  std::string frames;
  for (const Report& report : reports) frames += encode_frame(report());
  return frames;
}

double StepReports::next_look_s(double now_s) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!interval_s_) return now_s + kMost_s;
  const double slack_s = *interval_s_ * kSlack;
  const double look_s = std::max(*newest_s_ + *interval_s_ + slack_s, now_s + slack_s);
  return std::clamp(look_s, now_s + kLeast_s, now_s + kMost_s);
}

void StepReports::close_reports() {
  const std::lock_guard<std::mutex> lock(mutex_);
  is_closed_ = true;
  reports_.clear();
}

void StepReports::open_reports() {
  const std::lock_guard<std::mutex> lock(mutex_);
  is_closed_ = false;
}

}  // namespace orrery::live

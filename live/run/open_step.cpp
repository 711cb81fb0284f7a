#include "live/run/open_step.hpp"

#include <utility>

namespace orrery::live {
namespace {

// Inverse tolerance: a step counts as longer if it takes a quarter longer than the last one.
constexpr Nanos kBand = 4;

}  // namespace

bool OpenStep::is_as_before(Nanos now) const {
  return took_ > 0 && now - began_at_ <= took_ + took_ / kBand;
}

Nanos OpenStep::delay(Nanos by, Nanos now) {
  if (by <= 0) return now;
  if (!delayed_ || delayed_->first != number_) delayed_.emplace(number_, now + by);
  return delayed_->second;
}

void OpenStep::begin(Nanos now) {
  under_way_ = true;
  began_at_ = now;
}

ReportedWork OpenStep::add_report(std::uint32_t rank, std::uint32_t life, const StepReport& report,
                                  std::uint64_t epoch) {
  const auto which = std::tuple(life, report.epoch(), report.step());
  const auto [known, first] = heard_.emplace(rank, which);
  if (!first && known->second == which) return ReportedWork::none;
  known->second = which;
  if (report.step() != number_) return ReportedWork::none;
  if (!report.abandoned() && report.epoch() == epoch) reports_[rank] = report;
  return report.epoch() < formed_ ? ReportedWork::discarded : ReportedWork::open;
}

void OpenStep::mark_interrupted() {
  under_way_ = false;
  disturbed_ = true;
}

void OpenStep::roll_back_to(Step next) {
  mark_interrupted();
  reports_.assign(reports_.size(), std::nullopt);
  number_ = next;
}

void OpenStep::discard_reports(std::uint64_t formed) {
  reports_.assign(reports_.size(), std::nullopt);
  formed_ = formed;
}

std::vector<StepReport> OpenStep::commit_step(Nanos now, Nanos before) {
  std::vector<StepReport> reports;
  for (std::optional<StepReport>& report : reports_) {
    reports.push_back(std::exchange(report, {}).value_or(StepReport{}));
  }
  const bool undisturbed = !std::exchange(disturbed_, false);
  const bool delayed = delayed_ && delayed_->first == number_;
  took_ = now - (undisturbed && !delayed ? before : began_at_);
  under_way_ = false;
  ++number_;
  return reports;
}

}  // namespace orrery::live

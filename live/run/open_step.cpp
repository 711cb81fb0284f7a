#include "live/run/open_step.hpp"

#include <utility>

namespace orrery::live {
namespace {

constexpr Nanos kBand = 4;  // it lasts when it takes a quarter longer than the last one

}  // namespace

bool OpenStep::as_before(Nanos now) const {
  return took_ > 0 && now - began_at_ <= took_ + took_ / kBand;
}

void OpenStep::begin(Nanos now) {
  under_way_ = true;
  began_at_ = now;
}

bool OpenStep::take(std::uint32_t rank, std::uint32_t life, const StepReport& report,
                    std::uint64_t epoch) {
  const auto which = std::tuple(life, report.epoch(), report.step());
  const auto [known, first] = heard_.emplace(rank, which);
  if (!first && known->second == which) return false;
  known->second = which;
  const bool counts = report.epoch() == epoch && report.step() == number_;
  if (!report.abandoned() && counts) reports_[rank] = report;
  return true;
}

void OpenStep::revoke() {
  under_way_ = false;
  disturbed_ = true;
}

void OpenStep::discard() { reports_.assign(reports_.size(), std::nullopt); }

std::vector<StepReport> OpenStep::commit(Nanos now, Nanos before) {
  std::vector<StepReport> reports;
  for (std::optional<StepReport>& report : reports_) {
    reports.push_back(std::exchange(report, {}).value_or(StepReport{}));
  }
  const bool undisturbed = !std::exchange(disturbed_, false);
  took_ = now - (undisturbed ? before : began_at_);
  under_way_ = false;
  ++number_;
  return reports;
}

}  // namespace orrery::live

#include "live/failure_records.hpp"

#include <fmt/format.h>

namespace orrery::live {

void FailureRecords::lost(std::uint32_t rank, Nanos at, Nanos noticed, const std::string& cause) {
  Record& record = records_.emplace_back();
  record.rank = rank;
  record.report.set_time_s(to_seconds(at));
  record.report.set_detected_s(to_seconds(noticed));
  record.report.set_cause(fmt::format("rank {} {}", rank, cause));
  record.report.set_lost_steps(0);
}

void FailureRecords::known(Nanos now) {
  for (auto& [rank, report] : records_) {
    if (!report.has_known_s()) report.set_known_s(to_seconds(now));
  }
}

void FailureRecords::working(Nanos now) {
  for (auto& [rank, report] : records_) {
    if (!report.has_working_s()) report.set_working_s(to_seconds(now));
  }
}

void FailureRecords::replaced(std::uint32_t rank, Nanos now) {
  for (auto& [lost, report] : records_) {
    if (lost == rank && !report.has_replaced_s()) report.set_replaced_s(to_seconds(now));
  }
}

void FailureRecords::resumed(Nanos now) {
  for (auto& [rank, report] : records_) {
    if (!report.has_resumed_s()) report.set_resumed_s(to_seconds(now));
  }
}

void FailureRecords::fill(Report& report) const {
  for (const Record& record : records_) *report.add_failures() = record.report;
}

}  // namespace orrery::live

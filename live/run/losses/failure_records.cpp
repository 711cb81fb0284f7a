#include "live/run/losses/failure_records.hpp"

#include <fmt/format.h>

namespace orrery::live {

void FailureRecords::add_loss(std::uint32_t rank, Nanos at, Nanos noticed,
                              const std::string& cause) {
  JournalLoss& record = records_.emplace_back();
  record.set_index(static_cast<std::uint32_t>(records_.size() - 1));
  record.set_rank(rank);
  FailureReport& report = *record.mutable_report();
  report.set_time_s(to_seconds(at));
  report.set_detected_s(to_seconds(noticed));
  report.set_cause(fmt::format("rank {} {}", rank, cause));
  report.set_lost_steps(0);
  mark_changed(record);
}

void FailureRecords::mark_known(Nanos now) {
  for (JournalLoss& record : records_) {
    if (record.report().has_known_s()) continue;
    record.mutable_report()->set_known_s(to_seconds(now));
    mark_changed(record);
  }
}

void FailureRecords::mark_working(Nanos now) {
  for (JournalLoss& record : records_) {
    if (record.report().has_working_s()) continue;
    record.mutable_report()->set_working_s(to_seconds(now));
    mark_changed(record);
  }
}

void FailureRecords::mark_replaced(std::uint32_t rank, Nanos now) {
  for (JournalLoss& record : records_) {
    if (record.rank() != rank || record.report().has_replaced_s()) continue;
    record.mutable_report()->set_replaced_s(to_seconds(now));
    mark_changed(record);
  }
}

void FailureRecords::mark_resumed(Nanos now) {
  for (JournalLoss& record : records_) {
    if (record.report().has_resumed_s()) continue;
    record.mutable_report()->set_resumed_s(to_seconds(now));
    mark_changed(record);
  }
}

void FailureRecords::fill(Report& report) const {
  for (const JournalLoss& record : records_) *report.add_failures() = record.report();
}

std::vector<JournalLoss> FailureRecords::take_changed() {
  std::vector<JournalLoss> changed;
  for (const std::uint32_t index : changed_) changed.push_back(records_[index]);
  changed_.clear();
  return changed;
}

}  // namespace orrery::live

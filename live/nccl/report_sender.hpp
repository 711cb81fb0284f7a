// Sender of reports (collective_report) from a plugin of NCCL in a rank to `orrery run`, over a
// Unix datagram socket. Never blocks and never fails: without `orrery run`, and while the receiver
// is behind, reports are dropped. Any thread.
#pragma once

#include <chrono>
#include <mutex>
#include <string>

#include "live/nccl/collective_report.hpp"

namespace orrery::live {

/// Sender of one process. Collects reports and sends those of 5 ms as one datagram, because a
/// socket keeps few datagrams.
class ReportSender {
 public:
  /// Opens no socket before the first report. `path`: socket of the receiver; null or empty: all
  /// reports are dropped.
  explicit ReportSender(const char* path) : path_(path == nullptr ? "" : path) {}
  ~ReportSender();
  ReportSender(const ReportSender&) = delete;
  ReportSender& operator=(const ReportSender&) = delete;

  /// Returns true if the process has a receiver.
  bool has_receiver() const { return !path_.empty(); }
  /// Adds a report behind the earlier ones, and sends all if the newest datagram is 5 ms old.
  void add_report(const NcclReport& report);
  /// Sends the reports that wait.
  void send_reports();

 private:
  void send_waiting();

  const std::string path_;
  std::mutex mutex_;
  int socket_ = -1;
  std::string waiting_;
  std::chrono::steady_clock::time_point sent_{};
};

}  // namespace orrery::live

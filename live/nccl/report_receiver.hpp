// Receiver of the reports of NCCL's plugins (collective_report) in `orrery run`. One thread.
#pragma once

#include <string>
#include <vector>

#include "live/nccl/collective_report.hpp"

namespace orrery::live {

/// Unix datagram socket to which the ranks of a program send reports.
class ReportReceiver {
 public:
  /// Creates the socket at `path`, which must not exist. Throws an environment Error if the system
  /// refuses it or the path is too long.
  explicit ReportReceiver(const std::string& path);
  ~ReportReceiver();  ///< removes the socket
  ReportReceiver(const ReportReceiver&) = delete;
  ReportReceiver& operator=(const ReportReceiver&) = delete;

  /// Returns the reports since the last call, oldest first, without blocking. Lines that are no
  /// reports are dropped.
  std::vector<NcclReport> drain_reports();

 private:
  const std::string path_;
  int socket_ = -1;
};

}  // namespace orrery::live
